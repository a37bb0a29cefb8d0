// SPDX-License-Identifier: MIT
// Activations, fills and losses that are elementwise but have no host code shared by PyTorch's devices.
#include <ATen/TensorIterator.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/eq.h>

#include <dlprim/primitives/check.hpp>

#include "generated/functions/pointwise.h"
#include "generated/structured/gelu_backward_grad_input.h"
#include "generated/structured/gelu_out.h"
#include "ops/many_dims.hpp"
#include "ops/pointwise.hpp"
#include "runtime/tensor.hpp"

namespace pytorch_ocl {

using dlprim::PointwiseId;

namespace {

bool by_tanh(c10::string_view approximate) {
  TORCH_CHECK(approximate == "none" || approximate == "tanh", "approximate argument must be either none or tanh.");
  return approximate == "tanh";
}

}  // namespace

void structured_gelu_out::impl(const at::Tensor&, c10::string_view approximate, const at::Tensor&) {
  run_pointwise(*this, by_tanh(approximate) ? PointwiseId::gelu_tanh : PointwiseId::gelu, {});
}

void structured_gelu_backward_grad_input::impl(const at::Tensor&, const at::Tensor&, c10::string_view approximate,
                                               const at::Tensor&) {
  run_pointwise(*this, by_tanh(approximate) ? PointwiseId::gelu_tanh_backward : PointwiseId::gelu_backward, {});
}

namespace ops {

namespace {

using OptionalTensor = std::optional<at::Tensor>;

// Runs statements over tensors of one shape, broadcasting the inputs.
void compute(at::Tensor& out, std::initializer_list<at::Tensor> inputs, std::initializer_list<dlprim::Scalar> scalars,
             const char* statements, const char* op) {
  if (out.numel() == 0) return;
  const bool many = out.dim() > dlprim::max_dims;
  std::vector<at::Tensor> flat;
  std::vector<dlprim::TensorView> views;
  for (const at::Tensor& input : inputs) {
    if (!input.defined()) continue;
    if (many) flat.push_back(input.expand(out.sizes()).reshape({-1}));
    views.push_back(view_of(many ? flat.back() : input, op));
  }
  const at::Tensor dense = many ? at::empty({out.numel()}, out.options()) : out;
  const dlprim::TensorView result = view_of(dense, op);
  dlprim::pointwise_operation(current_queue(), views, std::span(&result, 1),
                              std::span<const dlprim::Scalar>(scalars.begin(), scalars.size()), statements,
                              data_type_of(out, op));
  if (many) out.copy_(dense.view(out.sizes()));
}

at::Tensor reduced(const at::Tensor& loss, int64_t reduction) {
  if (reduction == at::Reduction::Mean) return loss.mean();
  return reduction == at::Reduction::Sum ? loss.sum() : loss;
}

void check_bce(const at::Tensor& self, const at::Tensor& target) {
  TORCH_CHECK(self.sizes() == target.sizes(), "Using a target size (", target.sizes(),
              ") that is different to the input size (", self.sizes(),
              ") is deprecated. Please ensure they have the "
              "same size.");
  TORCH_CHECK(self.scalar_type() == target.scalar_type(), "Found dtype ", target.scalar_type(), " but expected ",
              self.scalar_type());
}

}  // namespace

// The buffer is what the CPU keeps for its backward pass; like CUDA, this device needs none.
std::tuple<at::Tensor, at::Tensor> log_sigmoid_forward(const at::Tensor& self) {
  at::Tensor output = at::empty_like(self);
  auto it = at::TensorIterator::unary_op(output, self);
  run_pointwise(it, PointwiseId::log_sigmoid, {});
  return {output, at::empty({0}, self.options())};
}

at::Tensor log_sigmoid_backward(const at::Tensor& grad_output, const at::Tensor& self, const at::Tensor&) {
  at::Tensor grad_input;
  auto it = at::TensorIterator::borrowing_binary_op(grad_input, self, grad_output);
  run_pointwise(it, PointwiseId::log_sigmoid_backward, {});
  return it.output();
}

at::Tensor glu_backward(const at::Tensor& grad_output, const at::Tensor& self, int64_t dim) {
  TORCH_CHECK(self.dim() > 0, "glu does not support 0-dimensional tensors");
  const int64_t where = at::maybe_wrap_dim(dim, self.dim()), half = self.size(where) / 2;
  TORCH_CHECK(self.size(where) % 2 == 0, "Halving dimension must be even, but dimension ", where, " is size ",
              self.size(where));
  at::Tensor grad_input = at::empty_like(self);
  if (grad_input.numel() == 0) return grad_input;
  auto it = at::TensorIteratorConfig()
                .add_owned_output(grad_input.narrow(where, 0, half))
                .add_owned_output(grad_input.narrow(where, half, half))
                .add_owned_const_input(self.narrow(where, 0, half))
                .add_owned_const_input(self.narrow(where, half, half))
                .add_const_input(grad_output)
                .resize_outputs(false)
                .build();
  run_pointwise(it, PointwiseId::glu_backward, {});
  return grad_input;
}

at::Tensor binary_cross_entropy(const at::Tensor& self, const at::Tensor& target, const OptionalTensor& weight,
                                int64_t reduction) {
  check_bce(self, target);
  dlprim::check_range(current_queue(), view_of(flattened(self.contiguous()), "binary_cross_entropy"), 0, 1,
                      "binary_cross_entropy: all elements of input should be between 0 and 1");
  dlprim::check_range(current_queue(), view_of(flattened(target.contiguous()), "binary_cross_entropy"), 0, 1,
                      "binary_cross_entropy: all elements of target should be between 0 and 1");
  at::Tensor loss = at::empty_like(self);
  const bool weighted = weight && weight->defined();
  compute(loss, {self, target, weighted ? *weight : at::Tensor()}, {},
          weighted ? "y0 = x2 * ((x1 - 1) * fmax(log1p(-x0), (T)-100) - x1 * fmax(log(x0), (T)-100));"
                   : "y0 = (x1 - 1) * fmax(log1p(-x0), (T)-100) - x1 * fmax(log(x0), (T)-100);",
          "binary_cross_entropy");
  return reduced(loss, reduction);
}

at::Tensor binary_cross_entropy_backward(const at::Tensor& grad_output, const at::Tensor& self,
                                         const at::Tensor& target, const OptionalTensor& weight, int64_t reduction) {
  check_bce(self, target);
  at::Tensor grad_input = at::empty_like(self);
  const bool weighted = weight && weight->defined();
  const double scale = reduction == at::Reduction::Mean ? 1.0 / double(self.numel()) : 1.0;
  compute(grad_input, {grad_output, self, target, weighted ? *weight : at::Tensor()}, {dlprim::Scalar(scale)},
          weighted ? "y0 = x3 * w0 * x0 * (x1 - x2) / fmax((1 - x1) * x1, (T)1e-12);"
                   : "y0 = w0 * x0 * (x1 - x2) / fmax((1 - x1) * x1, (T)1e-12);",
          "binary_cross_entropy_backward");
  return grad_input;
}

at::Tensor _add_relu_Tensor(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha) {
  return at::add(self, other, alpha).relu_();
}

at::Tensor& _add_relu__Tensor(at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha) {
  return self.add_(other, alpha).relu_();
}

at::Tensor& _add_relu_out(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha, at::Tensor& out) {
  return at::add_out(out, self, other, alpha).relu_();
}

at::Tensor _add_relu_Scalar(const at::Tensor& self, const at::Scalar& other, const at::Scalar& alpha) {
  return at::add(self, other, alpha).relu_();
}

at::Tensor& _add_relu__Scalar(at::Tensor& self, const at::Scalar& other, const at::Scalar& alpha) {
  return self.add_(other, alpha).relu_();
}

bool equal(const at::Tensor& self, const at::Tensor& other) {
  TORCH_CHECK(self.device() == other.device(),
              "Expected all tensors to be on the same device, but found at least two "
              "devices, ",
              self.device(), " and ", other.device(), "!");
  TORCH_CHECK(self.scalar_type() == other.scalar_type(), "Expected object of data type ", self.scalar_type(),
              " but got data type ", other.scalar_type(), " for argument 'other' in call to equal");
  if (self.sizes() != other.sizes()) return false;
  return self.numel() == 0 || at::eq(self, other).all().item<bool>();
}

}  // namespace ops
}  // namespace pytorch_ocl
