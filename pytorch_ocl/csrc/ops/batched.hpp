// SPDX-License-Identifier: MIT
#pragma once
#include "runtime/tensor.hpp"

namespace pytorch_ocl {

/// The view of a tensor with leading dimensions of size 1 added up to `dims`: (C, H, W) as a batch of one.
inline dlprim::TensorView batched(const at::Tensor& tensor, int dims, const char* op) {
  const dlprim::TensorView view = view_of(tensor, op);
  const int added = dims - view.dims;
  if (added <= 0) return view;
  std::vector<std::int64_t> sizes(std::size_t(added), 1), strides(std::size_t(added), view.numel());
  sizes.insert(sizes.end(), view.sizes.begin(), view.sizes.begin() + view.dims);
  strides.insert(strides.end(), view.strides.begin(), view.strides.begin() + view.dims);
  return dlprim::TensorView(view.data, view.dtype, std::span<const std::int64_t>(sizes),
                            std::span<const std::int64_t>(strides));
}

}  // namespace pytorch_ocl
