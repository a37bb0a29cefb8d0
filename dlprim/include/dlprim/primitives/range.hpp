// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/queue.hpp>
#include <dlprim/scalar.hpp>

#include <optional>

namespace dlprim {

/// Numbers made from positions. Outputs are contiguous, of any real dtype; integers are exact in int64, others are
/// computed in float64 where the device has it, else in float32. Throws ValidationError otherwise.

/// out[i] = start + i * step
void sequence(Queue& queue, const TensorView& out, Scalar start, Scalar step);
/// Evenly spaced numbers from start to end, both included and exact; with a base, its powers to these numbers.
void spaced(Queue& queue, const TensorView& out, double start, double end, std::optional<double> base = {});
/// The lower (or upper) triangle of each matrix of `in`, zero elsewhere: columns up to (from) row + diagonal. Both are
/// contiguous, of equal shape and dtype (any), at least 2 dims; they may be the same tensor.
void triangle(Queue& queue, const TensorView& out, const TensorView& in, std::int64_t diagonal, bool lower);
/// Row and column of each element of a triangle of a rows x columns matrix, row by row: out is [2, elements], int32 or
/// int64.
void triangle_indices(Queue& queue, const TensorView& out, std::int64_t rows, std::int64_t columns, std::int64_t offset,
                      bool lower);

}  // namespace dlprim
