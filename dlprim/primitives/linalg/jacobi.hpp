// SPDX-License-Identifier: MIT
// Jacobi's rotations: of small Hermitian matrices, and of columns.
#pragma once
#include "linalg.hpp"

namespace dlprim::linalg {

/// The largest Hermitian matrix whose rotations fit local memory; even.
std::int64_t largest_jacobi(Queue& queue, DataType type);

/// Eigenvalues, ascending, and eigenvectors of the lower triangles of a [B, n, n]; `vectors` may be `a`.
void jacobi_eigen(Queue& queue, const TensorView& a, const TensorView& vectors, const TensorView& values,
                  const TensorView& info, bool want_vectors);

/// The rotations' product for Gram's matrices [B, n, n] of columns; `shared` of them belong to one matrix, whose norm is
/// in `norms`. `most`: int32, as BLOCKS of jacobi.cl.
void jacobi_blocks(Queue& queue, const TensorView& gram, const TensorView& vectors, BufferRef norms, BufferRef most,
                   std::int64_t shared, int sweeps);

/// What one-sided rotations give of a matrix [B, m, n].
struct OneSided {
  Temporary x, v;  ///< [B, m, >= n] and [B, >= n, >= n]: a v / scale with orthogonal columns, v unitary
  Temporary scales;  ///< real [2, B]: see `norms` of columns.cl
  bool converged = true;
};
OneSided rotate_columns(Queue& queue, const TensorView& a);

/// Scales of matrices, see `norms` of columns.cl.
Temporary norms_of(Queue& queue, const TensorView& a);
/// A kernel of columns.cl.
enum class ColumnKernel : std::uint8_t {
  norm_parts,
  norms,
  to_slots,
  next_round,
  column_products,
  rank_values,
  divide,
  shift_diagonal,
  orient,
  report,
};
Kernel& column_kernel(Queue& queue, DataType type, ColumnKernel which, std::size_t group = 1);
/// Work-items that share `count` elements. Each of the steps of a sum over a group costs a CPU as much as the elements do.
std::size_t column_group(Queue& queue, std::int64_t count);
/// values [B, n] = real parts of the products of columns of `a` and `b` [B, m, n], or their roots.
void column_products(Queue& queue, const TensorView& a, const TensorView& b, const TensorView& values, bool root);
/// The place of each of values [B, n], and these, times their scale, sorted.
Temporary rank(Queue& queue, const TensorView& values, const TensorView& scales, const TensorView& sorted,
               bool descending, DataType type);
/// info = code where the scale is NaN, else 0, or where `keeps` what it was.
void report(Queue& queue, const TensorView& scales, const TensorView& info, int code, DataType type,
            bool keeps = false);
/// a /= its scale, or zeros where that is NaN.
void divide(Queue& queue, const TensorView& a, const TensorView& scales);

}  // namespace dlprim::linalg
