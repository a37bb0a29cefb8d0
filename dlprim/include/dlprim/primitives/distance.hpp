// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/queue.hpp>

namespace dlprim {

/// out[b, i, j] = p-norm of a[b, i, :] - b[b, j, :], p >= 0 (0 counts the differences, infinity takes the largest).
/// Contiguous [batch, rows, columns], [batch, others, columns] and [batch, rows, others] of one floating dtype.
void distances(Queue& queue, const TensorView& out, const TensorView& a, const TensorView& b, double p);
/// grad_a from the gradient and the result of `distances`; 0 where two rows are equal.
void distances_backward(Queue& queue, const TensorView& grad_a, const TensorView& grad, const TensorView& a,
                        const TensorView& b, const TensorView& out, double p);

/// The same between the rows of a [n, columns], of the pairs i < j in their order: out [n (n - 1) / 2].
void pair_distances(Queue& queue, const TensorView& out, const TensorView& a, double p);
void pair_distances_backward(Queue& queue, const TensorView& grad_a, const TensorView& grad, const TensorView& a,
                             const TensorView& out, double p);

}  // namespace dlprim
