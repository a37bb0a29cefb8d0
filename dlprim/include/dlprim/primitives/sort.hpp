// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/queue.hpp>

namespace dlprim {

/// Stable order of each row of `keys` [rows, n] (contiguous, any real dtype): order[row, i] (int64, contiguous) is the
/// position of the i-th smallest (largest, when descending) element; `sorted` (contiguous) gets the elements. One of the
/// two may be left out, which takes less time.
/// NaN counts as the largest, -0 equals 0. Four ways, of which DLPRIM_SORT forces one where it can run: sweep (GPUs
/// whose work-items exchange by shuffles: Adinets and Merrill 2022), radix (other GPUs: Merrill and Grimshaw 2011),
/// parts (CPUs, by radix as well), and merge (for short rows: runs of 16 are sorted by insertion, then merged pairwise
/// along merge paths; Green, McColl and Bader 2012).
void sort_order(Queue& queue, const TensorView& keys, const TensorView& order, bool descending,
                const TensorView& sorted = {});

/// places[row, i] (int64, contiguous, [rows, k] with 0 < k <= n): positions, in ascending order, of the k smallest
/// (largest, when descending) elements of each row of `keys` [rows, n] (contiguous, any real dtype), the first ones of
/// equal elements. NaN counts as the largest. Returns false, having done nothing, where sorting the rows takes less
/// time. DLPRIM_SORT=radix: by work-groups of many work-items on CPUs, too.
bool select_places(Queue& queue, const TensorView& keys, const TensorView& places, bool descending);

/// Stable lexicographic order of the rows of `keys` [n, columns]: order is [n].
void sort_rows(Queue& queue, const TensorView& keys, const TensorView& order);

/// Element of each row that a selection by rank takes.
enum class Rank : std::uint8_t {
  kth,  ///< the k-th smallest, k from 0
  median,  ///< the lower median; NaN where the row holds one
  nanmedian,  ///< the lower median of those that are no NaN; NaN where there are none
};

/// places[row] (int64, contiguous, [rows]): position of the first element of each row of `keys` [rows, n] (contiguous,
/// any real dtype, n > 0) that has the rank: kth, median or nanmedian. NaN counts as the largest, -0 equals 0.
void select_rank(Queue& queue, const TensorView& keys, const TensorView& places, Rank rank, std::int64_t k = 0);

/// values[row], places[row] (int64; contiguous, [rows]): the most frequent element of each row of `keys` [rows, n]
/// (contiguous, any real dtype, n > 0), the smallest of several, and the last position of it. All NaN are one element,
/// the largest; -0 equals 0.
void select_mode(Queue& queue, const TensorView& keys, const TensorView& values, const TensorView& places);

/// out[i] (int64 or int32, contiguous) = first position in the row of `sorted` [rows, n] whose element is not less than
/// (right: greater than) values[row, i]. A `sorter` (int64, shape of sorted; optional) says in which order the elements
/// are to be read. One row serves all values when sorted has one.
void search_sorted(Queue& queue, const TensorView& out, const TensorView& sorted, const TensorView& values,
                   const TensorView& sorter, bool right);

/// heads[i] (bool, [n]): whether row order[i] of `keys` [n, columns] differs from row order[i - 1]; heads[0] is true.
/// Keys of one column may be in order themselves: `order` is not defined then.
void run_heads(Queue& queue, const TensorView& keys, const TensorView& order, const TensorView& heads);

}  // namespace dlprim
