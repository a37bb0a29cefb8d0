// SPDX-License-Identifier: MIT
// The matrix exponential by scaling and squaring (C. Moler, C. Van Loan, "Nineteen dubious ways to compute the exponential
// of a matrix", 1978) of Taylor's polynomial of degree 16, evaluated with six products (M. Paterson, L. Stockmeyer, 1973).
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/exp2.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/where.h>

#include "generated/functions/linalg.h"

namespace pytorch_ocl {

namespace {

// Up to this 1-norm the polynomial's error, norm^17 / 17!, is below the type's roundoff.
double most(at::ScalarType type) { return at::toRealValueType(type) == at::kDouble ? 0.7 : 3; }

at::Tensor polynomial(const at::Tensor& a) {
  const at::Tensor two = at::matmul(a, a), three = at::matmul(two, a), four = at::matmul(two, two);
  double coefficients[17] = {1};
  for (int i = 1; i <= 16; i++) coefficients[i] = coefficients[i - 1] / i;
  at::Tensor result = four * coefficients[16];
  for (int i = 12; i >= 0; i -= 4) {
    if (i < 12) result = at::matmul(result, four);
    const double* c = coefficients + i;
    result.add_(a, c[1]).add_(two, c[2]).add_(three, c[3]).diagonal(0, -2, -1).add_(c[0]);
  }
  return result;
}

}  // namespace

// As on CUDA, the host waits to know how often the largest matrix is to be squared.
at::Tensor ops::linalg_matrix_exp(const at::Tensor& self) {
  TORCH_CHECK(self.dim() >= 2, "linalg.matrix_exp: The input tensor A must have at least 2 dimensions.");
  TORCH_CHECK(self.size(-1) == self.size(-2), "linalg.matrix_exp: A must be batches of square matrices, but they are ",
              self.size(-2), " by ", self.size(-1), " matrices");
  TORCH_CHECK(at::isFloatingType(self.scalar_type()) || self.is_complex(),
              "linalg.matrix_exp: Expected a floating point or complex tensor as input. Got ", self.scalar_type());
  if (self.numel() == 0) return at::empty_like(self);
  const bool narrow = self.scalar_type() == at::kHalf || self.scalar_type() == at::kBFloat16;
  const at::Tensor a = narrow ? self.to(at::kFloat) : self;
  const at::Tensor norms = a.abs().sum({-2}).amax({-1}, false).unsqueeze(-1).unsqueeze(-1);
  // NaN and infinities are squared no more: they are in the result already.
  const at::Tensor times = norms.div(most(a.scalar_type())).log2().ceil().clamp(0, 200).nan_to_num(0, 0, 0);
  at::Tensor result = polynomial(a * at::exp2(-times));
  const auto squarings = times.max().item<double>();
  for (int i = 0; i < squarings; i++) result = at::where(times > i, at::matmul(result, result), result);
  return narrow ? result.to(self.scalar_type()) : result;
}

// The sums over k of coefficients[i, k] input[k].
at::Tensor ops::_compute_linear_combination(const at::Tensor& input, const at::Tensor& coefficients) {
  TORCH_CHECK(input.dim() > 0 && coefficients.dim() == 2 && coefficients.size(1) == input.size(0),
              "_compute_linear_combination: expected coefficients [n, k] for an input [k, ...], got ",
              coefficients.sizes(), " and ", input.sizes());
  auto sizes = input.sizes().vec();
  const int64_t terms = sizes[0], each = input.numel() / std::max<int64_t>(terms, 1);
  sizes[0] = coefficients.size(0);
  return at::matmul(coefficients.to(input.scalar_type()), input.reshape({terms, each})).view(sizes);
}

// Added to what `out` has.
at::Tensor& ops::_compute_linear_combination_out(const at::Tensor& input, const at::Tensor& coefficients,
                                                 at::Tensor& out) {
  return out.add_(_compute_linear_combination(input, coefficients));
}

}  // namespace pytorch_ocl
