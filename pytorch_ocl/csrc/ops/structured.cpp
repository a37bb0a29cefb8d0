// SPDX-License-Identifier: MIT
#include "ops/structured.hpp"

namespace pytorch_ocl {

void resize_out(const at::Tensor& out, at::IntArrayRef sizes, at::IntArrayRef strides,
                const at::TensorOptions& options) {
  // The words of PyTorch's devices, by which programs and PyTorch's tests know these errors.
  TORCH_CHECK(options.dtype() == out.dtype(), "Expected out tensor to have dtype ", options.dtype(), ", but got ",
              out.dtype(), " instead");
  TORCH_CHECK(options.device() == out.device(), "Expected out tensor to have device ", options.device(), ", but got ",
              out.device(), " instead");
  if (!at::native::resize_output(out, sizes)) return;  // its strides stay: those asked for are a proposal
  if (strides.empty()) {
    const std::optional<at::MemoryFormat> format = options.memory_format_opt();
    if (format) out.unsafeGetTensorImpl()->empty_tensor_restride(*format);
  } else {
    TORCH_INTERNAL_ASSERT(!options.memory_format_opt());
    out.as_strided_(sizes, strides);
  }
}

void check_inplace(const at::Tensor& self, at::IntArrayRef sizes, at::IntArrayRef, const at::TensorOptions& options) {
  TORCH_CHECK(options.dtype() == self.dtype(), "Bad in-place call: input tensor dtype ", self.dtype(),
              " and output tensor dtype ", options.dtype(), " should match");
  TORCH_CHECK(options.device() == self.device(), "Bad in-place call: input tensor device ", self.device(),
              " and output tensor device ", options.device(), " should match");
  TORCH_CHECK(sizes == self.sizes(), "Bad in-place call: input tensor size ", self.sizes(), " and output tensor size ",
              sizes, " should match");
}

}  // namespace pytorch_ocl
