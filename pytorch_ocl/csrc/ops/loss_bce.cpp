// SPDX-License-Identifier: MIT
// Binary cross entropy of probabilities.
#include <dlprim/primitives/pointwise.hpp>

#include <ATen/core/Reduction.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/sum.h>

#include "generated/functions/loss.h"
#include "runtime/tensor.hpp"

namespace pytorch_ocl::ops {

namespace {

// Runs `statements` over the tensors and, as the last input, the weights if there are any.
void run(std::initializer_list<at::Tensor> tensors, const std::optional<at::Tensor>& weight, const at::Tensor& out,
         std::initializer_list<dlprim::Scalar> scalars, const std::string& statements, const char* op) {
  if (out.numel() == 0) return;
  std::vector<dlprim::TensorView> inputs;
  for (const at::Tensor& tensor : tensors) inputs.push_back(view_of(tensor, op));
  std::string code = statements;
  if (weight && weight->defined()) {
    code += " y0 *= x" + std::to_string(inputs.size()) + ";";
    inputs.push_back(view_of(*weight, op));
  }
  const dlprim::TensorView output = view_of(out, op);
  dlprim::pointwise_operation(current_queue(out.device()), inputs, std::span(&output, 1),
                              std::span(scalars.begin(), scalars.size()), code, dlprim::compute_type(output.dtype));
}

void check(const at::Tensor& self, const at::Tensor& target, const std::optional<at::Tensor>& weight) {
  TORCH_CHECK(self.sizes() == target.sizes(), "Using a target size (", target.sizes(),
              ") that is different to the input size (", self.sizes(), ") is deprecated. Please ensure they have the "
              "same size.");
  TORCH_CHECK(at::isFloatingType(self.scalar_type()) && self.scalar_type() == target.scalar_type(),
              "binary_cross_entropy: expected input and target of one floating dtype, got ", self.scalar_type(),
              " and ", target.scalar_type());
  TORCH_CHECK(!weight || !weight->defined() || weight->device() == self.device(),
              "binary_cross_entropy: expected all tensors on one device");
}

}  // namespace

at::Tensor& binary_cross_entropy_out(const at::Tensor& self, const at::Tensor& target,
                                     const std::optional<at::Tensor>& weight, int64_t reduction, at::Tensor& out) {
  check(self, target, weight);
  const bool none = reduction == at::Reduction::None;
  at::native::resize_output(out, none ? self.sizes() : at::IntArrayRef());
  const at::Tensor each = none ? out : at::empty_like(self);
  // Logarithms are cut off at -100, so that no loss is infinite.
  run({self, target}, weight, each, {},
      "y0 = (x1 - 1) * fmax(log1p(-x0), (T)-100) - x1 * fmax(log(x0), (T)-100);", "binary_cross_entropy");
  if (none) return out;
  return out.copy_(reduction == at::Reduction::Mean ? each.mean() : each.sum()), out;
}

at::Tensor binary_cross_entropy(const at::Tensor& self, const at::Tensor& target,
                                const std::optional<at::Tensor>& weight, int64_t reduction) {
  at::Tensor out = reduction == at::Reduction::None ? at::empty_like(self) : at::empty({}, self.options());
  return binary_cross_entropy_out(self, target, weight, reduction, out);
}

at::Tensor& binary_cross_entropy_backward_grad_input(const at::Tensor& grad_output, const at::Tensor& self,
                                                     const at::Tensor& target, const std::optional<at::Tensor>& weight,
                                                     int64_t reduction, at::Tensor& grad_input) {
  check(self, target, weight);
  at::native::resize_output(grad_input, self.sizes());
  const double share = reduction == at::Reduction::Mean ? 1.0 / double(self.numel()) : 1;
  run({self, target, grad_output}, weight, grad_input, {share},
      "y0 = x2 * w0 * (x0 - x1) / fmax((1 - x0) * x0, (T)1e-12);", "binary_cross_entropy_backward");
  return grad_input;
}

at::Tensor binary_cross_entropy_backward(const at::Tensor& grad_output, const at::Tensor& self,
                                         const at::Tensor& target, const std::optional<at::Tensor>& weight,
                                         int64_t reduction) {
  at::Tensor grad_input = at::empty_like(self);
  return binary_cross_entropy_backward_grad_input(grad_output, self, target, weight, reduction, grad_input);
}

}  // namespace pytorch_ocl::ops
