// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/queue.hpp>

namespace dlprim {

/// safe_softmax: rows of -infinity alone become zeros instead of NaN (a query that may attend to nothing).
enum class SoftmaxKind { softmax, log_softmax, safe_softmax };

/// y = the softmax of that kind of x along `dim`. Both contiguous, of equal sizes, any floating dtypes (y may be wider).
/// Rows that fit in registers are read once, others twice (online normalizer: Milakov and Gimelshein, 2018).
void softmax(Queue& queue, SoftmaxKind kind, const TensorView& y, const TensorView& x, int dim);

/// grad_x from grad_y and the forward result y; all contiguous, of equal sizes, any floating dtypes.
void softmax_backward(Queue& queue, SoftmaxKind kind, const TensorView& grad_x, const TensorView& grad_y,
                      const TensorView& y, int dim);

}  // namespace dlprim
