// SPDX-License-Identifier: MIT
#pragma once
#include <ATen/Context.h>
#include <dlprim/runtime/settings.hpp>

namespace pytorch_ocl {

/// What is allowed for products of CUDA devices, by torch.set_float32_matmul_precision or by fp32_precision of
/// torch.backends or torch.backends.cuda.matmul, holds for the products and convolutions called next.
inline void follow_float32_precision() {
  const at::Float32Precision allowed =
      at::globalContext().float32Precision(at::Float32Backend::CUDA, at::Float32Op::MATMUL);
  dlprim::settings.tf32 = allowed == at::Float32Precision::TF32;
}

}  // namespace pytorch_ocl
