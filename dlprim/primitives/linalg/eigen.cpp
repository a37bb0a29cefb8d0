// SPDX-License-Identifier: MIT
// Hermitian eigenproblems: Jacobi's rotations in local memory; of larger matrices, made positive by a shift, one-sided
// rotations of columns, whose right singular vectors are the eigenvectors, and Rayleigh's quotients.
#include <dlprim/primitives/copy.hpp>

#include "../grid.hpp"
#include "jacobi.hpp"

namespace dlprim {

using namespace linalg;

namespace {

void divide(Queue& queue, const TensorView& a, const TensorView& scales) {
  const struct {
    Strides a;
    cl_long rows, columns;
  } p{strides_of(a), a.size(1), a.size(2)};
  launch(queue, column_kernel(queue, a.dtype, ColumnKernel::divide), Grid(p.columns, p.rows, a.size(0)).range(), a.data,
         scales.data, p, cl_long(a.size(0)));
}

// a + c for a bound c of its eigenvalues' sizes: the fourth root of the norm of a^4, n^(1/8) times the largest at most.
Temporary made_positive(Queue& queue, const TensorView& a) {
  const std::int64_t batch = a.size(0), n = a.size(1);
  const Temporary square(queue, a.dtype, {batch, n, n});
  Temporary result(queue, a.dtype, {batch, n, n});
  multiply(queue, a, a, square);
  multiply(queue, square, square, result);
  const Temporary norms = norms_of(queue, result);
  copy(queue, result, a);
  const struct {
    Strides a;
    cl_long n, batches;
  } p{strides_of(result), n, batch};
  launch(queue, column_kernel(queue, a.dtype, ColumnKernel::shift_diagonal), NDRange(std::size_t(n * batch), 64),
         result.view().data, norms.view().data, p);
  return result;
}

void solve_large(Queue& queue, const TensorView& a, const TensorView& values, const TensorView& info, bool vectors) {
  const std::int64_t batch = a.size(0), n = a.size(1);
  const Temporary h(queue, a.dtype, {batch, n, n}), products(queue, a.dtype, {batch, n, n});
  copy_part(queue, h, a, MatrixPart::hermitian);
  const Temporary scales = norms_of(queue, h);
  divide(queue, h, scales);
  const OneSided rotated = rotate_columns(queue, made_positive(queue, h));
  const TensorView v = block(rotated.v, 0, 0, n, n);
  multiply(queue, h, v, products);
  const Temporary quotients(queue, values.dtype, {batch, n});
  column_products(queue, v, products, quotients, false);
  const Temporary order = rank(queue, quotients, scales, values, false, a.dtype);
  if (vectors) permute_rows(queue, transposed(a), transposed(v), order, true);
  report(queue, scales, info, 1, a.dtype);
  if (!rotated.converged) fill(queue, info, 1);
}

}  // namespace

void eigen_hermitian(Queue& queue, const TensorView& a, const TensorView& values, const TensorView& info,
                     bool vectors) {
  check_matrix("eigen_hermitian", a);
  const std::int64_t batch = a.size(0), n = a.size(1);
  check(a.size(2) == n && values.dtype == real_of(a.dtype) && values.is_contiguous() && values.dims == 2 &&
            values.size(0) == batch && values.size(1) == n && info.dtype == DataType::int32 && info.is_contiguous() &&
            info.numel() == batch,
        "eigen_hermitian", "square matrices, real values [batch, n] and info of int32 [batch], contiguous");
  if (a.numel() == 0) return fill(queue, info, 0);
  if (n <= largest_jacobi(queue, a.dtype)) return jacobi_eigen(queue, a, a, values, info, vectors);
  solve_large(queue, a, values, info, vectors);
}

}  // namespace dlprim
