// SPDX-License-Identifier: MIT
#include <dlprim/runtime/launch.hpp>
#include <dlprim/runtime/settings.hpp>

#include <algorithm>
#include <bit>

#include "../problem.hpp"
#include "../../gemm/engine.hpp"

namespace dlprim::conv_cores {

namespace {

// The struct of conv/depthwise.cl, in its order.
struct Shape {
  std::int64_t images, channels, multiplier;
  std::int64_t to_n, to_c, to[3], from_n, from_c, from[3];
  std::int64_t out[3], in[3], padding[3];
  std::int64_t w_outer, w[3], slices, bias_stride;
};

struct NarrowShape {
  std::int32_t fields[sizeof(Shape) / sizeof(std::int64_t)];
  explicit NarrowShape(const Shape& shape) {
    const auto wide = std::bit_cast<std::array<std::int64_t, sizeof(Shape) / sizeof(std::int64_t)>>(shape);
    for (std::size_t i = 0; i < wide.size(); i++) fields[i] = std::int32_t(wide[i]);
  }
};

enum class Pass : std::uint16_t { forward, flipped, data, weights, finish };
// Floats of a strip's copy, which stays in the first-level cache: with a vector behind them they take 32 KB.
constexpr std::int64_t strip_capacity = 8176;
constexpr const char* pass_names[] = {"conv_depthwise", "conv_depthwise", "conv_depthwise_data",
                                      "conv_depthwise_weights", "conv_depthwise_finish"};
constexpr int weights_group = 128;
constexpr std::int64_t most_in_block = 16;  // elements of a gradient that a work-item computes
constexpr std::size_t finish_columns = 16;  // sums that a group finishes

struct Key {
  Pass pass;
  std::uint16_t type, taps[3], stride[3], dilation[3], rows, bias, activation, channels_last, wide, group, line, blocks;
  std::uint16_t vector;  // of conv_depthwise_strip; 0: another kernel
};

// Whether numbers up to `last` leave too little of 32 bits for a group more.
bool needs_wide_index(std::int64_t last) {
  const std::int64_t limit = settings.index_limit;
  return last > limit - std::min<std::int64_t>(limit / 2, 1 << 16);
}

Key make_key(const Queue& queue, Pass pass, const ConvShape& s, const Volume& to) {
  Key key{};
  key.pass = pass, key.type = std::uint16_t(s.type);
  for (int i = 0; i < 3; i++) {
    key.taps[i] = std::uint16_t(s.w.size[i]);
    key.stride[i] = std::uint16_t(s.stride[i]), key.dilation[i] = std::uint16_t(s.dilation[i]);
  }
  key.channels_last = to.channel_stride == 1 && to.stride[2] != 1;
  key.rows = (pass == Pass::forward || pass == Pass::flipped) && to.size[1] > 1 ? 4 : 1;
  auto reach = [](const Volume& v) {
    std::int64_t last = v.outer * v.outer_stride + v.channels * v.channel_stride;
    for (int i = 0; i < 3; i++) last += v.size[i] * v.stride[i];
    return last;
  };
  key.wide = needs_wide_index(std::max(reach(s.x), reach(s.y)));
  const DeviceInfo& info = queue.device().info();
  key.group = std::uint16_t(fitting_group(info, info.cpu ? 16 : weights_group));
  return key;
}

Kernel& kernel_of(Device& device, const Key& key) {
  static KernelCache<Key> cache;
  return cache.get(device, key, [&] {
    const auto type = DataType(key.type);
    const bool weights = key.pass == Pass::weights;
    const char* strip = weights ? "conv_depthwise_strip_weights" : "conv_depthwise_strip";
    KernelSource source = key.vector ? KernelSource("conv/depthwise_strip.cl", strip)
                                     : KernelSource("conv/depthwise.cl", pass_names[int(key.pass)]);
    if (key.vector)
      source.define("T", "float" + std::to_string(key.vector))
          .define("V", key.vector)
          .define("CAPACITY", strip_capacity);
    else source.define("T", type == DataType::float64 ? "double" : "float");
    source.define("TYPE", tag(type));
    source.define("INDEX", key.wide ? "long" : "int").define("ROWS", key.rows).define("BIAS", key.bias);
    source.define("ACTIVATE(x0)", activation_code(Activation(key.activation)));
    source.define("CHANNELS_LAST", key.channels_last)
        .define("FLIP", key.pass == Pass::flipped)
        .define("LINE", key.line)
        .define("BLOCKS", key.blocks)
        .define("GROUP", key.group);
    constexpr const char* names[] = {"D", "H", "W"};
    for (int i = 0; i < 3; i++) {
      source.define(std::string("TAPS_") + names[i], key.taps[i]);
      source.define(std::string("STRIDE_") + names[i], key.pass == Pass::flipped ? 1 : key.stride[i]);
      source.define(std::string("UP_") + names[i], key.pass == Pass::flipped ? key.stride[i] : 1);
      source.define(std::string("DILATION_") + names[i], key.dilation[i]);
    }
    return source;
  });
}

// A pass that reads `from` and writes `to`.
Shape make_shape(const ConvShape& s, const Volume& from, const Volume& to, const TensorView& bias) {
  Shape shape{to.outer,
              to.channels,
              s.y.channels / s.x.channels,
              to.outer_stride,
              to.channel_stride,
              {},
              from.outer_stride,
              from.channel_stride,
              {},
              {},
              {},
              {},
              s.w.outer_stride,
              {},
              1,
              bias.defined() ? bias.stride(0) : 0};
  for (int i = 0; i < 3; i++) {
    shape.to[i] = to.stride[i], shape.from[i] = from.stride[i], shape.w[i] = s.w.stride[i];
    shape.out[i] = to.size[i], shape.in[i] = from.size[i], shape.padding[i] = s.padding[i];
  }
  return shape;
}

template <class... Buffers>
void run(Queue& queue, const Key& key, NDRange range, const Shape& shape, const Buffers&... buffers) {
  Kernel& kernel = kernel_of(queue.device(), key);
  if (key.wide) launch(queue, kernel, range, buffers..., shape);
  else launch(queue, kernel, range, buffers..., NarrowShape(shape));
}

// The length of vectors that leaves less of the last one of a row empty.
int strip_vector(const Volume& to) { return (to.size[2] + 15) % 16 < 8 ? 8 : 16; }

// Rows of a strip when conv_depthwise_strip serves the pass, with vectors of `width` elements, else 0.
std::int64_t strip_rows(const Device& device, const Key& key, const Shape& shape, std::int64_t width) {
  const bool flat = key.taps[0] == 1 && shape.in[0] == 1 && shape.out[0] == 1 && shape.padding[0] == 0;
  const std::int64_t stride = key.pass == Pass::flipped ? 1 : key.stride[2];
  const std::int64_t stride_h = key.pass == Pass::flipped ? 1 : key.stride[1];
  const bool served = key.pass <= Pass::flipped || (key.pass == Pass::weights && key.taps[2] <= 25);
  if (!device.info().cpu || !served || DataType(key.type) == DataType::float64 || !flat || stride > 2 ||
      shape.from[2] != 1 || shape.to[2] != 1 || shape.padding[2] < 0 ||
      device.info().local_memory < std::size_t(strip_capacity + 16) * sizeof(float))
    return 0;
  const std::int64_t reach_w = (key.taps[2] - 1) * key.dilation[2];
  const std::int64_t pitch = ((shape.out[2] + width - 1) / width * width + (reach_w + stride - 1) / stride) * stride;
  const std::int64_t lines = strip_capacity / pitch, reach = (key.taps[1] - 1) * key.dilation[1] + 1;
  if (lines < reach || shape.padding[2] > pitch) return 0;
  return std::min(shape.out[1], (lines - reach) / stride_h + 1);
}

void run_map(Queue& queue, Key key, const ConvShape& s, const Volume& from, const Volume& to, const TensorView& bias,
             Shape shape) {
  key.bias = bias.defined();
  const int vector = strip_vector(to);
  if (const std::int64_t rows = strip_rows(queue.device(), key, shape, vector)) {
    key.vector = std::uint16_t(vector), key.rows = key.channels_last = 0, shape.slices = rows;
    const auto items = std::size_t(to.outer * to.channels * ((to.size[1] + rows - 1) / rows));
    return run(queue, key, NDRange(items, 1), shape, from.data, s.w.data, bias.defined() ? bias.data : s.w.data,
               to.data);
  }
  std::int64_t sizes[] = {to.size[0], (to.size[1] + key.rows - 1) / key.rows, to.size[2]};
  for (int i = 0; i < 3 && key.blocks; i++) sizes[i] = (to.size[i] - 1 + shape.padding[i]) / key.stride[i] + 1;
  key.line = sizes[0] == 1 && sizes[1] == 1;
  const std::int64_t items = to.outer * to.channels * sizes[0] * sizes[1] * sizes[2];
  key.wide |= needs_wide_index(items);  // blocks lie over the padding, too
  run(queue, key, NDRange(std::size_t(items), 128), shape, from.data, s.w.data, bias.defined() ? bias.data : s.w.data,
      to.data);
}

void forward(Queue& queue, const ConvProblem& problem) {
  const ConvShape& s = problem.shape;
  const TensorView& bias = problem.bias;
  const Activation activation = problem.activation;
  if (depthwise_last_serves(queue.device(), s)) return depthwise_last_forward(queue, s, bias, activation);
  Key key = make_key(queue, Pass::forward, s, s.y);
  key.activation = std::uint16_t(activation);
  run_map(queue, key, s, s.x, s.y, bias, make_shape(s, s.x, s.y, bias));
}

void data_gradient(Queue& queue, const ConvShape& s, const TensorView& bias) {
  if (depthwise_last_serves(queue.device(), s)) return depthwise_last_backward_data(queue, s, bias);
  // A convolution with the kernel flipped; of what is spread out by the stride, which only strips can do.
  const Shape shape = make_shape(s, s.y, s.x, bias);
  Shape flipped = shape;
  for (int i = 0; i < 3; i++) flipped.padding[i] = s.dilation[i] * (s.w.size[i] - 1) - s.padding[i];
  const Key key = make_key(queue, Pass::flipped, s, s.x);
  const bool dense = s.stride[0] == 1 && s.stride[1] == 1 && s.stride[2] == 1;
  if (s.y.channels == s.x.channels && (dense || strip_rows(queue.device(), key, flipped, strip_vector(s.x)) > 0))
    return run_map(queue, key, s, s.y, s.x, bias, flipped);
  Key generic = make_key(queue, Pass::data, s, s.x);
  generic.blocks = s.stride[0] * s.stride[1] * s.stride[2] <= most_in_block;
  run_map(queue, generic, s, s.y, s.x, bias, shape);
}

void weights_gradient(Queue& queue, const ConvShape& s) {
  Shape shape = make_shape(s, s.x, s.y, {});
  Key key = make_key(queue, Pass::weights, s, s.y);
  const auto size = std::size_t(s.y.channels * s.taps());
  WeightSums partial;
  if (depthwise_last_serves(queue.device(), s)) {
    partial = depthwise_last_weights(queue, s);
    shape.slices = partial.slices;
  } else {
    const int vector = strip_vector(s.y);
    const bool strips = strip_rows(queue.device(), key, shape, vector) > 0;
    if (strips) key.vector = std::uint16_t(vector);
    // A strip's are of whole images; others have four positions for each work-item.
    const std::int64_t wanted = 8 * std::int64_t(queue.device().info().compute_units);
    const std::int64_t positions = s.y.outer * s.y.size[0] * s.y.size[1] * s.y.size[2];
    const std::int64_t most = strips ? s.y.outer : std::max<std::int64_t>(positions / (4 * key.group), 1);
    shape.slices = std::clamp<std::int64_t>(wanted / s.y.channels, 1, most);
    partial.sums = Workspace(queue, size * std::size_t(shape.slices) * size_of(accumulate_type(s.type)));
    const std::size_t group = strips ? 1 : key.group;
    run(queue, key, NDRange(std::size_t(s.y.channels) * group, std::size_t(shape.slices), group, 1), shape, s.x.data,
        s.y.data, partial.sums.data());
  }
  key.pass = Pass::finish, key.vector = 0;
  const std::size_t groups = (size + finish_columns - 1) / finish_columns;
  const std::size_t lines = key.group / finish_columns;
  run(queue, key, NDRange(finish_columns * groups, lines, finish_columns, lines), shape, partial.sums.data(), s.w.data);
}

const char* decline(const Device&, const ConvProblem& problem, bool) {
  if (!problem.shape.depthwise()) return "not depthwise, or of too many taps";
  return problem.x.numel() > 0 && problem.y.numel() > 0 ? nullptr : "nothing to read";
}

void run(Queue& queue, const ConvProblem& problem) {
  switch (problem.pass) {
    case ConvPass::forward: return add_residual_behind(queue, problem, forward);
    case ConvPass::data: return data_gradient(queue, problem.shape, problem.bias);
    case ConvPass::weights: return weights_gradient(queue, problem.shape);
  }
}

constexpr ConvCore core{.name = "depthwise", .order = 100, .decline = decline, .run = run};

}  // namespace

void depthwise(ConvCores& cores) { cores.add(core); }

}  // namespace dlprim::conv_cores
