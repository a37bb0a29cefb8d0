// SPDX-License-Identifier: MIT
#pragma once
#include <ATen/core/Tensor.h>

#include "host_reduce.hpp"

namespace pytorch_ocl::distributed {

/// result = what reduce() computes of two tensors, of its shape and dtype; it may be one of them.
void combine_two(Operation operation, at::Tensor& result, const at::Tensor& first, const at::Tensor& second);

}  // namespace pytorch_ocl::distributed
