// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/primitives/plan.hpp>
#include <dlprim/runtime/queue.hpp>

namespace dlprim {

/// Copies `from`, broadcast to the shape of `to`, converting between any two dtypes (complex to real keeps the real
/// part). Any strides; the two must not overlap unless they are the same view. Throws ValidationError for shapes that
/// do not broadcast.
void copy(Queue& queue, const TensorView& to, const TensorView& from);
/// The same over a plan of one output and one input.
void copy(Queue& queue, const Plan& plan);

/// Sets every element.
void fill(Queue& queue, const TensorView& to, Scalar value);
/// The same over a plan of one output.
void fill(Queue& queue, const Plan& plan, Scalar value);

}  // namespace dlprim
