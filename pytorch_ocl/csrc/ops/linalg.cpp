// SPDX-License-Identifier: MIT
// Triangular systems, Cholesky, LU and LDL factors.
#include "ops/linalg.hpp"

#include <ATen/TensorIterator.h>
#include <ATen/native/BatchLinearAlgebra.h>
#include <ATen/native/LinearAlgebraUtils.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "generated/functions/linalg.h"

namespace pytorch_ocl {

namespace {

using at::native::TransposeType;

// The matrices of `a` as [batch, n, n] for each of those of x [..., n, k]: one for all is not repeated in memory.
at::Tensor matrices_for(const at::Tensor& a, const at::Tensor& x) {
  const at::Tensor own = as_matrices(a), whole = as_matrices(x);
  if (own.size(0) == whole.size(0)) return own;
  if (own.size(0) == 1) return own.expand({whole.size(0), -1, -1});
  auto sizes = x.sizes().vec();
  sizes.end()[-2] = a.size(-2), sizes.end()[-1] = a.size(-1);
  return as_matrices(a.expand(sizes));
}

// x = op(a)^-1 x in place.
void solve(const at::Tensor& a, const at::Tensor& x, bool upper, TransposeType transpose, bool unit = false) {
  const at::Tensor matrices = matrices_for(a, x);
  const InPlace result(x, as_matrices);
  dlprim::TensorView view = matrix_view(matrices, "triangular_solve");
  if (transpose != TransposeType::NoTranspose) view = flipped(view), upper = !upper;
  dlprim::triangular_solve(current_queue(x.device()), view, result.view("triangular_solve"),
                           {.upper = upper, .unit = unit, .conjugate = transpose == TransposeType::ConjTranspose});
  result.finish();
}

// PyTorch means the memory of both, no conjugate of it, and that of `matrix` read column after column, whatever its
// strides say.
void triangular_solve_kernel(const at::Tensor& matrix, const at::Tensor& right, bool left, bool upper,
                             TransposeType transpose, bool unit) {
  if (right.numel() == 0) return;
  const at::Tensor stored = matrix.is_conj() ? matrix.conj() : matrix, b = right.is_conj() ? right.conj() : right;
  const at::Tensor a = stored.stride(-2) == 1 ? stored : stored.mT();
  translated([&] {
    if (left) return solve(a, b, upper, transpose, unit);
    // x op(a) = b is op(a)^T x^T = b^T.
    const at::Tensor transposed = b.mT();
    if (transpose == TransposeType::NoTranspose) return solve(a, transposed, upper, TransposeType::Transpose, unit);
    if (transpose == TransposeType::Transpose) return solve(a, transposed, upper, TransposeType::NoTranspose, unit);
    solve(a.conj(), transposed, upper, TransposeType::NoTranspose, unit);
  });
}

void cholesky_kernel(const at::Tensor& input, const at::Tensor& info, bool upper) {
  translated([&] {
    const InPlace a(input, as_matrices);
    const dlprim::TensorView view = matrix_view(a.form(), "cholesky");
    const at::Tensor infos = info.contiguous();
    dlprim::cholesky(current_queue(input.device()), upper ? flipped(view) : view, view_of(infos.view({-1})));
    if (!infos.is_same(info)) info.copy_(infos);
    a.finish();
  });
}

// The product of both triangular solves: (L L^H)^-1 b, or (U^H U)^-1 b.
void solve_with_factor(const at::Tensor& factor, const at::Tensor& b, bool upper) {
  solve(factor, b, upper, upper ? TransposeType::ConjTranspose : TransposeType::NoTranspose);
  solve(factor, b, upper, upper ? TransposeType::NoTranspose : TransposeType::ConjTranspose);
}

at::Tensor& cholesky_inverse_kernel(at::Tensor& result, at::Tensor& infos, bool upper) {
  infos.zero_();
  translated([&] {
    const at::Tensor inverse = at::empty_like(result);
    const at::Tensor matrices = as_matrices(inverse);
    dlprim::copy_part(current_queue(result.device()), matrix_view(matrices, "cholesky_inverse"), {},
                      dlprim::MatrixPart::identity);
    solve_with_factor(result, matrices.view(inverse.sizes()), upper);
    result.copy_(matrices.view(inverse.sizes()));
  });
  return result;
}

void lu_factor_kernel(const at::Tensor& input, const at::Tensor& pivots, const at::Tensor& infos, bool pivot) {
  translated([&] {
    const InPlace a(input, as_matrices), rows(pivots, as_vectors);
    const at::Tensor info = infos.contiguous();
    dlprim::lu_factor(current_queue(input.device()), matrix_view(a.form(), "lu_factor"), rows.view("linalg.lu_factor"),
                      view_of(info.view({-1})), pivot);
    a.finish(), rows.finish();
    if (!info.is_same(infos)) infos.copy_(info);
  });
}

// The order of n rows after the exchanges of `pivots`, int32 [batch, n].
at::Tensor order_of(const at::Tensor& pivots, int64_t n) {
  const at::Tensor exchanges = as_vectors(pivots), order = at::empty({exchanges.size(0), n}, exchanges.options());
  dlprim::pivots_to_order(current_queue(pivots.device()), view_of(exchanges), view_of(order));
  return order;
}

void unpack_pivots_kernel(at::TensorIterator& iterator, const int64_t, const int64_t rows) {
  const at::Tensor& order = iterator.tensor(0);
  if (order.numel() > 0) translated([&] { order.copy_(order_of(iterator.tensor(1), rows).view(order.sizes())); });
}

void lu_solve_kernel(const at::Tensor& lu, const at::Tensor& pivots, const at::Tensor& b, TransposeType transpose) {
  if (b.numel() == 0) return;
  translated([&] {
    const InPlace x(b, as_matrices);
    const at::Tensor own = order_of(pivots, lu.size(-1)).view(lu.sizes().slice(0, lu.dim() - 1)).unsqueeze(-1);
    const at::Tensor order = matrices_for(own, b).squeeze(-1).contiguous();
    const at::Tensor factors = matrices_for(lu, b), before = x.form().clone();
    dlprim::Queue& queue = current_queue(b.device());
    if (transpose == TransposeType::NoTranspose) {  // a = P L U
      dlprim::permute_rows(queue, x.view("lu_solve"), view_of(before), view_of(order), false);
      solve(factors, x.form(), false, transpose, true);
      solve(factors, x.form(), true, transpose);
    } else {
      solve(factors, before, true, transpose);
      solve(factors, before, false, transpose, true);
      dlprim::permute_rows(queue, x.view("lu_solve"), view_of(before), view_of(order), true);
    }
    x.finish();
  });
}

// Of the lower triangle: PyTorch asks for no other.
void ldl_factor_kernel(const at::Tensor& input, const at::Tensor& pivots, const at::Tensor& infos, bool,
                       bool hermitian) {
  translated([&] {
    const InPlace a(input, as_matrices), exchanges(pivots, as_vectors);
    const at::Tensor info = infos.contiguous();
    dlprim::ldl_factor(current_queue(input.device()), matrix_view(a.form(), "ldl_factor"),
                       exchanges.view("linalg.ldl_factor"), view_of(info.view({-1})), hermitian);
    a.finish(), exchanges.finish();
    if (!info.is_same(infos)) infos.copy_(info);
  });
}

void ldl_solve_kernel(const at::Tensor& factors, const at::Tensor& pivots, const at::Tensor& b, bool, bool hermitian) {
  if (b.numel() == 0) return;
  translated([&] {
    const InPlace x(b, as_matrices);
    const at::Tensor matrices = matrices_for(factors, b);
    const at::Tensor exchanges = matrices_for(pivots.unsqueeze(-1), b).squeeze(-1).contiguous();
    dlprim::ldl_solve(current_queue(b.device()), matrix_view(matrices, "ldl_solve"), view_of(exchanges),
                      x.view("linalg.ldl_solve"), hermitian);
    x.finish();
  });
}

}  // namespace

at::Tensor ops::_cholesky_solve_helper(const at::Tensor& self, const at::Tensor& A, bool upper) {
  at::Tensor result = at::native::cloneBatchedColumnMajor(self);
  if (result.numel() > 0) solve_with_factor(A, result, upper);
  return result;
}

}  // namespace pytorch_ocl

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(triangular_solve_stub, &pytorch_ocl::triangular_solve_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(cholesky_stub, &pytorch_ocl::cholesky_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(cholesky_inverse_stub, &pytorch_ocl::cholesky_inverse_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(lu_factor_stub, &pytorch_ocl::lu_factor_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(unpack_pivots_stub, &pytorch_ocl::unpack_pivots_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(lu_solve_stub, &pytorch_ocl::lu_solve_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(ldl_factor_stub, &pytorch_ocl::ldl_factor_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(ldl_solve_stub, &pytorch_ocl::ldl_solve_kernel)
}  // namespace at::native
