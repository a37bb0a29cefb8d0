// SPDX-License-Identifier: MIT
#include "device_reduce.hpp"

#include <ATen/ops/add.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>

#include <vector>

namespace pytorch_ocl::distributed {

namespace {

void combine(Operation operation, at::Tensor& sum, const at::Tensor& next) {
  const bool logical = sum.scalar_type() == at::kBool;
  switch (operation) {
    case Operation::PRODUCT: logical ? sum.logical_and_(next) : sum.mul_(next); break;
    case Operation::MIN: at::minimum_out(sum, sum, next); break;
    case Operation::MAX: at::maximum_out(sum, sum, next); break;
    default: logical ? sum.logical_or_(next) : sum.add_(next);
  }
}

// From left to right; sums and products of 16 bits in float32, not rounded yet.
at::Tensor reduced(Operation operation, const std::vector<at::Tensor>& parts) {
  const at::ScalarType type = parts.front().scalar_type();
  const bool compares = operation == Operation::MIN || operation == Operation::MAX;
  const bool narrow = type == at::kHalf || type == at::kBFloat16;
  at::Tensor sum = parts.front().to(narrow && !compares ? at::kFloat : type, false, true);
  for (std::size_t i = 1; i < parts.size(); i++) combine(operation, sum, parts[i]);
  if (operation == Operation::AVG) sum.div_(double(parts.size()));
  return sum;
}

}  // namespace

// Sums of two are rounded once anyway.
void combine_two(Operation operation, at::Tensor& result, const at::Tensor& first, const at::Tensor& second) {
  const at::ScalarType type = result.scalar_type();
  const bool averages = operation == Operation::AVG && (type == at::kFloat || type == at::kDouble);
  if (averages || (operation == Operation::SUM && type != at::kBool)) {
    at::add_out(result, first, second);
    if (averages) result.mul_(0.5);
  } else {
    result.copy_(reduced(operation, {first, second}));
  }
}

}  // namespace pytorch_ocl::distributed
