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
  for (const at::Tensor& tensor : tensors) {
    const bool legacy_empty = tensor.dim() == 1 && tensor.size(0) == 0;
    if (!legacy_empty) inputs.push_back(view_of(tensor, "cat"));
  }
  dlprim::concat(current_queue(out.device()), view_of(out, "cat"), inputs, int(dim));
}

}  // namespace pytorch_ocl
