// SPDX-License-Identifier: MIT
// Eigenproblems of large real symmetric matrices by tridiagonal form and divide and conquer.
#pragma once
#include "linalg.hpp"

namespace dlprim::linalg {

/// A = Q T Q^T of matrices a [B, n, n].
struct Tridiagonal {
  Temporary diagonal, beside;  ///< [B, n]: of T; beside[i] is T[i, i + 1]
  Temporary vectors, tau;  ///< [B, n, n] and [B, n - 1]: reflections, their vectors as rows from element 1 + row on
};
/// `a`, contiguous with both triangles, is overwritten. Only queues work.
Tridiagonal make_tridiagonal(Queue& queue, const TensorView& a);

/// What divide and conquer leaves, contiguous: B N eigenvalues in no order and eigenvectors [B, N, N] as columns, N >= n.
/// Those of rows that were added have the largest values and are zero in the first n rows.
struct Eigenpairs {
  Temporary values, vectors;
  std::int64_t rows;  ///< N
};
/// Of the tridiagonal matrices in `t`. Only queues work.
Eigenpairs tridiagonal_eigen(Queue& queue, const Tridiagonal& t);

}  // namespace dlprim::linalg
