// SPDX-License-Identifier: MIT
#pragma once
#include <ATen/core/Tensor.h>
#include <dlprim/primitives/reduce.hpp>

#include <initializer_list>

namespace pytorch_ocl {

/// Reduces dims of `self` (none or empty: all) by a row of the reduce table into results of the reduced shape, with or
/// without the reduced dims, on the current stream.
void reduce_dims(dlprim::ReduceId id, c10::ArrayRef<at::Tensor> results, const at::Tensor& self,
                 at::OptionalIntArrayRef dims, std::initializer_list<double> scalars = {});

}  // namespace pytorch_ocl
