// SPDX-License-Identifier: MIT
// Depthwise convolution over channels last (conv/depthwise_last.cl; results on CPUs: conv/depthwise_last_rows.cl).
#include <dlprim/runtime/environment.hpp>
#include <dlprim/runtime/launch.hpp>
#include <dlprim/runtime/settings.hpp>

#include <algorithm>
#include <cstring>

#include "shape.hpp"
#include "../gemm/engine.hpp"
#include "../words.hpp"

namespace dlprim {

namespace {

constexpr int group = 128;           // work-items
constexpr int blocks_of_rows =
    4;    // of 16 channels: what conv_depthwise_last_rows reads then comes in lines that follow
constexpr int weights_a_item = 100;  // kernels of a work-item's channels stay in registers

// The struct of conv/depthwise_last.cl.
struct Shape {
  std::int32_t images, channels, from_n, from_h, from_w, to_n, to_h, to_w, in_h, in_w, out_h, out_w, pad_h, pad_w;
  std::int32_t w_o, w_h, w_w, bias_stride, strip;
};

enum class Pass : std::uint8_t { forward, flipped, data, weights };
constexpr const char* pass_names[] = {"conv_depthwise_last", "conv_depthwise_last", "conv_depthwise_last_data",
                                      "conv_depthwise_last_weights"};

struct Key {
  Pass pass;
  std::uint8_t type, taps[2], stride[2], dilation[2], vector, lanes, rows, bias, activation;
  std::uint8_t outputs;  // of conv_depthwise_last_rows; 0: another kernel
};

Kernel& kernel_of(Device& device, const Key& key) {
  static KernelCache<Key> cache;
  return cache.get(device, key, [&] {
    const auto type = DataType(key.type);
    const std::size_t bytes = key.vector * size_of(type);
    KernelSource source = key.outputs ? KernelSource("conv/depthwise_last_rows.cl", "conv_depthwise_last_rows")
                                      : KernelSource("conv/depthwise_last.cl", pass_names[int(key.pass)]);
    source.define("TYPE", tag(type)).define("BIAS", key.bias);
    if (key.outputs) {
      source.define("T", "float16").define("OUTPUTS", key.outputs).define("BLOCKS", blocks_of_rows);
    } else {
      source.define("T", type == DataType::float64 ? "double" : "float");
      source.define("V", key.vector).define("WORD", word_type(bytes));
      source.define("LANES", key.lanes).define("LINES", group / key.lanes).define("ROWS", key.rows);
    }
    source.define("ACTIVATE(x0)", activation_code(Activation(key.activation)))
        .define("FLIP", key.pass == Pass::flipped);
    for (int i = 0; i < 2; i++) {
      const std::string direction = i ? "W" : "H";
      source.define("TAPS_" + direction, key.taps[i]).define("DILATION_" + direction, key.dilation[i]);
      source.define("STRIDE_" + direction, key.pass == Pass::flipped ? 1 : key.stride[i]);
    }
    return source;
  });
}

// Channels of a work-item: words of at most 16 bytes, aligned in both tensors.
int vector_of(const ConvShape& s) {
  auto aligned = [&](const Volume& v, std::int64_t width) {
    return v.data.offset % (std::size_t(width) * size_of(s.type)) == 0 && v.channels % width == 0 &&
           v.outer_stride % width == 0 && v.stride[1] % width == 0 && v.stride[2] % width == 0;
  };
  int width = s.type == DataType::float64 ? 1 : 4;
  while (width > 1 && (width * s.taps() > weights_a_item || !aligned(s.x, width) || !aligned(s.y, width))) width /= 2;
  return width;
}

Key make_key(Pass pass, const ConvShape& s) {
  Key key{};
  key.pass = pass, key.type = std::uint8_t(s.type), key.vector = std::uint8_t(vector_of(s));
  for (int i = 0; i < 2; i++) {
    key.taps[i] = std::uint8_t(s.w.size[i + 1]);
    key.stride[i] = std::uint8_t(s.stride[i + 1]), key.dilation[i] = std::uint8_t(s.dilation[i + 1]);
  }
  const bool forth = pass == Pass::forward || pass == Pass::flipped;
  key.rows = forth && s.taps() <= 9 && (s.stride[1] == 1 || pass == Pass::flipped) ? 2 : 1;
  // Lanes: a full warp, or what leaves less of the last one empty.
  const std::int64_t vectors = s.x.channels / key.vector;
  auto padded = [&](int lanes) { return (vectors + lanes - 1) / lanes * lanes; };
  key.lanes = 32;
  for (int lanes = 16; lanes >= 8; lanes /= 2)
    if (padded(lanes) < padded(key.lanes)) key.lanes = std::uint8_t(lanes);
  return key;
}

Shape make_shape(const ConvShape& s, const Volume& from, const Volume& to, const TensorView& bias) {
  auto narrow = [](std::int64_t v) { return std::int32_t(v); };
  return {narrow(to.outer),
          narrow(to.channels),
          narrow(from.outer_stride),
          narrow(from.stride[1]),
          narrow(from.stride[2]),
          narrow(to.outer_stride),
          narrow(to.stride[1]),
          narrow(to.stride[2]),
          narrow(from.size[1]),
          narrow(from.size[2]),
          narrow(to.size[1]),
          narrow(to.size[2]),
          narrow(s.padding[1]),
          narrow(s.padding[2]),
          narrow(s.w.outer_stride),
          narrow(s.w.stride[1]),
          narrow(s.w.stride[2]),
          narrow(bias.defined() ? bias.stride(0) : 0),
          1};
}

// Groups along the lines, so many that all have about as many of `lines` and the device is full a few times over.
std::int64_t groups_for(const Device& device, const Key& key, std::int64_t groups_x, std::int64_t lines, int waves) {
  const std::int64_t wanted = std::max<std::int64_t>(1, waves * std::int64_t(device.info().compute_units) / groups_x);
  const std::int64_t at_once = group / key.lanes, rounds = (lines + wanted * at_once - 1) / (wanted * at_once);
  return (lines + rounds * at_once - 1) / (rounds * at_once);
}

std::int64_t groups_along_channels(const Key& key, std::int64_t channels) {
  return (channels / key.vector + key.lanes - 1) / key.lanes;
}

// As many neighbours at once as leave the fewest of a row's last ones without use.
int outputs_at_once(std::int64_t width) {
  const auto computed = [&](int n) { return (width + n - 1) / n * n; };
  int best = 8;
  for (int n = 7; n >= 4; n--)
    if (computed(n) < computed(best)) best = n;
  return best;
}

void run_rows(Queue& queue, Key key, const Volume& from, const Volume& w, const Volume& to, const TensorView& bias,
              Shape shape) {
  key.outputs = std::uint8_t(outputs_at_once(shape.out_w));
  key.vector = key.lanes = key.rows = 0;
  const std::int64_t across = (to.channels + 16 * blocks_of_rows - 1) / (16 * blocks_of_rows),
                     lines = to.outer * shape.out_h;
  const std::int64_t wanted = (4 * std::int64_t(queue.device().info().compute_units) + across - 1) / across;
  shape.strip = std::int32_t(std::max<std::int64_t>(1, lines / std::min(lines, wanted)));
  const std::int64_t down = (lines + shape.strip - 1) / shape.strip;
  launch(queue, kernel_of(queue.device(), key), NDRange(std::size_t(across), std::size_t(down), 1, 1), from.data,
         w.data, bias.defined() ? bias.data : w.data, to.data, shape);
}

void run_map(Queue& queue, Key key, const ConvShape& s, const Volume& from, const Volume& to, const TensorView& bias,
             Shape shape) {
  key.bias = bias.defined();
  const bool data = key.pass == Pass::data;
  if (queue.device().info().cpu && !data && s.type != DataType::float64 && to.channels >= 16)
    return run_rows(queue, key, from, s.w, to, bias, shape);
  const std::int64_t rows = data ? key.stride[0] : key.rows, columns = data ? key.stride[1] : 1;
  const std::int64_t bands =
      data ? (shape.out_h - 1 + shape.pad_h) / rows - shape.pad_h / rows + 1 : (shape.out_h + rows - 1) / rows;
  const std::int64_t steps = data ? (shape.out_w - 1 + shape.pad_w) / columns - shape.pad_w / columns + 1 : shape.out_w;
  const std::int64_t across = groups_along_channels(key, to.channels), units = queue.device().info().compute_units;
  // Strips as long as there are enough of them: each begins by reading what its neighbour has read.
  std::int64_t strip = steps;
  auto lines = [&] { return to.outer * bands * ((steps + strip - 1) / strip); };
  while (strip > 8 * s.dilation[2] && lines() * across * key.lanes < units * 1024) strip = (strip + 1) / 2;
  shape.strip = std::int32_t(strip);
  const std::int64_t down = groups_for(queue.device(), key, across, lines(), 16);
  launch(queue, kernel_of(queue.device(), key),
         NDRange(std::size_t(across * key.lanes), std::size_t(down * (group / key.lanes)), key.lanes,
                 std::size_t(group / key.lanes)),
         from.data, s.w.data, bias.defined() ? bias.data : s.w.data, to.data, shape);
}

}  // namespace

bool depthwise_last_serves(const Device& device, const ConvShape& s) {
  auto last = [](const Volume& v) { return v.channel_stride == 1 && v.stride[2] != 1; };
  auto reach = [](const Volume& v) {
    return v.outer * v.outer_stride + v.size[1] * v.stride[1] + v.size[2] * v.stride[2] + v.channels;
  };
  auto short_reach = [&](int i) {
    return (s.w.size[i] - 1) * s.dilation[i] < 12 && s.stride[i] <= 4 && s.padding[i] >= 0;
  };
  auto local_bytes = [&] { return std::size_t(32 * vector_of(s) * s.taps()) * size_of(accumulate_type(s.type)); };
  const char* forced = environment::text("DLPRIM_CONV");
  const bool wanted = !forced || std::strcmp(forced, "depthwise_last") == 0;
  return wanted && last(s.x) && last(s.y) && s.x.channels == s.y.channels && s.w.size[0] == 1 && s.x.size[0] == 1 &&
         s.y.size[0] == 1 && s.padding[0] == 0 && s.taps() <= weights_a_item && short_reach(1) && short_reach(2) &&
         std::max(reach(s.x), reach(s.y)) < settings.index_limit - (1 << 16) &&
         device.info().max_work_group >= std::size_t(group) && local_bytes() <= device.info().local_memory;
}

void depthwise_last_forward(Queue& queue, const ConvShape& s, const TensorView& bias, Activation activation) {
  Key key = make_key(Pass::forward, s);
  key.activation = std::uint8_t(activation);
  run_map(queue, key, s, s.x, s.y, bias, make_shape(s, s.x, s.y, bias));
}

void depthwise_last_backward_data(Queue& queue, const ConvShape& s, const TensorView& bias) {
  Shape shape = make_shape(s, s.y, s.x, bias);
  const bool flip = s.stride[1] == 1 && s.stride[2] == 1;
  if (flip) {
    shape.pad_h = std::int32_t(s.dilation[1] * (s.w.size[1] - 1) - s.padding[1]);
    shape.pad_w = std::int32_t(s.dilation[2] * (s.w.size[2] - 1) - s.padding[2]);
  }
  run_map(queue, make_key(flip ? Pass::flipped : Pass::data, s), s, s.y, s.x, bias, shape);
}

WeightSums depthwise_last_weights(Queue& queue, const ConvShape& s) {
  const Key key = make_key(Pass::weights, s);
  const std::int64_t across = groups_along_channels(key, s.x.channels), lines = s.x.outer * s.x.size[1];
  const std::int64_t slices = groups_for(queue.device(), key, across, lines, 4);
  Workspace sums(queue, std::size_t(slices * s.taps() * s.x.channels) * size_of(accumulate_type(s.type)));
  launch(queue, kernel_of(queue.device(), key),
         NDRange(std::size_t(across * key.lanes), std::size_t(slices * (group / key.lanes)), key.lanes,
                 std::size_t(group / key.lanes)),
         s.x.data, s.y.data, sums.data(), make_shape(s, s.x, s.y, {}));
  return {std::move(sums), slices};
}

}  // namespace dlprim
