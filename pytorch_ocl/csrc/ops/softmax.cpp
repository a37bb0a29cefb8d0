// SPDX-License-Identifier: MIT
#include <dlprim/primitives/softmax.hpp>

#include <ATen/ops/_softmax.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/empty_like.h>

#include <limits>

#include "generated/functions/softmax.h"
#include "generated/structured/_log_softmax_backward_data_out.h"
#include "generated/structured/_log_softmax_out.h"
#include "generated/structured/_softmax_backward_data_out.h"
#include "generated/structured/_softmax_out.h"
#include "ops/dtypes.hpp"
#include "ops/many_dims.hpp"
#include "runtime/tensor.hpp"

namespace pytorch_ocl {

namespace {

using dlprim::SoftmaxKind;

// `out` itself, or contiguous memory whose content must be copied to it.
at::Tensor written_to(const at::Tensor& out) {
  return out.is_contiguous() ? out : at::empty_like(out, at::MemoryFormat::Contiguous);
}

void forward(SoftmaxKind kind, const char* op, const at::Tensor& self, int64_t dim, const at::Tensor& out) {
  check_dtype(self, served::floating_, op);
  const at::Tensor x = self.contiguous(), y = written_to(out);
  dlprim::softmax(current_queue(), kind, view_of(around(y, dim), op), view_of(around(x, dim), op), around_dim(x, dim));
  if (!y.is_same(out)) out.copy_(y);
}

void backward(SoftmaxKind kind, const char* op, const at::Tensor& grad, const at::Tensor& output, int64_t dim,
              const at::Tensor& grad_input) {
  const at::Tensor gy = grad.contiguous(), y = output.contiguous(), gx = written_to(grad_input);
  dlprim::softmax_backward(current_queue(), kind, view_of(around(gx, dim), op), view_of(around(gy, dim), op),
                           view_of(around(y, dim), op), around_dim(y, dim));
  if (!gx.is_same(grad_input)) grad_input.copy_(gx);
}

}  // namespace

void structured__softmax_out::impl(const at::Tensor& self, int64_t dim, bool, const at::Tensor& out) {
  forward(SoftmaxKind::softmax, "softmax", self, dim, out);
}

void structured__log_softmax_out::impl(const at::Tensor& self, int64_t dim, bool, const at::Tensor& out) {
  forward(SoftmaxKind::log_softmax, "log_softmax", self, dim, out);
}

void structured__softmax_backward_data_out::impl(const at::Tensor& grad_output, const at::Tensor& output, int64_t dim,
                                                 at::ScalarType, const at::Tensor& grad_input) {
  backward(SoftmaxKind::softmax, "softmax_backward", grad_output, output, dim, grad_input);
}

void structured__log_softmax_backward_data_out::impl(const at::Tensor& grad_output, const at::Tensor& output,
                                                     int64_t dim, at::ScalarType, const at::Tensor& out) {
  backward(SoftmaxKind::log_softmax, "log_softmax_backward", grad_output, output, dim, out);
}

namespace ops {

// mask_type 0: (L, L) over the last two dims; 1: (B, L), padding of each sample; 2: of self's sizes.
at::Tensor _masked_softmax(const at::Tensor& self, const at::Tensor& mask, std::optional<int64_t> dim,
                           std::optional<int64_t> mask_type) {
  TORCH_CHECK(mask.scalar_type() == at::kBool, "_masked_softmax: expected a bool mask, got ", mask.scalar_type());
  const int64_t type = mask_type.value_or(2);
  TORCH_CHECK(type >= 0 && type <= 2, "_masked_softmax: expected mask_type 0, 1 or 2, got ", type);
  const bool padding = type == 1 && self.dim() == 4 && mask.dim() == 2;
  const at::Tensor hidden = padding ? mask.view({mask.size(0), 1, 1, mask.size(1)}) : mask;
  TORCH_CHECK(type == 1 ? padding : hidden.dim() <= self.dim(), "_masked_softmax: mask of sizes ", mask.sizes(),
              " does not fit mask_type ", type, " and input of sizes ", self.sizes());
  const at::Tensor filled = self.masked_fill(hidden, -std::numeric_limits<double>::infinity());
  return at::_softmax(filled, dim.value_or(self.dim() - 1), false);
}

at::Tensor _masked_softmax_backward(const at::Tensor& grad_output, const at::Tensor& output, const at::Tensor& mask,
                                    std::optional<int64_t> dim) {
  const at::Tensor grad =
      at::_softmax_backward_data(grad_output, output, dim.value_or(output.dim() - 1), output.scalar_type());
  return grad.masked_fill(mask, 0);
}

at::Tensor _safe_softmax(const at::Tensor& self, int64_t dim, std::optional<at::ScalarType> dtype) {
  const at::ScalarType type = dtype.value_or(self.scalar_type());
  const at::Tensor x = at::isFloatingType(self.scalar_type()) ? self : self.to(type);
  const at::Tensor y = at::empty_like(x, x.options().dtype(type), at::MemoryFormat::Contiguous);
  forward(SoftmaxKind::safe_softmax, "softmax", x, at::maybe_wrap_dim(dim, x.dim()), y);
  return y;
}

}  // namespace ops

}  // namespace pytorch_ocl
