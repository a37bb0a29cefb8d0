// SPDX-License-Identifier: MIT
// What the norm operators share: optional parameters and layouts.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include "runtime/tensor.hpp"

namespace pytorch_ocl {

inline at::Tensor value(const std::optional<at::Tensor>& tensor) { return tensor.value_or(at::Tensor()); }

/// View of a tensor that may be absent.
inline dlprim::TensorView optional_view(const at::Tensor& tensor, const char* op) {
  return tensor.defined() ? view_of(tensor, op) : dlprim::TensorView();
}

/// A contiguous parameter of `type`; absent stays absent.
inline at::Tensor parameter(const at::Tensor& tensor, at::ScalarType type) {
  return tensor.defined() ? tensor.to(type).contiguous() : tensor;
}

/// dtype of saved statistics and of parameters: float32 beside a 16-bit input with float32 parameters, else the
/// input's.
inline at::ScalarType statistics_type(const at::Tensor& input, const at::Tensor& like) {
  return like.defined() ? like.scalar_type() : input.scalar_type();
}

}  // namespace pytorch_ocl
