// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/queue.hpp>

namespace dlprim {

/// Whether `count_bins` serves so many bins on the device: a work-group counts them in local memory.
bool can_count_bins(const Device& device, std::int64_t bins);

/// counts[b] += how many elements of `numbers` are b; others than 0 to the last bin count nowhere. `counts`, [bins], and
/// `numbers`, [n], are int64 and contiguous. Throws ValidationError otherwise, or where can_count_bins is false.
void count_bins(Queue& queue, const TensorView& counts, const TensorView& numbers);

/// counts[b] += how many elements of `values`, [n], contiguous and real, lie in bin b of those of equal width between
/// the finite `low` and `high`; the last one holds `high`, too. Positions of floats are computed in their own type,
/// rounded at every step, those of integers exactly up to 2^50 apart. `counts` as above, low < high.
void count_values(Queue& queue, const TensorView& counts, const TensorView& values, double low, double high);

}  // namespace dlprim
