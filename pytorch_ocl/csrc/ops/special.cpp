// SPDX-License-Identifier: MIT
// Special functions without host code shared by PyTorch's devices.
#include <ATen/TensorIterator.h>

#include "generated/functions/special.h"
#include "ops/pointwise.hpp"

namespace pytorch_ocl::ops {

using dlprim::PointwiseId;

at::Tensor _standard_gamma_grad(const at::Tensor& self, const at::Tensor& output) {
  at::Tensor grad;
  auto it = at::TensorIterator::borrowing_binary_op(grad, self, output);
  run_pointwise(it, PointwiseId::standard_gamma_grad, {});
  return it.output();
}

at::Tensor _dirichlet_grad(const at::Tensor& x, const at::Tensor& alpha, const at::Tensor& total) {
  at::Tensor grad;
  auto it = at::TensorIteratorConfig()
                .add_output(grad)
                .add_const_input(x)
                .add_const_input(alpha)
                .add_const_input(total)
                .build();
  run_pointwise(it, PointwiseId::dirichlet_grad, {});
  return it.output();
}

}  // namespace pytorch_ocl::ops
