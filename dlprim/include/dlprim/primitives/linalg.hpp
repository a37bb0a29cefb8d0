// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/queue.hpp>
#include <dlprim/tensor_view.hpp>

namespace dlprim {

// Dense linear algebra. Matrices come as batches [B, rows, columns] with any strides, so that a transposed matrix is a
// view; all of one dtype of float32, float64, complex64 and complex128. Nothing waits for the device except where said.
// What LAPACK returns in `info`, of int32 [B], is written by the device. Sizes of 0 are allowed. float32 is
// computed in full precision, never in tf32. Functions throw ValidationError for other arguments.
// docs/linalg.md has the algorithms.

/// Which half of a square matrix is read, as what, in triangular_solve.
struct Triangle {
  bool upper = false;
  bool unit = false;  ///< ones on the diagonal, which is not read
  bool conjugate = false;  ///< the conjugate of the matrix
};

/// x = a^-1 x for triangular a [B, n, n] (strides of 0 along B allowed) and x [B, n, k]. Transposed matrices and
/// x = x a^-1 are views: a.transposed is of the other half. A zero on the diagonal gives infinities, in large matrices NaN.
void triangular_solve(Queue& queue, const TensorView& a, const TensorView& x, const Triangle& triangle);

/// a = L L^H, L in the lower triangle of a [B, n, n], of which no more than that is read. The rest of `a` is left with
/// undefined values where n is large. info: 0, or the order of the first leading minor that is not positive.
void cholesky(Queue& queue, const TensorView& a, const TensorView& info);

/// a = P L U with partial pivoting, in place, for a [B, m, n]. pivots: int32 [B, min(m, n)], contiguous, the rows
/// exchanged, from 1, as LAPACK's; `pivot` false exchanges none. info: 0, or where U has its first zero on the diagonal.
void lu_factor(Queue& queue, const TensorView& a, const TensorView& pivots, const TensorView& info, bool pivot = true);

/// a = L D L^T, or L D L^H where `hermitian`, in place, with Bunch and Kaufman's pivoting: D of blocks of one and two
/// rows, L and D in the lower triangle of a [B, n, n], of which no more is read. pivots: int32 [B, n], contiguous, and
/// info as LAPACK's sytrf and hetrf.
void ldl_factor(Queue& queue, const TensorView& a, const TensorView& pivots, const TensorView& info, bool hermitian);

/// x = m^-1 x for x [B, n, k] and a matrix m of which ldl_factor left a [B, n, n] and pivots.
void ldl_solve(Queue& queue, const TensorView& a, const TensorView& pivots, const TensorView& x, bool hermitian);

/// order: int32 [B, n], the row of a matrix that exchanges by `pivots` (int32 [B, k], k <= n) bring to each position.
/// Both contiguous. Pivots outside 1 ... n are left out.
void pivots_to_order(Queue& queue, const TensorView& pivots, const TensorView& order);

/// out[b, i] = in[b, order[b, i]], or out[b, order[b, i]] = in[b, i] where `inverse`; `order` int32 [B, n] contiguous.
void permute_rows(Queue& queue, const TensorView& out, const TensorView& in, const TensorView& order, bool inverse);

/// What copy_part takes of a matrix.
enum class MatrixPart : std::uint8_t {
  all,
  lower,
  upper,
  unit_lower,  ///< below the diagonal, with ones on it
  identity,  ///< nothing
  hermitian,  ///< the lower triangle and its mirror image
};
/// out = a part of in [B, m, n], or of its conjugate, with zeros elsewhere. `in` is not read for `identity`.
void copy_part(Queue& queue, const TensorView& out, const TensorView& in, MatrixPart part, bool conjugate = false);

/// a = Q R by Householder reflections, in place, for a [B, m, n]: R in the upper triangle, the reflections' vectors
/// below it, their factors in tau [B, min(m, n)], contiguous; as LAPACK's geqrf. `scaled`: the largest elements are about
/// 1, and parts of columns so small that their squares underflow count as zero; Q is orthogonal whatever the elements.
void qr_factor(Queue& queue, const TensorView& a, const TensorView& tau, bool scaled = false);

/// c = Q c, or Q^H c where `adjoint`, for c [B, m, k] and Q = H_1 ... H_r of reflections as qr_factor leaves them in
/// a [B, m, >= r], tau [B, r]. `conjugate`: with the conjugate of Q.
void reflect(Queue& queue, const TensorView& a, const TensorView& tau, const TensorView& c, bool adjoint,
             bool conjugate = false);

/// q = Q of reflections as `reflect` has them, or its first columns, for q [B, m, >= r].
void orthogonal_factor(Queue& queue, const TensorView& a, const TensorView& tau, const TensorView& q);

/// Eigenvalues, ascending, to values [B, n] (real, contiguous), and eigenvectors in place of a [B, n, n], of which only
/// the lower triangle is read; `vectors` false leaves `a` undefined. info: 0, or 1 where iterations did not converge,
/// as for matrices with infinities or NaN. Waits for the device where a complex matrix is larger than local memory holds.
void eigen_hermitian(Queue& queue, const TensorView& a, const TensorView& values, const TensorView& info, bool vectors);

/// a = u diag(s) v^H for a [B, m, n], m >= n, which is kept: s [B, n] (real, contiguous), descending; u [B, m, k], k = n or
/// m, and v [B, n, n], both undefined where only s is asked for. info: 0, -4 for matrices with infinities or NaN, 1 where
/// iterations did not converge. Waits for the device where n is above what local memory holds.
void svd(Queue& queue, const TensorView& a, const TensorView& u, const TensorView& s, const TensorView& v,
         const TensorView& info);

}  // namespace dlprim
