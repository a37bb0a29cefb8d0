// SPDX-License-Identifier: MIT
#include "quantized_depthwise.hpp"

#include <dlprim/primitives/bytes.hpp>
#include <dlprim/runtime/launch.hpp>

#include <algorithm>

#include "conv/channels_last.hpp"
#include "conv/shape.hpp"
#include "dot_products.hpp"
#include "grid.hpp"
#include "narrow.hpp"

namespace dlprim {

namespace {

constexpr std::int64_t blocks = 4, block = 16;  // of channels
constexpr std::int64_t wide_block = 64;        // of those that dot products take
constexpr std::int64_t most_taps = 49, longest_reach = 12;
constexpr std::int64_t longest_span = 40;  // of columns that a loop is unrolled for

// The struct of kernels/quantized/depthwise.cl and depthwise_quads.cl.
struct Shape {
  std::int64_t from_n, from_h, from_w, to_n, to_h, to_w, w_o, w_h, w_w;
  std::int32_t images, channels, in_h, in_w, out_h, out_w, pad_h, pad_w, strip, x_zero;
  float y_zero;
};

struct Key {
  std::uint8_t x, y, biased, outputs;
  std::int32_t part;  // of depthwise_quads.cl: 1 prepares, 2 multiplies; 0: depthwise.cl
  std::int32_t taps[2], stride[2], dilation[2];
};

// Sizes and strides of rows and columns; images of one dimension have one row.
struct Plane {
  std::int64_t n, h, w, size_h = 1, size_w;
  explicit Plane(const TensorView& t) : n(t.stride(0)), h(0), w(t.stride(t.dims - 1)), size_w(t.size(t.dims - 1)) {
    if (t.dims == 4) h = t.stride(2), size_h = t.size(2);
  }
};

Kernel& kernel_of(Device& device, const Key& key) {
  static KernelCache<Key> cache;
  return cache.get(device, key, [&] {
    constexpr const char* names[] = {"quantized_depthwise", "depthwise_panels", "depthwise_quads"};
    KernelSource source(key.part ? "quantized/depthwise_quads.cl" : "quantized/depthwise.cl", names[key.part]);
    if (key.part) source.define("BYTE_DOT", byte_dot(device)).define("SIGNED_X", DataType(key.x) == DataType::int8);
    source.define("X", tag(DataType(key.x))).define("Y", tag(DataType(key.y)));
    source.define("Y_IS_FLOAT", DataType(key.y) == DataType::float32).define("BIASED", key.biased);
    source.define("LOWEST_BYTE", lowest_byte(DataType(key.y)));
    source.define("BLOCKS", blocks).define("OUTPUTS", key.outputs);
    for (int i = 0; i < 2; i++) {
      const std::string direction = i ? "W" : "H";
      source.define("TAPS_" + direction, key.taps[i]).define("STRIDE_" + direction, key.stride[i]);
      source.define("DILATION_" + direction, key.dilation[i]);
    }
    return source;
  });
}

// As many neighbours at once as leave the fewest of a row's last ones without use, and all of them in registers.
std::uint8_t outputs_at_once(std::int64_t width, std::int64_t most) {
  std::int64_t best = most;
  for (std::int64_t n = most - 1; n >= most / 2; n--)
    if (divide_up(width, n) * n < divide_up(width, best) * best) best = n;
  return std::uint8_t(best);
}

// Prepared weights, the byte that lies outside of x, what sums begin with, and what multiplies them.
void run_quads(Queue& queue, Key key, const Shape& s, const NDRange& range, const TensorView& x, const TensorView& w,
               const TensorView& y, const QuantizedConv& quantized, std::optional<Workspace>& kept) {
  const std::int64_t lanes = divide_up(x.size(1), wide_block) * wide_block, quads = divide_up(key.taps[0], 4);
  const auto panel_bytes = std::size_t(lanes * key.taps[1] * quads * 4), lane_bytes = std::size_t(lanes * 4);
  const bool made = kept.has_value();
  if (!made) kept.emplace(queue, panel_bytes + wide_block + 2 * lane_bytes);
  BufferRef at = kept->data();
  const auto next = [&](std::size_t bytes) { return at.offset += bytes, at; };
  const BufferRef panels = at, outside = next(panel_bytes), start = next(wide_block), scales = next(lane_bytes);
  if (!made) {
    const std::uint32_t zero = 0x01010101u * std::uint8_t(quantized.x_zero);
    queue.fill(outside, &zero, sizeof zero, wide_block);
    key.part = 1;
    Kernel& kernel = kernel_of(queue.device(), key);
    launch(queue, kernel, NDRange(std::size_t(lanes), kernel.work_group(16)), w.data,
           key.biased ? quantized.bias.data : w.data, quantized.scale.data, panels, start, scales, s);
  }
  key.part = 2;
  launch(queue, kernel_of(queue.device(), key), range, x.data, panels, outside, start, scales, y.data, s);
}

}  // namespace

bool has_quantized_depthwise(std::span<const std::int64_t> weights) {
  if (weights.size() < 3 || weights.size() > 4 || weights[1] != 1 || weights[0] < block) return false;
  std::int64_t taps = 1;
  for (const std::int64_t size : weights.subspan(2)) {
    if (size < 1 || size > longest_reach) return false;
    taps *= size;
  }
  return taps <= most_taps;
}

void run_depthwise(Queue& queue, const TensorView& given, const TensorView& w, const TensorView& y,
                   const ConvOptions& options, const QuantizedConv& quantized, std::optional<Workspace>& kept) {
  const conv_cores::ChannelsLast copied(queue, given, conv_cores::Copy::filled);
  const TensorView& x = copied.view();
  const Plane from(x), to(y), taps(w);
  const int spatial = x.dims - 2;
  const auto option = [&](const std::array<std::int64_t, 3>& values, int i, std::int64_t otherwise) {
    return i == 0 && spatial == 1 ? otherwise : values[std::size_t(i - 2 + spatial)];
  };
  Key key{};
  key.x = std::uint8_t(x.dtype), key.y = std::uint8_t(y.dtype), key.biased = quantized.bias.defined();
  const bool wide = x.size(1) >= wide_block && y.dtype != DataType::float32;
  key.outputs = outputs_at_once(to.size_w, wide ? 5 : 8);
  const auto size = [](std::int64_t v) { return narrow("quantized_conv", "a size", v); };
  for (int i = 0; i < 2; i++) {
    key.taps[i] = size(i ? taps.size_w : taps.size_h);
    key.stride[i] = size(option(options.stride, i, 1));
    key.dilation[i] = size(option(options.dilation, i, 1));
  }
  if ((key.outputs - 1) * std::int64_t(key.stride[1]) + (key.taps[1] - 1) * std::int64_t(key.dilation[1]) >=
      longest_span)
    key.outputs = 1;
  Shape s{.from_n = from.n,
          .from_h = from.h,
          .from_w = from.w,
          .to_n = to.n,
          .to_h = to.h,
          .to_w = to.w,
          .w_o = w.stride(0),
          .w_h = taps.h,
          .w_w = taps.w};
  s.images = size(x.size(0)), s.channels = size(x.size(1));
  s.in_h = size(from.size_h), s.in_w = size(from.size_w), s.out_h = size(to.size_h), s.out_w = size(to.size_w);
  s.pad_h = size(option(options.padding, 0, 0)), s.pad_w = size(option(options.padding, 1, 0));
  s.x_zero = std::int32_t(quantized.x_zero), s.y_zero = float(quantized.y_zero);
  const std::int64_t across = divide_up(x.size(1), wide_block), lines = size(x.size(0) * to.size_h);
  const std::int64_t wanted = divide_up(4 * std::int64_t(queue.device().info().compute_units), across);
  s.strip = std::int32_t(std::max<std::int64_t>(1, lines / std::min(lines, wanted)));
  const NDRange range(std::size_t(across), std::size_t(divide_up(lines, std::int64_t(s.strip))), 1, 1);
  if (wide) return run_quads(queue, key, s, range, x, w, y, quantized, kept);
  launch(queue, kernel_of(queue.device(), key), range, x.data, w.data, key.biased ? quantized.bias.data : w.data,
         quantized.scale.data, y.data, s);
}

}  // namespace dlprim
