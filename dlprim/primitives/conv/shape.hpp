// SPDX-License-Identifier: MIT
// A convolution's sizes and strides with three spatial dimensions, whatever it has.
#pragma once
#include <dlprim/primitives/conv.hpp>
#include <dlprim/runtime/memory.hpp>

namespace dlprim {

/// A tensor [outer, channel, d, h, w].
struct Volume {
  BufferRef data;
  std::int64_t outer = 0, channels = 0, outer_stride = 0, channel_stride = 0;
  std::int64_t size[3]{1, 1, 1}, stride[3]{0, 0, 0};
};

struct ConvShape {
  int rank = 1;  // spatial dimensions
  DataType type{};
  Volume x, w, y;  // w: outer is y's channels, channels those of one group of x
  std::int64_t stride[3]{1, 1, 1}, padding[3]{0, 0, 0}, dilation[3]{1, 1, 1};
  std::int64_t groups = 1;
  bool allow_tf32 = false;

  std::int64_t taps() const { return w.size[0] * w.size[1] * w.size[2]; }
  std::int64_t points() const { return y.outer * y.size[0] * y.size[1] * y.size[2]; }
  /// Served by the depthwise kernels: one channel a group, few enough taps to unroll.
  bool depthwise() const {
    auto small = [](const std::int64_t(&v)[3]) { return v[0] < 64 && v[1] < 64 && v[2] < 64; };
    return is_floating(type) && w.channels == 1 && groups > 1 && taps() <= 128 && small(stride) && small(dilation);
  }
};

/// Checks types, ranks and sizes. `operation` names the caller in errors.
ConvShape conv_shape(const char* operation, const Queue& queue, const TensorView& x, const TensorView& weights,
                     const TensorView& y, const ConvOptions& options);
/// Checks a bias of `channels` elements, or an undefined one.
void check_bias(const char* operation, const TensorView& bias, std::int64_t channels, DataType type);

/// Depthwise convolutions over channels last, where that serves. DLPRIM_CONV=depthwise_last takes it wherever it
/// can run.
bool depthwise_last_serves(const Device& device, const ConvShape& shape);
void depthwise_last_forward(Queue& queue, const ConvShape& shape, const TensorView& bias, Activation activation);
void depthwise_last_backward_data(Queue& queue, const ConvShape& shape, const TensorView& bias);
/// Partial sums [slices, taps, channels] of the weights' gradient, in the type sums are made in.
struct WeightSums {
  Workspace sums;
  std::int64_t slices;
};
WeightSums depthwise_last_weights(Queue& queue, const ConvShape& shape);

/// Gives a tensor the strides of dense memory with its channels side by side.
void lay_channels_last(TensorView& tensor);
/// Whether the taps of one row of weights lie densely, position by position (tap_outer) or channel by channel.
bool dense(const Volume& weights, bool tap_outer);
/// What shape.w holds, as rows x columns x chosen taps in one dense block a group.
struct WeightOrder {
  std::int64_t rows, columns, row_stride, column_stride, group_stride;
  std::int64_t taps[3], first[3], step[3];
  bool tap_outer;
};
Workspace ordered_weights(Queue& queue, const ConvShape& shape, const WeightOrder& order);

}  // namespace dlprim
