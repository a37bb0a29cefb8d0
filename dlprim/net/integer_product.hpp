// SPDX-License-Identifier: MIT
// Products of matrices of bytes with zero points, as of MatMulInteger.
#pragma once
#include <memory>

#include "operator.hpp"

namespace dlprim {

/// What is kept of weights that are the same in all calls.
struct KeptWeights;

struct IntegerProductAttributes {
  explicit IntegerProductAttributes(const AttributeReader& reader);
  std::shared_ptr<KeptWeights> kept;  ///< null: the weights may change
};

/// The sums of (a - a_zero) (b - b_zero), int32, by dot products of bytes where the device has them and b is a matrix;
/// else an undefined tensor. A zero point is one number or undefined.
Tensor integer_product(Queue& queue, const Tensor& a, const Tensor& b, const Tensor& a_zero, const Tensor& b_zero,
                       KeptWeights* kept);

}  // namespace dlprim
