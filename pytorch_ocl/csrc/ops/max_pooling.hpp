// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/primitives/pool.hpp>

#include "batched.hpp"

namespace pytorch_ocl {

/// Maxima over windows of the last `axes` dimensions, and where they lie; with `samples` (3-d) for fractional windows.
inline void max_forward(int axes, const at::Tensor& self, const dlprim::PoolWindow& window, const at::Tensor& out,
                        const at::Tensor& indices, const char* op, const at::Tensor& samples = {}) {
  dlprim::TensorView numbers;
  if (samples.defined()) numbers = batched(samples, 3, op);
  dlprim::max_pool(current_queue(self.device()), batched(self, axes + 2, op), batched(out, axes + 2, op),
                   batched(indices, axes + 2, op), window, numbers);
}

/// Its gradient. `grad_name` is what PyTorch calls grad_output in the error of a wrong dtype.
inline void max_backward(int axes, const at::Tensor& grad_output, const at::Tensor& indices,
                         const dlprim::PoolWindow& window, const at::Tensor& grad_input, const char* op,
                         const char* grad_name = "grad_output") {
  TORCH_CHECK(grad_output.scalar_type() == grad_input.scalar_type(), op, ": expected dtype ", grad_input.scalar_type(),
              " for `", grad_name, "` but got dtype ", grad_output.scalar_type());
  dlprim::max_pool_backward(current_queue(grad_input.device()), batched(grad_output, axes + 2, op),
                            batched(indices, axes + 2, op), batched(grad_input, axes + 2, op), window);
}

}  // namespace pytorch_ocl
