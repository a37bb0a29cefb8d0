// SPDX-License-Identifier: MIT
#pragma once
#include <ATen/TensorIterator.h>

#include "runtime/tensor.hpp"

namespace pytorch_ocl {

/// Operand `index` of an iterator as a view of the iterator's shape, which is row-major in the iterator's own order.
inline dlprim::TensorView operand_view(at::TensorIteratorBase& it, int index, const char* op) {
  TORCH_CHECK(it.ndim() <= dlprim::max_dims, op, ": expected at most ", dlprim::max_dims, " dims, got ", it.ndim());
  dlprim::TensorView view;
  view.data = buffer_at(it.data_ptr(index), it.numel());
  view.dtype = data_type_of(it.dtype(index), op);
  view.dims = it.ndim();
  for (int d = 0; d < view.dims; d++) {
    view.sizes[std::size_t(d)] = it.shape()[view.dims - 1 - d];
    view.strides[std::size_t(d)] = it.strides(index)[view.dims - 1 - d] / it.element_size(index);
  }
  return view;
}

}  // namespace pytorch_ocl
