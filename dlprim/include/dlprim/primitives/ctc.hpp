// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/queue.hpp>
#include <dlprim/tensor_view.hpp>

namespace dlprim {

/// Sequences of a CTC loss. `log_probs` (T, N, C, any strides, float32 or float64); `targets` int64 labels of all
/// sequences, contiguous; `lengths` (N, 3), int64, contiguous: input length, target length, index of the first label.
/// `states` = 2 max target length + 1. Lengths are trusted; a label outside 0 .. C - 1 counts as the blank, and the next
/// synchronization throws IndexError.
struct CtcSequences {
  TensorView log_probs, targets, lengths;
  std::int64_t states = 1;
  std::int64_t blank = 0;
  bool zero_infinity = false;
};

/// Negative log likelihood of every sequence in `losses` (N) and the forward variables in `alpha` (N, T, states), both
/// contiguous and of the input's dtype. Infinite losses become 0 with `zero_infinity`.
void ctc_loss(Queue& queue, const CtcSequences& sequences, const TensorView& losses, const TensorView& alpha);

/// Gradient of ctc_loss; `grad_out` (N, any stride). Writes all of `grad_in` (T, N, C).
void ctc_loss_backward(Queue& queue, const CtcSequences& sequences, const TensorView& losses, const TensorView& alpha,
                       const TensorView& grad_out, const TensorView& grad_in);

}  // namespace dlprim
