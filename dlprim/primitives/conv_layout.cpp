// SPDX-License-Identifier: MIT
// Convolutions whose channels lie far apart: matrix units read 16-bit elements side by side, so that a copy can pay.
#include <dlprim/primitives/copy.hpp>

#include <cstdlib>
#include <cstring>

#include "conv_shape.hpp"

namespace dlprim {

bool channels_last_pays(const Device& device, const ConvShape& s, std::initializer_list<const Volume*> read) {
  const DeviceInfo& info = device.info();
  std::int64_t elements = 0;
  for (const Volume* v : read) {
    const std::int64_t size = v->outer * v->channels * v->size[0] * v->size[1] * v->size[2];
    if (size == 0 || v->channels / s.groups % 8 != 0) return false;
    if (v->channel_stride != 1) elements += size;
  }
  if (size_of(s.type) != 2 || !is_floating(s.type) || elements == 0) return false;
  if (const char* forced = std::getenv("DLPRIM_CONV")) return std::strcmp(forced, "channels_last") == 0;
  // A pointwise convolution reads points side by side where they are aligned.
  const bool strided = s.stride[0] * s.stride[1] * s.stride[2] > 1;
  if (s.taps() == 1 && !strided && s.y.size[0] * s.y.size[1] * s.y.size[2] % 4 == 0) return false;
  // Measured on an H200: elements one by one reach 60 TFLOP/s, a copy 3 TB/s, its launch takes 15 us.
  const double operations = 2.0 * double(s.y.channels * s.w.channels * s.taps()) * double(s.points());
  return info.nv_compute_capability >= 80 && operations > 107.0 * double(elements) + 1.2e9;
}

void lay_channels_last(TensorView& tensor) {
  std::int64_t next = tensor.size(1);
  tensor.strides[1] = 1;
  for (int i = tensor.dims - 1; i >= 2; i--) tensor.strides[i] = next, next *= tensor.size(i);
  tensor.strides[0] = next;
}

ChannelsLast::ChannelsLast(Queue& queue, const TensorView& tensor, bool filled) : view_(tensor) {
  if (tensor.stride(1) == 1) return;
  memory_ = Workspace(queue, std::size_t(tensor.numel()) * size_of(tensor.dtype));
  view_.data = memory_.data();
  lay_channels_last(view_);
  if (filled) copy(queue, view_, tensor);
}

}  // namespace dlprim
