// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/queue.hpp>

#include <complex>

namespace dlprim {

/// A sparse matrix [rows, inner] by rows: entries starts[i] .. starts[i + 1] are those of row i. Contiguous.
struct SparseRows {
  TensorView starts;   ///< [rows + 1], int64 or int32
  TensorView columns;  ///< [entries], the dtype of starts
  TensorView values;   ///< [entries], floating or complex
  std::int64_t inner = 0;
};

/// out [rows, columns] = alpha * matrix * dense + beta * base. dense [inner, columns], base (optional; not read where
/// beta is 0) and out have the dtype of the values and any strides, 0 included where they are read; `base` may be `out`.
/// Sums are taken in float for 16-bit floats, in an order that depends on the sizes only: the same bits every time.
/// Where starts or columns are out of range, the next synchronization throws IndexError and the entry counts as 0.
/// Throws ValidationError for other dtypes and sizes.
void sparse_product(Queue& queue, const SparseRows& matrix, const TensorView& dense, const TensorView& base,
                    const TensorView& out, std::complex<double> alpha, std::complex<double> beta);

/// out[i] = alpha * (left row rows[i]) . (right column columns[i]) + beta * base[i] for each i. left [m, inner] and right
/// [inner, n] of any strides; rows and columns int64 or int32, base (optional, as above) and out contiguous; one floating
/// or complex dtype. Indices out of range are reported as above and give 0.
void sampled_product(Queue& queue, const TensorView& rows, const TensorView& columns, const TensorView& left,
                     const TensorView& right, const TensorView& base, const TensorView& out, std::complex<double> alpha,
                     std::complex<double> beta);

/// x = matrix^-1 x for a square matrix and x [n, k] of any strides, in float32, float64, complex64 or complex128. Entries
/// on the other side of the diagonal are not counted, with `unit` neither those on it. Of equal positions the sum counts;
/// a row without diagonal gives infinities or NaN. Rows of a block go side by side as far as they do not need each other.
/// Indices out of range are reported as above and count as 0. Throws ValidationError for other dtypes and sizes.
void sparse_triangular_solve(Queue& queue, const SparseRows& matrix, const TensorView& x, bool upper, bool unit);

}  // namespace dlprim
