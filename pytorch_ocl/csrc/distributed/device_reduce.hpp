// SPDX-License-Identifier: MIT
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "host_reduce.hpp"

namespace pytorch_ocl::distributed {

/// What reduce() computes, on a device: tensors of one shape and dtype reduced elementwise, from left to right. Of numbers
/// of 16 bits, sums and products are returned in float32, not rounded yet.
at::Tensor reduced(Operation operation, const std::vector<at::Tensor>& parts);

/// result = what reduce() computes of two tensors, of its shape and dtype; it may be one of them.
void combine_two(Operation operation, at::Tensor& result, const at::Tensor& first, const at::Tensor& second);

}  // namespace pytorch_ocl::distributed
