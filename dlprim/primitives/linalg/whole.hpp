// SPDX-License-Identifier: MIT
// Small real matrices on CPUs: a work-item each, whose loops are vectors.
#pragma once
#include "tridiagonal.hpp"

namespace dlprim::linalg {

/// Whether a device has these forms for the type.
bool is_whole(const DeviceInfo& device, DataType type);

/// Whether a work-item solves real symmetric eigenproblems of n rows alone.
bool eigen_is_whole(const DeviceInfo& device, DataType type, std::int64_t n, bool want_vectors);
/// As jacobi_eigen.
void eigen_whole(Queue& queue, const TensorView& a, const TensorView& vectors, const TensorView& values,
                 const TensorView& info, bool want_vectors);

/// Whether a work-item finds the tridiagonal form of matrices of n rows alone.
bool tridiagonal_is_whole(const DeviceInfo& device, DataType type, std::int64_t n);
/// As make_tridiagonal, to `t`.
void tridiagonal_whole(Queue& queue, const TensorView& a, const Tridiagonal& t);

/// Whether a work-item finds the singular values of matrices of that many rows, and no more columns, alone.
bool svd_is_whole(const DeviceInfo& device, DataType type, std::int64_t rows);
/// As svd.
void svd_whole(Queue& queue, const TensorView& a, const TensorView& u, const TensorView& s, const TensorView& v,
               const TensorView& info);

/// As qr_factor; factors of a matrix are `tau_batch` apart.
void qr_whole(Queue& queue, const TensorView& a, BufferRef tau, std::int64_t tau_batch, bool scaled);
/// As reflect; `identity`: c is that.
void reflect_whole(Queue& queue, const TensorView& a, const TensorView& tau, const TensorView& c, bool adjoint,
                   bool identity);

/// As lu_factor; or a panel [B, m, n] of larger matrices after `start` rows and columns, with their pivots.
void lu_lines(Queue& queue, const TensorView& a, const TensorView& pivots, const TensorView& info, std::int64_t start,
              bool pivot);
/// What a panel of `width` columns, at most 32, does to the others of a [B, m, n], whose first row is the panel's; columns
/// lie side by side in memory.
void lu_others(Queue& queue, const TensorView& a, const TensorView& pivots, std::int64_t start, std::int64_t width);

}  // namespace dlprim::linalg
