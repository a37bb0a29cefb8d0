// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/queue.hpp>
#include <dlprim/tensor_view.hpp>

namespace dlprim {

enum class LossReduction : std::uint8_t { none, mean, sum };

/// What all losses over classes share. Inputs are (N, C) or (N, C, positions) with any strides and of one floating
/// dtype; targets are class numbers (int64 or uint8) of shape (N) or (N, positions); `weights` (C, contiguous, the
/// input's dtype) may be undefined. A label outside 0 ... C-1 other than `ignore_index` is reported at the next
/// synchronization (IndexError). Throws ValidationError on mismatching shapes or dtypes.
struct ClassTargets {
  TensorView target, weights;
  std::int64_t ignore_index = -100;
};

/// Negative log likelihood of log-probabilities. With `none`, `out` has the target's shape and `total_weight` is not
/// touched; otherwise both are one element: the sum, or the mean weighted by class weights, and the sum of weights.
void nll_loss(Queue& queue, const TensorView& in, const ClassTargets& targets, LossReduction reduction,
              const TensorView& out, const TensorView& total_weight);
/// Gradient of nll_loss, written to all of `grad_in`. `grad_out` has the shape of nll_loss's output.
void nll_loss_backward(Queue& queue, const TensorView& grad_out, const ClassTargets& targets, LossReduction reduction,
                       const TensorView& total_weight, const TensorView& grad_in);

/// Cross entropy of logits, softmax included, one loss a target (weights are not used).
void cross_entropy(Queue& queue, const TensorView& logits, const ClassTargets& targets, const TensorView& losses);
/// Its gradient for one `grad_out` a target (stride 0 broadcasts, e.g. 1/N for the mean).
void cross_entropy_backward(Queue& queue, const TensorView& logits, const ClassTargets& targets,
                            const TensorView& grad_out, const TensorView& grad_in);

/// Multi-class margin loss of every row: sum of weight[t] max(0, margin - x[t] + x[c])^power / C, power 1 or 2.
void margin_loss(Queue& queue, const TensorView& in, const ClassTargets& targets, int power, double margin,
                 const TensorView& losses);
void margin_loss_backward(Queue& queue, const TensorView& in, const ClassTargets& targets, int power, double margin,
                          const TensorView& grad_out, const TensorView& grad_in);

/// Multi-label margin loss of every row; targets (N, C) list labels up to the first -1. `flags` (N, C, contiguous, the
/// input's dtype) is filled with 1 for target classes; the gradient reads it.
void multilabel_margin_loss(Queue& queue, const TensorView& in, const TensorView& target, const TensorView& losses,
                            const TensorView& flags);
void multilabel_margin_loss_backward(Queue& queue, const TensorView& in, const TensorView& target,
                                     const TensorView& flags, const TensorView& grad_out, const TensorView& grad_in);

}  // namespace dlprim
