// SPDX-License-Identifier: MIT
// QR factors, products with their Q, and least squares by them.
#include "ops/linalg.hpp"

#include <ATen/native/BatchLinearAlgebra.h>
#include <ATen/native/LinearAlgebraUtils.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_solve_triangular.h>

namespace pytorch_ocl {

namespace {

void geqrf_kernel(const at::Tensor& input, const at::Tensor& tau) {
  translated([&] {
    const InPlace a(input, as_matrices), factors(tau, as_vectors);
    dlprim::qr_factor(current_queue(input.device()), matrix_view(a.form(), "geqrf"), factors.view("geqrf"));
    a.finish(), factors.finish();
  });
}

at::Tensor& orgqr_kernel(at::Tensor& result, const at::Tensor& tau) {
  translated([&] {
    const InPlace q(result, as_matrices);
    const at::Tensor reflections = q.form().clone(), factors = as_vectors(tau);
    dlprim::orthogonal_factor(current_queue(result.device()), view_of(reflections), view_of(factors),
                              matrix_view(q.form(), "orgqr"));
    q.finish();
  });
  return result;
}

void ormqr_kernel(const at::Tensor& input, const at::Tensor& tau, const at::Tensor& other, bool left, bool transpose) {
  translated([&] {
    const at::Tensor reflections = as_matrices(input), factors = as_vectors(tau);
    const InPlace c(other, as_matrices);
    const dlprim::TensorView view = matrix_view(c.form(), "ormqr");
    dlprim::Queue& queue = current_queue(other.device());
    // c Q is the transpose of Q^T c^T, and Q^T the adjoint of the conjugate of Q.
    if (left) dlprim::reflect(queue, view_of(reflections), view_of(factors), view, transpose);
    else dlprim::reflect(queue, view_of(reflections), view_of(factors), flipped(view), !transpose, true);
    c.finish();
  });
}

// The driver "gels", CUDA's only one: matrices of full rank.
void lstsq_kernel(const at::Tensor& a, at::Tensor& b, at::Tensor&, at::Tensor&, at::Tensor& infos, double,
                  std::string) {
  infos.zero_();
  const int64_t m = a.size(-2), n = a.size(-1), k = std::min(m, n);
  auto sizes = b.sizes().slice(0, b.dim() - 2).vec();
  sizes.push_back(m), sizes.push_back(n);
  at::Tensor factors = at::native::cloneBatchedColumnMajor(a.expand(sizes));
  if (m < n) factors = at::native::cloneBatchedColumnMajor(factors.mH());
  sizes.pop_back(), sizes.back() = k;
  const at::Tensor tau = at::empty(sizes, a.options()), r = factors.narrow(-2, 0, k);
  geqrf_kernel(factors, tau);
  const at::Tensor known = b.narrow(-2, 0, k);
  if (m >= n) {  // R x = Q^H b
    ormqr_kernel(factors, tau, b, true, true);
    known.copy_(at::linalg_solve_triangular(r, known, true));
  } else {  // a^H = Q R: the shortest of all solutions is Q R^-H b
    known.copy_(at::linalg_solve_triangular(r.mH(), known, false));
    b.narrow(-2, m, n - m).zero_();
    ormqr_kernel(factors, tau, b, true, false);
  }
}

}  // namespace

}  // namespace pytorch_ocl

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(geqrf_stub, &pytorch_ocl::geqrf_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(orgqr_stub, &pytorch_ocl::orgqr_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(ormqr_stub, &pytorch_ocl::ormqr_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(lstsq_stub, &pytorch_ocl::lstsq_kernel)
}  // namespace at::native
