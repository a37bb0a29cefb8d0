// SPDX-License-Identifier: MIT
// Tensors of more dims than kernels take, which do not merge into fewer.
#pragma once
#include <ATen/TensorIterator.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/core/Tensor.h>
#include <c10/util/accumulate.h>
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

/// A contiguous tensor for a kernel that runs along `dim`: the tensor itself, or, where it has more dims than kernels
/// take, one of three dims. The kernel then runs along around_dim(x, dim).
inline at::Tensor around(const at::Tensor& x, int64_t dim) {
  if (C10_LIKELY(x.dim() <= dlprim::max_dims)) return x;
  const auto sizes = x.sizes();
  const auto along = std::size_t(at::maybe_wrap_dim(dim, x.dim()));
  return x.view(
      {c10::multiply_integers(sizes.slice(0, along)), sizes[along], c10::multiply_integers(sizes.slice(along + 1))});
}
inline int around_dim(const at::Tensor& x, int64_t dim) { return x.dim() <= dlprim::max_dims ? int(dim) : 1; }

/// A contiguous tensor whose shape does not matter to the kernel, in one dim where it has more than kernels take.
inline at::Tensor flattened(const at::Tensor& x) { return x.dim() <= dlprim::max_dims ? x : x.view({-1}); }

}  // namespace pytorch_ocl
