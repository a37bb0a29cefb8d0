// SPDX-License-Identifier: MIT
// Losses over classes; the elementwise ones are rows of the pointwise table.
#include <dlprim/primitives/loss.hpp>

#include <ATen/core/Reduction.h>
#include <ATen/native/LossMulti.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include "batched.hpp"
#include "generated/functions/loss.h"
#include "generated/structured/nll_loss_backward_grad_input.h"
#include "generated/structured/nll_loss_forward_output.h"
#include "ops/dtypes.hpp"

namespace pytorch_ocl {

namespace {

static_assert(int(dlprim::LossReduction::none) == at::Reduction::None &&
              int(dlprim::LossReduction::mean) == at::Reduction::Mean &&
              int(dlprim::LossReduction::sum) == at::Reduction::Sum);

// Targets with what keeps their memory alive.
struct Targets {
  at::Tensor target, weight;
  dlprim::ClassTargets view;
  Targets(const at::Tensor& given, const at::Tensor& weights, int dims, int64_t ignore_index, const char* op)
      : target(given) {
    TORCH_CHECK(target.scalar_type() == at::kLong || target.scalar_type() == at::kByte, op,
                ": expected scalar type Long but found ", target.scalar_type());
    view.target = batched(target, dims, op);
    view.ignore_index = ignore_index;
    if (weights.defined()) {
      weight = weights.contiguous();
      view.weights = view_of(weight, op);
    }
  }
};

void nll_forward(const at::Tensor& self, const at::Tensor& target, const at::Tensor& weight, int64_t reduction,
                 int64_t ignore_index, const at::Tensor& output, const at::Tensor& total_weight, int dims,
                 const char* op) {
  check_dtype(self, served::floating_, op);
  const Targets targets(target, weight, dims - 1, ignore_index, op);
  const bool none = reduction == at::Reduction::None;
  dlprim::nll_loss(current_queue(self.device()), batched(self, dims, op), targets.view,
                   dlprim::LossReduction(reduction), none ? batched(output, dims - 1, op) : view_of(output, op),
                   view_of(total_weight, op));
  if (none) total_weight.zero_();
}

void nll_backward(const at::Tensor& grad_output, const at::Tensor& target, const at::Tensor& weight, int64_t reduction,
                  int64_t ignore_index, const at::Tensor& total_weight, const at::Tensor& grad_input, int dims,
                  const char* op) {
  const Targets targets(target, weight, dims - 1, ignore_index, op);
  const bool none = reduction == at::Reduction::None;
  dlprim::nll_loss_backward(current_queue(grad_input.device()),
                            none ? batched(grad_output, dims - 1, op) : view_of(grad_output, op), targets.view,
                            dlprim::LossReduction(reduction), view_of(total_weight, op), batched(grad_input, dims, op));
}

// (N, C, H, W) as (N, C, H W), and (N, H, W) as (N, H W).
at::Tensor flat_input(const at::Tensor& self) {
  const bool dense = self.stride(2) == self.size(3) * self.stride(3) || self.size(2) == 1;
  return (dense ? self : self.contiguous()).flatten(2);
}

void check_nll2d(const at::Tensor& self, const at::Tensor& target, const std::optional<at::Tensor>& weight) {
  TORCH_CHECK(target.dim() == 3,
              "only batches of spatial targets supported (3D tensors) but got targets of dimension: ", target.dim());
  TORCH_CHECK(self.dim() == 4,
              "only batches of spatial inputs supported (4D tensors), but got input of dimension: ", self.dim());
  TORCH_CHECK(!weight || !weight->defined() || weight->numel() == self.size(1),
              "weight tensor should be defined either for all or no classes");
  TORCH_CHECK(self.size(0) == target.size(0) && self.size(2) == target.size(1) && self.size(3) == target.size(2),
              "size mismatch (got input: ", self.sizes(), " , target: ", target.sizes());
}

at::Tensor tensor_of(const std::optional<at::Tensor>& tensor) { return tensor.value_or(at::Tensor()); }

// A loss per row, reduced as asked for; `row` tensors have one element a row.
at::Tensor& reduce_rows(const at::Tensor& rows, int64_t reduction, bool scalar, at::Tensor& out) {
  if (reduction == at::Reduction::None) {
    const at::Tensor result = scalar ? rows.reshape({}) : rows;
    at::native::resize_output(out, result.sizes());
    return out.copy_(result), out;
  }
  const at::Tensor result = reduction == at::Reduction::Mean ? rows.mean() : rows.sum();
  at::native::resize_output(out, {});
  return out.copy_(result), out;
}

// Gradient of every row's loss.
at::Tensor row_gradients(const at::Tensor& grad_output, int64_t reduction, int64_t rows) {
  if (reduction == at::Reduction::None) return grad_output.reshape({rows});
  return (reduction == at::Reduction::Mean ? grad_output.div(rows) : grad_output).reshape({1}).expand({rows});
}

struct MarginArguments {
  int64_t rows, classes;
  int power;
  double margin;
  MarginArguments(const at::Tensor& self, const at::Tensor& target, const at::Scalar& p, const at::Scalar& width,
                  const at::Tensor& weight)
      : power(p.to<int>()), margin(width.to<double>()) {
    TORCH_CHECK(power == 1 || power == 2, "multi_margin_loss: Invalid p, expected 1 or 2 but got ", power);
    int64_t dim = 0;
    at::native::multi_margin_loss_shape_check(rows, dim, int(self.dim()), self, target, weight);
    classes = dim;
    check_dtype(self, served::floating_, "multi_margin_loss");
  }
};

}  // namespace

void structured_nll_loss_forward_output::impl(const at::Tensor& self, const at::Tensor& target,
                                              at::OptionalTensorRef weight, int64_t reduction, int64_t ignore_index,
                                              const at::Tensor& output, const at::Tensor& total_weight) {
  nll_forward(self, target, weight.has_value() ? *weight : at::Tensor(), reduction, ignore_index, output, total_weight,
              2, "nll_loss");
}

void structured_nll_loss_backward_grad_input::impl(const at::Tensor& grad_output, const at::Tensor& self,
                                                   const at::Tensor& target, at::OptionalTensorRef weight,
                                                   int64_t reduction, int64_t ignore_index,
                                                   const at::Tensor& total_weight, const at::Tensor& grad_input) {
  nll_backward(grad_output, target, weight.has_value() ? *weight : at::Tensor(), reduction, ignore_index, total_weight,
               grad_input, 2, "nll_loss_backward");
}

namespace ops {

std::tuple<at::Tensor&, at::Tensor&> nll_loss2d_forward_output(const at::Tensor& self, const at::Tensor& target,
                                                               const std::optional<at::Tensor>& weight,
                                                               int64_t reduction, int64_t ignore_index,
                                                               at::Tensor& output, at::Tensor& total_weight) {
  check_nll2d(self, target, weight);
  at::native::resize_output(total_weight, {});
  const bool none = reduction == at::Reduction::None;
  at::native::resize_output(output, none ? target.sizes() : at::IntArrayRef());
  const at::Tensor result = none ? at::empty(target.sizes(), self.options()) : output;
  nll_forward(flat_input(self), target.flatten(1), tensor_of(weight), reduction, ignore_index,
              none ? result.flatten(1) : result, total_weight, 3, "nll_loss2d");
  if (none) output.copy_(result);
  return {output, total_weight};
}

std::tuple<at::Tensor, at::Tensor> nll_loss2d_forward(const at::Tensor& self, const at::Tensor& target,
                                                      const std::optional<at::Tensor>& weight, int64_t reduction,
                                                      int64_t ignore_index) {
  at::Tensor output = at::empty({0}, self.options()), total_weight = at::empty({}, self.options());
  nll_loss2d_forward_output(self, target, weight, reduction, ignore_index, output, total_weight);
  return {output, total_weight};
}

at::Tensor& nll_loss2d_backward_grad_input(const at::Tensor& grad_output, const at::Tensor& self,
                                           const at::Tensor& target, const std::optional<at::Tensor>& weight,
                                           int64_t reduction, int64_t ignore_index, const at::Tensor& total_weight,
                                           at::Tensor& grad_input) {
  check_nll2d(self, target, weight);
  at::native::resize_output(grad_input, self.sizes());
  TORCH_CHECK(grad_input.is_contiguous(), "grad_input must be contiguous");
  const bool none = reduction == at::Reduction::None;
  TORCH_CHECK(none ? grad_output.sizes() == target.sizes() : grad_output.numel() == 1,
              "nll_loss2d_backward: unexpected sizes of grad_output ", grad_output.sizes());
  nll_backward(none ? grad_output.flatten(1) : grad_output, target.flatten(1), tensor_of(weight), reduction,
               ignore_index, total_weight, grad_input.flatten(2), 3, "nll_loss2d_backward");
  return grad_input;
}

at::Tensor nll_loss2d_backward(const at::Tensor& grad_output, const at::Tensor& self, const at::Tensor& target,
                               const std::optional<at::Tensor>& weight, int64_t reduction, int64_t ignore_index,
                               const at::Tensor& total_weight) {
  at::Tensor grad_input = at::empty(self.sizes(), self.options());
  return nll_loss2d_backward_grad_input(grad_output, self, target, weight, reduction, ignore_index, total_weight,
                                        grad_input);
}

at::Tensor& multi_margin_loss_out(const at::Tensor& self, const at::Tensor& target, const at::Scalar& p,
                                  const at::Scalar& margin, const std::optional<at::Tensor>& weight, int64_t reduction,
                                  at::Tensor& out) {
  const char* op = "multi_margin_loss";
  const MarginArguments arguments(self, target, p, margin, tensor_of(weight));
  const Targets targets(target, tensor_of(weight), 1, -100, op);
  const at::Tensor losses = at::empty({arguments.rows}, self.options());
  if (self.numel() > 0)
    dlprim::margin_loss(current_queue(self.device()), batched(self, 2, op), targets.view, arguments.power,
                        arguments.margin, view_of(losses, op));
  return reduce_rows(losses, reduction, target.dim() == 0, out);
}

at::Tensor multi_margin_loss(const at::Tensor& self, const at::Tensor& target, const at::Scalar& p,
                             const at::Scalar& margin, const std::optional<at::Tensor>& weight, int64_t reduction) {
  at::Tensor out = at::empty({0}, self.options());
  return multi_margin_loss_out(self, target, p, margin, weight, reduction, out);
}

at::Tensor& multi_margin_loss_backward_grad_input(const at::Tensor& grad_output, const at::Tensor& self,
                                                  const at::Tensor& target, const at::Scalar& p,
                                                  const at::Scalar& margin, const std::optional<at::Tensor>& weight,
                                                  int64_t reduction, at::Tensor& grad_input) {
  const char* op = "multi_margin_loss_backward";
  const MarginArguments arguments(self, target, p, margin, tensor_of(weight));
  const Targets targets(target, tensor_of(weight), 1, -100, op);
  at::native::resize_output(grad_input, self.sizes());
  if (self.numel() == 0) return grad_input;
  const at::Tensor input = self.contiguous(), result = at::empty(self.sizes(), self.options());
  const at::Tensor grads = row_gradients(grad_output, reduction, arguments.rows);
  dlprim::margin_loss_backward(current_queue(self.device()), batched(input, 2, op), targets.view, arguments.power,
                               arguments.margin, view_of(grads, op), batched(result, 2, op));
  return grad_input.copy_(result), grad_input;
}

at::Tensor multi_margin_loss_backward(const at::Tensor& grad_output, const at::Tensor& self, const at::Tensor& target,
                                      const at::Scalar& p, const at::Scalar& margin,
                                      const std::optional<at::Tensor>& weight, int64_t reduction) {
  at::Tensor grad_input = at::empty({0}, self.options());
  return multi_margin_loss_backward_grad_input(grad_output, self, target, p, margin, weight, reduction, grad_input);
}

std::tuple<at::Tensor&, at::Tensor&> multilabel_margin_loss_forward_output(const at::Tensor& self,
                                                                           const at::Tensor& target, int64_t reduction,
                                                                           at::Tensor& output, at::Tensor& is_target) {
  const char* op = "multilabel_margin_loss";
  int64_t rows = 0, classes = 0;
  at::native::multilabel_margin_loss_shape_check(rows, classes, int(self.dim()), self, target);
  check_dtype(self, served::floating_, op);
  at::native::resize_output(is_target, target.sizes());
  const at::Tensor losses = at::empty({rows}, self.options()), flags = at::empty(target.sizes(), self.options());
  if (self.numel() > 0)
    dlprim::multilabel_margin_loss(current_queue(self.device()), batched(self, 2, op), batched(target, 2, op),
                                   view_of(losses, op), batched(flags, 2, op));
  is_target.copy_(flags);
  reduce_rows(losses, reduction, target.dim() <= 1, output);
  return {output, is_target};
}

std::tuple<at::Tensor, at::Tensor> multilabel_margin_loss_forward(const at::Tensor& self, const at::Tensor& target,
                                                                  int64_t reduction) {
  at::Tensor output = at::empty({0}, self.options()), is_target = at::empty({0}, self.options());
  multilabel_margin_loss_forward_output(self, target, reduction, output, is_target);
  return {output, is_target};
}

at::Tensor& multilabel_margin_loss_backward_grad_input(const at::Tensor& grad_output, const at::Tensor& self,
                                                       const at::Tensor& target, int64_t reduction,
                                                       const at::Tensor& is_target, at::Tensor& grad_input) {
  const char* op = "multilabel_margin_loss_backward";
  int64_t rows = 0, classes = 0;
  at::native::multilabel_margin_loss_shape_check(rows, classes, int(self.dim()), self, target);
  TORCH_CHECK(is_target.sizes() == target.sizes(), op, ": inconsistent is_target size ", is_target.sizes());
  at::native::resize_output(grad_input, self.sizes());
  if (self.numel() == 0) return grad_input;
  const at::Tensor input = self.contiguous(), result = at::empty(self.sizes(), self.options());
  const at::Tensor flags = is_target.to(self.scalar_type()).contiguous();
  const at::Tensor grads = row_gradients(grad_output, reduction, rows);
  dlprim::multilabel_margin_loss_backward(current_queue(self.device()), batched(input, 2, op), batched(target, 2, op),
                                          batched(flags, 2, op), view_of(grads, op), batched(result, 2, op));
  return grad_input.copy_(result), grad_input;
}

at::Tensor multilabel_margin_loss_backward(const at::Tensor& grad_output, const at::Tensor& self,
                                           const at::Tensor& target, int64_t reduction, const at::Tensor& is_target) {
  at::Tensor grad_input = at::empty({0}, self.options());
  return multilabel_margin_loss_backward_grad_input(grad_output, self, target, reduction, is_target, grad_input);
}

}  // namespace ops

}  // namespace pytorch_ocl
