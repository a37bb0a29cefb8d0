// SPDX-License-Identifier: MIT
// Small real matrices on CPUs: a work-item each, whose loops are vectors.
#pragma once
#include "tridiagonal.hpp"

namespace dlprim::linalg {

/// Whether a work-item solves real symmetric eigenproblems of n rows alone.
bool eigen_is_whole(const DeviceInfo& device, DataType type, std::int64_t n, bool want_vectors);
/// As jacobi_eigen.
void eigen_whole(Queue& queue, const TensorView& a, const TensorView& vectors, const TensorView& values,
                 const TensorView& info, bool want_vectors);

/// Whether a work-item finds the tridiagonal form of matrices of n rows alone.
bool tridiagonal_is_whole(const DeviceInfo& device, std::int64_t n);
/// As make_tridiagonal, to `t`.
void tridiagonal_whole(Queue& queue, const TensorView& a, const Tridiagonal& t);

/// Whether a work-item finds the singular values of a [B, m, n] alone.
bool svd_is_whole(const DeviceInfo& device, const TensorView& a);
/// As svd.
void svd_whole(Queue& queue, const TensorView& a, const TensorView& u, const TensorView& s, const TensorView& v,
               const TensorView& info);

}  // namespace dlprim::linalg
