// SPDX-License-Identifier: MIT
// Tensors of more dims than kernels take, which do not merge into fewer.
#pragma once
#include <ATen/TensorIterator.h>
#include <dlprim/tensor_view.hpp>

namespace pytorch_ocl {

/// Calls run(part) with iterators of at most dlprim::max_dims dims that together cover `it`, which is no reduction.
template <class Run>
void in_parts(at::TensorIteratorBase& it, const Run& run) {
  if (it.ndim() <= dlprim::max_dims) return run(it);
  const int last = it.ndim() - 1;
  for (int64_t i = 0; i < it.shape()[std::size_t(last)]; i++) {
    at::TensorIterator part(it);
    part.narrow(last, i, 1);  // merges the dim with its neighbour
    in_parts(part, run);
  }
}

}  // namespace pytorch_ocl
