// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/queue.hpp>

#include <optional>
#include <span>

namespace dlprim {

/// One dimension of a tensor that is addressed by an index tensor (int64 or int32).
struct IndexedDim {
  TensorView index;     ///< shape of the loop; strides of 0 broadcast
  std::int64_t size;    ///< of the addressed dimension: valid indices are below it
  std::int64_t stride;  ///< of the addressed dimension, in elements
};

/// How updates combine with what a destination holds. Updates of one element by several indices are atomic and in no
/// particular order (but see IndexOptions::ordered); for `assign` one of them wins. bool adds as "or", multiplies as
/// "and".
enum class Update : std::uint8_t { assign, add, multiply, maximum, minimum };

struct IndexOptions {
  bool wrap = false;  ///< indices -size .. -1 count from the end
  std::optional<std::int64_t> ignore = {};  ///< elements whose first index is this are skipped
  /// Updates of one element take place in row-major order of the values and in its accumulate type, rounded once: the
  /// same bits every time, and for assign the last value wins. Costs a sort of, and memory of 16 bytes for, each
  /// row of values whose dimensions no index varies along.
  bool ordered = false;
  /// Message of the IndexError for an index out of range (see QueueStatus): a literal or text that lives on.
  const char* message = "index %lld is out of bounds";
};

/// out[i] = source[i with the indexed dims at index[i]] for all i of out's shape. `source` has out's shape: the strides
/// of its indexed dims are 0 where the index takes their place. Equal dtypes, any of the closed list. An index out of
/// range reads zero and is reported at the next synchronization.
void indexed_read(Queue& queue, const TensorView& out, const TensorView& source, std::span<const IndexedDim> dims,
                  const IndexOptions& options = {});

/// destination[i with the indexed dims at index[i]] is updated by values[i], for all i of destination's shape (strides
/// as for indexed_read; values broadcast). Values are converted to destination's dtype; assign needs equal dtypes,
/// complex numbers have neither maximum nor minimum. Elements without atomics (of 8 bytes where the device
/// lacks 64-bit atomics, complex products) are updated in order. An index out of range writes nothing and is reported at the next synchronization.
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

}  // namespace dlprim
