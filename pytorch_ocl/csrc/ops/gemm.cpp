// SPDX-License-Identifier: MIT
// Matrix products.
#include <ATen/ExpandUtils.h>
#include <ATen/ops/empty.h>
#include <dlprim/primitives/gemm.hpp>

#include "generated/functions/gemm.h"
#include "generated/structured/_addmm_activation_out.h"
#include "generated/structured/addmm_out.h"
#include "generated/structured/addmv_out.h"
#include "generated/structured/baddbmm_out.h"
#include "generated/structured/bmm_out.h"
#include "generated/structured/mm_out.h"
#include "ops/precision.hpp"
#include "runtime/tensor.hpp"

namespace pytorch_ocl {

namespace {

// out = activation(alpha * a b + beta * addend); the addend is expanded to out's shape and not read when beta is 0.
void product(const char* op, const at::Tensor& a, const at::Tensor& b, const at::Tensor& out,
             const at::Tensor& addend = {}, const at::Scalar& beta = 0, const at::Scalar& alpha = 1,
             dlprim::Activation activation = dlprim::Activation::none) {
  if (out.numel() == 0) return;
  TORCH_CHECK_NOT_IMPLEMENTED(out.scalar_type() != at::kBool, op, ": not implemented for 'Bool'");
  TORCH_CHECK(a.scalar_type() == out.scalar_type() && b.scalar_type() == out.scalar_type(), op,
              ": expected operands of dtype ", out.scalar_type(), ", got ", a.scalar_type(), " and ", b.scalar_type());
  const at::Tensor left = a.resolve_conj(), right = b.resolve_conj();
  dlprim::GemmOptions options;
  options.alpha = std::complex<double>(alpha.toComplexDouble()),
  options.beta = std::complex<double>(beta.toComplexDouble());
  options.activation = activation;
  at::Tensor expanded;
  if (options.beta != 0.0) {
    expanded = addend.resolve_conj().expand(out.sizes());
    TORCH_CHECK(expanded.scalar_type() == out.scalar_type(), op, ": expected input of dtype ", out.scalar_type(),
                ", got ", expanded.scalar_type());
    options.addend = view_of(expanded, op);
  }
  follow_float32_precision();
  dlprim::gemm(current_queue(out.device()), view_of(left, op), view_of(right, op), view_of(out, op), options);
}

at::Tensor inner_product(const char* op, const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK(a.dim() == 1 && b.dim() == 1, "1D tensors expected, but got ", a.dim(), "D and ", b.dim(), "D tensors");
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), "dot : expected both vectors to have same dtype, but found ",
              a.scalar_type(), " and ", b.scalar_type());
  TORCH_CHECK(a.numel() == b.numel(), "inconsistent tensor size, expected tensor [", a.numel(), "] and src [",
              b.numel(), "] to have the same number of elements, but got ", a.numel(), " and ", b.numel(),
              " elements respectively");
  const at::Tensor out = at::empty({}, a.options());
  product(op, a.unsqueeze(0), b.unsqueeze(1), out.view({1, 1}));
  return out;
}

}  // namespace

void structured_mm_out::impl(const at::Tensor& self, const at::Tensor& mat2, const at::Tensor& out) {
  product("mm", self, mat2, out);
}

void structured_bmm_out::impl(const at::Tensor& self, const at::Tensor& mat2, const at::Tensor& out) {
  product("bmm", self, mat2, out);
}

void structured_addmm_out::impl(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2,
                                const at::Scalar& beta, const at::Scalar& alpha, const at::Tensor& out) {
  product("addmm", mat1, mat2, out, self, beta, alpha);
}

void structured__addmm_activation_out::impl(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2,
                                            const at::Scalar& beta, const at::Scalar& alpha, bool use_gelu,
                                            const at::Tensor& out) {
  product("_addmm_activation", mat1, mat2, out, self, beta, alpha,
          use_gelu ? dlprim::Activation::gelu : dlprim::Activation::relu);
}

void structured_baddbmm_out::impl(const at::Tensor& self, const at::Tensor& batch1, const at::Tensor& batch2,
                                  const at::Scalar& beta, const at::Scalar& alpha, const at::Tensor& out) {
  product("baddbmm", batch1, batch2, out, self, beta, alpha);
}

void structured_addmv_out::impl(const at::Tensor& self, const at::Tensor& mat, const at::Tensor& vec,
                                const at::Scalar& beta, const at::Scalar& alpha, const at::Tensor& out) {
  product("addmv", mat, vec.unsqueeze(1), out.unsqueeze(1), self.expand(out.sizes()).unsqueeze(1), beta, alpha);
}

at::Tensor ops::dot(const at::Tensor& self, const at::Tensor& tensor) { return inner_product("dot", self, tensor); }

at::Tensor ops::vdot(const at::Tensor& self, const at::Tensor& other) {
  return inner_product("vdot", self.is_complex() ? self.conj() : self, other);
}

}  // namespace pytorch_ocl
