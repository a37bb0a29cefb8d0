// SPDX-License-Identifier: MIT
// Eigenvalues of Hermitian matrices and singular values.
#include "ops/linalg.hpp"

#include <ATen/native/BatchLinearAlgebra.h>
#include <ATen/ops/empty.h>

namespace pytorch_ocl {

namespace {

// What a status of each matrix is written to: contiguous, one for each.
at::Tensor flat(const at::Tensor& info) { return info.contiguous().view({-1}); }

void eigh_kernel(const at::Tensor& values, const at::Tensor& vectors, const at::Tensor& infos, bool upper,
                 bool want_vectors) {
  translated([&] {
    const InPlace w(values, as_vectors), info(infos, flat), a(vectors, as_matrices);
    // The upper triangle is that of the transpose, whose eigenvectors are the conjugates.
    const dlprim::TensorView view = matrix_view(a.form(), "linalg_eigh");
    dlprim::Queue& queue = current_queue(vectors.device());
    if (upper) {
      const at::Tensor lower = a.form().mH().clone();
      dlprim::copy_part(queue, view, view_of(lower), dlprim::MatrixPart::all);
    }
    dlprim::eigen_hermitian(queue, view, w.view("linalg.eigh"), info.view("linalg.eigh"), want_vectors);
    w.finish(), info.finish(), a.finish();
  });
}

void svd_kernel(const at::Tensor& a, const bool full_matrices, const bool vectors,
                const std::optional<std::string_view>&, const at::Tensor& u, const at::Tensor& s, const at::Tensor& vh,
                const at::Tensor& infos) {
  translated([&] {
    const bool wide = a.size(-2) < a.size(-1);
    const at::Tensor matrices = as_matrices(wide ? a.mH() : a);
    const int64_t batch = matrices.size(0), m = matrices.size(1), n = matrices.size(2);
    const InPlace values(s, as_vectors), info(infos, flat);
    at::Tensor left, right;
    if (vectors) {
      left = at::empty({batch, full_matrices ? m : n, m}, a.options()).mT();
      right = at::empty({batch, n, n}, a.options()).mT();
    }
    const auto view = [](const at::Tensor& t) { return t.defined() ? view_of(t, "linalg.svd") : dlprim::TensorView(); };
    dlprim::svd(current_queue(a.device()), matrix_view(matrices, "linalg_svd"), view(left), values.view("linalg.svd"),
                view(right), info.view("linalg.svd"));
    values.finish(), info.finish();
    if (!vectors) return;
    u.copy_((wide ? right : left).reshape(u.sizes()));
    vh.copy_((wide ? left : right).mH().reshape(vh.sizes()));
  });
}

}  // namespace

}  // namespace pytorch_ocl

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(linalg_eigh_stub, &pytorch_ocl::eigh_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(svd_stub, &pytorch_ocl::svd_kernel)
}  // namespace at::native
