// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/primitives/reduce.hpp>

namespace dlprim {

/// Sums that are the gradients of bias and weight of every norm: of gy, and of gy * (x - mean) * rstd, over the dims in
/// which `sum` and `dot` have size 1. All inputs have x's sizes, broadcast by strides of 0.
void norm_sums(Queue& queue, const TensorView& sum, const TensorView& dot, const TensorView& gy, const TensorView& x,
               const TensorView& mean, const TensorView& rstd);

}  // namespace dlprim
