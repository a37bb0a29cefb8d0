// SPDX-License-Identifier: MIT
// Hermitian eigenproblems: Jacobi's rotations in local memory; of larger real matrices, tridiagonal form; of larger complex
// ones, made positive by a shift, one-sided rotations of columns, whose right singular vectors are the eigenvectors, and
// Rayleigh's quotients.
#include <dlprim/primitives/copy.hpp>

#include "../grid.hpp"
#include "jacobi.hpp"
#include "tridiagonal.hpp"
#include "whole.hpp"

namespace dlprim {

using namespace linalg;

namespace {

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

// Complex matrices: by rotations of columns.
void solve_by_columns(Queue& queue, const TensorView& a, const TensorView& h, const TensorView& scales,
                      const TensorView& values, const TensorView& info, bool vectors) {
  const std::int64_t batch = a.size(0), n = a.size(1);
  const Temporary products(queue, a.dtype, {batch, n, n});
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

// Real matrices: by tridiagonal form. `h` is overwritten.
void solve_by_tridiagonal(Queue& queue, const TensorView& a, const TensorView& h, const TensorView& scales,
                          const TensorView& values, const TensorView& info, bool vectors) {
  const std::int64_t batch = a.size(0), n = a.size(1);
  const Tridiagonal t = make_tridiagonal(queue, h);
  const Eigenpairs pairs = tridiagonal_eigen(queue, t);
  const std::int64_t padded = pairs.rows;
  const TensorView found = pairs.values.view().reshaped({batch, padded});
  const Temporary sorted(queue, values.dtype, {batch, padded});
  const Temporary order = rank(queue, found, scales, sorted, false, a.dtype);
  copy(queue, values, sorted.view().narrowed(1, 0, n));
  report(queue, scales, info, 1, a.dtype);
  if (!vectors) return;
  const Temporary by_value(queue, a.dtype, {batch, padded, padded});  // columns lie one after the other
  permute_rows(queue, by_value, transposed(pairs.vectors.view().reshaped({batch, padded, padded})), order, true);
  copy(queue, a, transposed(block(by_value, 0, 0, n, n)));
  const TensorView reflections = block(transposed(t.vectors), 1, 0, n - 1, n - 1);
  reflect(queue, reflections, t.tau, block(a, 1, 0, n - 1, n), false);
}

void solve_large(Queue& queue, const TensorView& a, const TensorView& values, const TensorView& info, bool vectors) {
  const Temporary h(queue, a.dtype, {a.size(0), a.size(1), a.size(1)});
  copy_part(queue, h, a, MatrixPart::hermitian);
  const Temporary scales = norms_of(queue, h);
  divide(queue, h, scales);
  (is_complex(a.dtype) ? solve_by_columns : solve_by_tridiagonal)(queue, a, h, scales, values, info, vectors);
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
  if (eigen_is_whole(queue.device().info(), a.dtype, n, vectors))
    return eigen_whole(queue, a, a, values, info, vectors);
  if (n <= largest_jacobi(queue, a.dtype)) return jacobi_eigen(queue, a, a, values, info, vectors);
  solve_large(queue, a, values, info, vectors);
}

}  // namespace dlprim
