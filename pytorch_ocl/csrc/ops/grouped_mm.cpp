// SPDX-License-Identifier: MIT
// Products of groups of rows or of k, whose ends are on the device.
#include <ATen/native/GroupedMMUtils.h>
#include <ATen/ops/bmm.h>
#include <dlprim/primitives/gemm.hpp>

#include "generated/functions/grouped_mm.h"
#include "runtime/tensor.hpp"

namespace pytorch_ocl::ops {

// Without waiting for the ends where the device has a kernel that reads them, else as PyTorch's code for all devices.
at::Tensor _grouped_mm(const at::Tensor& self, const at::Tensor& mat2, const std::optional<at::Tensor>& offs,
                       const std::optional<at::Tensor>& bias, std::optional<at::ScalarType> out_dtype) {
  at::native::_grouped_mm_validate_inputs(self, mat2, offs, bias, out_dtype);
  const at::ScalarType dtype = at::native::_resolve_grouped_mm_out_dtype(self, mat2, out_dtype);
  at::Tensor out = at::native::create_grouped_gemm_output_tensor(self, mat2, offs, dtype);
  const bool matches = self.size(-1) == mat2.size(-2) && self.scalar_type() == mat2.scalar_type();
  if (self.dim() == 2 && matches && offs->numel() > 0 && !offs->is_cpu() &&
      dlprim::grouped_gemm(current_queue(self.device()), view_of(self, "_grouped_mm"), view_of(mat2, "_grouped_mm"),
                           view_of(offs->contiguous(), "_grouped_mm"), view_of(out, "_grouped_mm")))
    return out;
  at::native::_grouped_mm_fallback(self, mat2, offs, bias, out_dtype, out);
  return out;
}

}  // namespace pytorch_ocl::ops
