// SPDX-License-Identifier: MIT
// Batch, layer, group and root-mean-square normalization. Views that are not defined() stand for absent parameters.
// Data tensors may have any floating dtype; statistics and parameters theirs, each group alike.
#pragma once
#include <dlprim/runtime/queue.hpp>

namespace dlprim {

/// Running statistics r become (1 - momentum) r + momentum * batch statistic; the variance's is the unbiased one.
struct RunningStatistics {
  TensorView mean, variance;  ///< [C], both or none defined
  double momentum = 0.1;
};

/// Mean and 1 / sqrt(variance + eps) of each channel of x [N, C, ...] (any strides) into [C] views, in one pass,
/// updating running statistics in place.
void batch_norm_statistics(Queue& queue, const TensorView& x, const TensorView& mean, const TensorView& invstd,
                           double eps, const RunningStatistics& running = {});

/// Merges statistics of several processes: mean, invstd [W, C] and counts [W] (each stride 0 where shared) as
/// batch_norm_statistics would have found them.
void batch_norm_gather(Queue& queue, const TensorView& means, const TensorView& invstds, const TensorView& counts,
                       const TensorView& mean, const TensorView& invstd, double eps, const RunningStatistics& running);

/// What one channel is normalized with. `inverse_std` holds 1 / std, or the variance where `variance` is set.
struct ChannelStatistics {
  TensorView mean, inverse_std;
  bool variance = false;
  double eps = 0;
};

/// y = (x - mean) * invstd * weight + bias; x and y alike: [N, C, ...], contiguous or channels last.
void batch_norm_apply(Queue& queue, const TensorView& y, const TensorView& x, const ChannelStatistics& statistics,
                      const TensorView& weight, const TensorView& bias);

/// Per channel: sum of gy, and of gy * (x - mean) * invstd, into [C] views: the gradients of bias and weight.
void batch_norm_sums(Queue& queue, const TensorView& sum, const TensorView& dot, const TensorView& gy,
                     const TensorView& x, const ChannelStatistics& statistics);

/// gx of training (sums as batch_norm_sums gives them, over `count` elements a channel) or, sums undefined, evaluation.
void batch_norm_backward(Queue& queue, const TensorView& gx, const TensorView& gy, const TensorView& x,
                         const ChannelStatistics& statistics, const TensorView& weight, const TensorView& sum,
                         const TensorView& dot, double count);

/// x seen as `rows` x `groups` normalized rows of channels / groups * inner elements. Layer norm: groups 1, inner 1.
struct GroupShape {
  std::int64_t rows, channels, inner, groups;
  bool center = true;  ///< false: root mean square norm, without a mean
  double eps = 1e-5;
};

/// y = (x - mean) * rstd * weight + bias over contiguous x and y; weight and bias [channels]; mean (unless centered is
/// false) and rstd [rows, groups] are written.
void group_norm(Queue& queue, const GroupShape& shape, const TensorView& y, const TensorView& mean,
                const TensorView& rstd, const TensorView& x, const TensorView& weight, const TensorView& bias);

/// gx of group_norm from contiguous gy and x; where grad_weight (and grad_bias, unless centered is false) are defined,
/// what group_norm_sums gives, too, in the same pass over the data where the rows allow it.
void group_norm_backward(Queue& queue, const GroupShape& shape, const TensorView& gx, const TensorView& gy,
                         const TensorView& x, const TensorView& mean, const TensorView& rstd, const TensorView& weight,
                         const TensorView& grad_weight = {}, const TensorView& grad_bias = {});

/// Gradients of weight and bias [channels] of group_norm from contiguous gy and x.
void group_norm_sums(Queue& queue, const GroupShape& shape, const TensorView& grad_weight, const TensorView& grad_bias,
                     const TensorView& gy, const TensorView& x, const TensorView& mean, const TensorView& rstd);

}  // namespace dlprim
