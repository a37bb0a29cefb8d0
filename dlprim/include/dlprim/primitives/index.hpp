// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/queue.hpp>

#include <limits>
#include <span>

namespace dlprim {

/// One dimension of a tensor that is addressed by an index tensor (int64 or int32).
struct IndexedDim {
  TensorView index;     ///< shape of the loop; strides of 0 broadcast
  std::int64_t size;    ///< of the addressed dimension: valid indices are below it
  std::int64_t stride;  ///< of the addressed dimension, in elements
};

/// How updates combine with what a destination holds. Updates of one element by several indices are atomic and in no
/// particular order; for `assign` one of them wins. bool adds as "or", multiplies as "and".
enum class Update : std::uint8_t { assign, add, multiply, maximum, minimum };

struct IndexOptions {
  bool wrap = false;  ///< indices -size .. -1 count from the end
  std::int64_t ignore = std::numeric_limits<std::int64_t>::min();  ///< elements whose first index is this are skipped
  /// Message of the IndexError for an index out of range (see QueueStatus): a literal or text that lives on.
  const char* message = "index %lld is out of bounds";
};

/// out[i] = source[i with the indexed dims at index[i]] for all i of out's shape. `source` has out's shape: the strides
/// of its indexed dims are 0 where the index takes their place. Equal dtypes, any of the closed list. An index out of
/// range reads nothing and is reported at the next synchronization.
void indexed_read(Queue& queue, const TensorView& out, const TensorView& source, std::span<const IndexedDim> dims,
                  const IndexOptions& options = {});

/// destination[i with the indexed dims at index[i]] is updated by values[i], for all i of destination's shape (strides
/// as for indexed_read; values broadcast). Values are converted to destination's dtype; assign needs equal dtypes,
/// complex numbers take only assign and add. Elements of 8 bytes need 64-bit atomics for all but assign
/// (NotImplementedError).
void indexed_write(Queue& queue, const TensorView& destination, const TensorView& values,
                   std::span<const IndexedDim> dims, Update update, const IndexOptions& options = {});

/// out[.., i, ..] = source[.., index[.., i, ..], ..] along `dim`; out has index's shape.
void gather(Queue& queue, const TensorView& out, const TensorView& source, int dim, const TensorView& index,
            const IndexOptions& options = {});
/// destination[.., index[.., i, ..], ..] is updated by values[.., i, ..]; values and index have one shape (values may
/// be larger).
void scatter(Queue& queue, const TensorView& destination, int dim, const TensorView& index, const TensorView& values,
             Update update, const IndexOptions& options = {});
/// As gather and scatter with an index of one dimension that holds for all rows.
void index_select(Queue& queue, const TensorView& out, const TensorView& source, int dim, const TensorView& index,
                  const IndexOptions& options = {});
void index_update(Queue& queue, const TensorView& destination, int dim, const TensorView& index,
                  const TensorView& values, Update update, const IndexOptions& options = {});

/// The deterministic form of indexed_write for add and assign: destination[rows[i]] is updated by values[order[i]],
/// each run of equal rows[i] one after the other, sums in the accumulate type. `rows` is sorted int64, `order` int64,
/// both [n]; destination and values contiguous, elements counted row-major, any dtypes (assign: equal ones).
void ordered_write(Queue& queue, const TensorView& destination, const TensorView& values, const TensorView& rows,
                   const TensorView& order, Update update);

}  // namespace dlprim
