// SPDX-License-Identifier: MIT
// Groups of few channels leave a matrix unit's tiles nearly empty: several run as one, with zeros for the weights
// between them.
#include <dlprim/primitives/copy.hpp>

#include <cstdlib>
#include <cstring>

#include "conv_shape.hpp"

namespace dlprim {

namespace {

constexpr std::int64_t full_tile = 64;  // channels

// Weights [outer, channels, ...] as [set of groups, group, outer, channels of the group, ...], `group_stride` from one
// group of a set to the next.
TensorView by_group(const TensorView& weights, std::int64_t groups, std::int64_t together, std::int64_t channels,
                    std::int64_t group_stride) {
  const std::int64_t rows = weights.size(0) / groups;
  TensorView view = weights;
  view.dims = weights.dims + 2;
  const std::int64_t sizes[]{groups / together, together, rows, channels};
  const std::int64_t strides[]{together * rows * weights.stride(0), group_stride, weights.stride(0), weights.stride(1)};
  std::copy(std::begin(sizes), std::end(sizes), view.sizes.begin());
  std::copy(std::begin(strides), std::end(strides), view.strides.begin());
  for (int i = 2; i < weights.dims; i++) view.sizes[i + 2] = weights.size(i), view.strides[i + 2] = weights.stride(i);
  return view;
}

}  // namespace

std::int64_t groups_together(const Device& device, const ConvShape& s) {
  if (size_of(s.type) != 2 || !is_floating(s.type) || s.groups == 1 || s.w.channels == 0 || s.points() == 0) return 1;
  const std::int64_t widest = std::max(s.y.channels / s.groups, s.w.channels);
  std::int64_t together = std::max<std::int64_t>(1, std::min(s.groups, full_tile / widest));
  while (s.groups % together != 0) together--;
  if (const char* forced = std::getenv("DLPRIM_CONV")) return std::strcmp(forced, "groups") == 0 ? together : 1;
  const double operations = 2.0 * double(s.y.channels * s.w.channels * s.taps()) * double(s.points());
  return device.info().nv_compute_capability >= 80 && operations > 2e8 ? together : 1;
}

JoinedGroups::JoinedGroups(Queue& queue, const TensorView& weights, std::int64_t groups, std::int64_t together)
    : view_(weights) {
  const std::int64_t channels = weights.size(1);
  view_.sizes[1] = channels * together;
  memory_ = Workspace(queue, std::size_t(view_.numel()) * size_of(weights.dtype));
  view_ = TensorView(memory_.data(), weights.dtype, view_.shape());
  if (weights.stride(1) == 1) lay_channels_last(view_);
  const std::int64_t rows = weights.size(0) / groups;
  inside_ = by_group(view_, groups, together, channels, rows * view_.stride(0) + channels * view_.stride(1));
  given_ = by_group(weights, groups, together, channels, rows * weights.stride(0));
}

void JoinedGroups::join(Queue& queue) const {
  const std::uint32_t zero = 0;
  queue.fill(view_.data, &zero, size_of(view_.dtype), std::size_t(view_.numel()) * size_of(view_.dtype));
  copy(queue, inside_, given_);
}

void JoinedGroups::take_apart(Queue& queue) const { copy(queue, given_, inside_); }

}  // namespace dlprim
