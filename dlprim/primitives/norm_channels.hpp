// SPDX-License-Identifier: MIT
// A batch norm's sums where channels lie side by side, on GPUs.
#pragma once
#include <dlprim/primitives/norm.hpp>

#include <optional>
#include <utility>

namespace dlprim {

/// Data as rows of channels, of which work-items load `pack` neighbours at once.
struct ChannelRows {
  std::int64_t rows, channels;
  int pack;
};

using ChannelPair = std::pair<const TensorView*, const TensorView*>;

/// `data`, alike, as norm_channels reads them; none where other kernels are for them. The views of `of_channels`, [C], are
/// read and written, too; pairs that are not defined() are passed over.
std::optional<ChannelRows> channel_rows(const DeviceInfo& device, std::initializer_list<const TensorView*> data,
                                        std::initializer_list<ChannelPair> of_channels);

/// As batch_norm_statistics.
void channel_moments(Queue& queue, const ChannelRows& shape, const TensorView& x, const TensorView& mean,
                     const TensorView& invstd, double eps, const RunningStatistics& running);

/// As batch_norm_sums.
void channel_sums(Queue& queue, const ChannelRows& shape, const TensorView& sum, const TensorView& dot,
                  const TensorView& gy, const TensorView& x, const TensorView& mean, const TensorView& invstd);

}  // namespace dlprim
