// SPDX-License-Identifier: MIT
#include <ATen/MemoryOverlap.h>
#include <dlprim/primitives/concat.hpp>

#include "generated/structured/cat_out.h"
#include "runtime/tensor.hpp"

namespace pytorch_ocl {

void structured_cat_out::impl(const at::ITensorListRef& tensors, int64_t dim, int64_t, bool, bool, bool,
                              at::MemoryFormat, const at::Tensor& out) {
  if (out.numel() == 0) return;
  at::assert_no_internal_overlap(out);
  std::vector<dlprim::TensorView> inputs;
  std::vector<at::Tensor> converted;  // lives until the kernel is queued
  int64_t at = 0;
  for (const at::Tensor& tensor : tensors) {
    const bool legacy_empty = tensor.dim() == 1 && tensor.size(0) == 0;
    if (legacy_empty) continue;
    const at::ScalarType from = tensor.scalar_type(), to = out.scalar_type();
    // Kernels see two float16 as four bytes, which they cannot convert.
    const bool pairs = from != to && (from == at::kComplexHalf || to == at::kComplexHalf);
    if (C10_LIKELY(out.dim() <= dlprim::max_dims))
      inputs.push_back(view_of(pairs ? converted.emplace_back(tensor.to(to)) : tensor, "cat"));
    else out.narrow(dim, at, tensor.size(dim)).copy_(tensor), at += tensor.size(dim);
  }
  if (inputs.empty()) return;
  dlprim::concat(current_queue(out.device()), view_of(out, "cat"), inputs, int(dim));
}

}  // namespace pytorch_ocl
