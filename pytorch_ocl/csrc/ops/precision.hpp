// SPDX-License-Identifier: MIT
#pragma once
#include <ATen/Context.h>
#include <dlprim/runtime/settings.hpp>

namespace pytorch_ocl {

/// What torch.set_float32_matmul_precision allows holds for the products and convolutions called next.
inline void follow_float32_precision() {
  dlprim::settings.tf32 = at::globalContext().float32MatmulPrecision() != at::Float32MatmulPrecision::HIGHEST;
}

}  // namespace pytorch_ocl
