// SPDX-License-Identifier: MIT
#pragma once
#include <ATen/Context.h>

namespace pytorch_ocl {

/// Whether float32 products and convolutions may go through tf32: what is allowed for products of CUDA devices, by
/// torch.set_float32_matmul_precision or by fp32_precision of torch.backends or torch.backends.cuda.matmul.
inline bool allows_tf32() {
  const at::Float32Precision allowed =
      at::globalContext().float32Precision(at::Float32Backend::CUDA, at::Float32Op::MATMUL);
  return allowed == at::Float32Precision::TF32;
}

}  // namespace pytorch_ocl
