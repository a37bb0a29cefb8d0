// SPDX-License-Identifier: MIT
// Groups of few channels, which leave most of a product's tile empty, computed directly, in float32: results and gradients
// of the data.
#include <dlprim/runtime/launch.hpp>

#include "../../../tuning/store.hpp"
#include "../image_rows.hpp"

namespace dlprim::conv_cores {

namespace {

constexpr std::int64_t most_copied = 7168, most_weights = 4096;  // floats in local memory
constexpr std::int64_t copy_step = 256;  // so that few kernels serve all shapes
constexpr std::int64_t most_columns = 64, most_items = 256;  // of a block; of a work-group

// The struct of conv/grouped.cl, in its order.
struct Shape {
  std::int64_t from_n, from_c, from_h, to_n, to_c, to_h, w_outer, w_c, w_h, w_w, bias_stride;
  std::int32_t groups, in_h, in_w, out_h, out_w, pad_h, pad_w;
  std::int32_t rows, columns, from_rows, pitch, blocks_h, blocks_w;
  std::int32_t padding;
};

struct Key {
  std::uint16_t co, ci, tile, taps[2], stride[2], up[2], dilation[2], group, loaders, vector, offset, phase, capacity,
      data, bias, activation, aligned;
};

// A pass reads `from` and writes `to`, with so much padding.
struct Pass {
  const Volume &from, &to;
  bool data;
  std::int64_t padding[2];
};

Pass pass_of(const ConvProblem& problem) {
  const ConvShape& s = problem.shape;
  const bool data = problem.pass == ConvPass::data;
  Pass pass{data ? s.y : s.x, data ? s.x : s.y, data, {s.padding[1], s.padding[2]}};
  for (int i = 0; i < 2 && data; i++) pass.padding[i] = s.dilation[i + 1] * (s.w.size[i + 1] - 1) - s.padding[i + 1];
  return pass;
}

Key make_key(const ConvProblem& problem, const Pass& pass) {
  const ConvShape& s = problem.shape;
  Key key{};
  key.co = std::uint16_t(pass.to.channels / s.groups), key.ci = std::uint16_t(pass.from.channels / s.groups);
  for (int i = 0; i < 2; i++) {
    key.taps[i] = std::uint16_t(s.w.size[i + 1]), key.stride[i] = key.up[i] = 1;
    (pass.data ? key.up : key.stride)[i] = std::uint16_t(s.stride[i + 1]);
    key.dilation[i] = std::uint16_t(s.dilation[i + 1]);
  }
  key.vector = key.up[0] == 1 && key.up[1] == 1 && in_fours(pass.from) ? 4 : 1, key.aligned = in_fours(pass.to);
  key.offset = std::uint16_t(key.vector == 4 ? offset_of(pass.padding[1]) : 0);
  key.phase = std::uint16_t((-pass.padding[1] % key.up[1] + key.up[1]) % key.up[1]);
  key.data = pass.data, key.bias = problem.bias.defined(), key.activation = std::uint16_t(problem.activation);
  return key;
}

// What a block holds: as many rows as fit; 0 where none does.
Shape make_shape(const ConvProblem& problem, const Pass& pass, const Key& key) {
  const ConvShape& s = problem.shape;
  const auto& [from, to, data, padding] = pass;
  Shape shape{};
  shape.from_n = from.outer_stride, shape.from_c = from.channel_stride, shape.from_h = from.stride[1];
  shape.to_n = to.outer_stride, shape.to_c = to.channel_stride, shape.to_h = to.stride[1];
  shape.w_outer = s.w.outer_stride, shape.w_c = s.w.channel_stride, shape.w_h = s.w.stride[1],
  shape.w_w = s.w.stride[2];
  shape.bias_stride = problem.bias.defined() ? problem.bias.stride(0) : 0;
  shape.groups = std::int32_t(s.groups), shape.in_h = std::int32_t(from.size[1]);
  shape.in_w = std::int32_t(from.size[2]), shape.out_h = std::int32_t(to.size[1]);
  shape.out_w = std::int32_t(to.size[2]);
  shape.pad_h = std::int32_t(padding[0]), shape.pad_w = std::int32_t(padding[1]);
  const std::int64_t reach_h = (key.taps[0] - 1) * key.dilation[0] + 1, reach_w = (key.taps[1] - 1) * key.dilation[1];
  const std::int64_t columns = std::min(ceil_div(to.size[2], 4) * 4, most_columns);
  const std::int64_t pitch = row_pitch(columns, key.stride[1], reach_w, key.offset);
  const std::int64_t fitting = most_copied / (key.ci * pitch);
  if (fitting < reach_h) return shape;
  const std::int64_t rows = std::min((fitting - reach_h) / key.stride[0] + 1, to.size[1]);
  shape.blocks_h = std::int32_t(ceil_div(to.size[1], rows));
  shape.rows = std::int32_t(ceil_div(to.size[1], shape.blocks_h));  // as many in each block
  shape.columns = std::int32_t(columns), shape.pitch = std::int32_t(pitch);
  shape.from_rows = std::int32_t((shape.rows - 1) * key.stride[0] + reach_h);
  shape.blocks_w = std::int32_t(ceil_div(to.size[2], columns));
  return shape;
}

// Channels of a work-item, work-items of a group: enough of them, and of the last ones few without work.
void divide(Key& key, const Shape& shape) {
  const std::int64_t positions = std::int64_t(shape.rows) * shape.columns / 4;
  for (key.tile = 8; key.co % key.tile != 0 || (key.tile > 2 && positions * (key.co / key.tile) < 64);) key.tile /= 2;
  const std::int64_t items = positions * (key.co / key.tile), turns = ceil_div(items, most_items);
  key.group = std::uint16_t(ceil_div(ceil_div(items, turns), 32) * 32);
  key.loaders = std::uint16_t(loaders_of(shape.pitch, key.vector));
  key.capacity = std::uint16_t(ceil_div(std::int64_t(key.ci) * shape.from_rows * shape.pitch, copy_step) * copy_step);
}

Kernel& kernel_of(Device& device, const Key& key) {
  static KernelCache<Key> cache;
  return cache.get(device, key, [&] {
    KernelSource source("conv/grouped.cl", "grouped");
    source.define("CO", key.co).define("CI", key.ci).define("TILE", key.tile).define("GROUP", key.group);
    source.define("KH", key.taps[0]).define("KW", key.taps[1]).define("SH", key.stride[0]).define("SW", key.stride[1]);
    source.define("UP_H", key.up[0]).define("UP_W", key.up[1]);
    source.define("DH", key.dilation[0]).define("DW", key.dilation[1]).define("LOADERS", key.loaders);
    source.define("VECTOR", key.vector)
        .define("OFFSET", key.offset)
        .define("PHASE", key.phase)
        .define("CAPACITY", key.capacity);
    source.define("DATA", key.data).define("BIAS", key.bias).define("ALIGNED", key.aligned);
    return source.define("ACTIVATE(x0)", activation_code(Activation(key.activation)));
  });
}

const char* decline(const Device& device, const ConvProblem& problem, bool forced) {
  const ConvShape& s = problem.shape;
  if (problem.pass == ConvPass::weights) return "not for gradients of weights";
  if (const char* reason = decline_rows(problem)) return reason;
  const std::int64_t weights = s.y.channels / s.groups * s.w.channels * s.taps();
  if (weights > most_weights) return "groups of many channels";
  const Pass pass = pass_of(problem);
  const Key key = make_key(problem, pass);
  const Shape shape = make_shape(problem, pass, key);
  if (shape.rows < 1) return "rows do not fit in local memory";
  const std::int64_t most = std::max({s.y.outer * s.groups * shape.blocks_h * shape.blocks_w, s.x.size[1] * s.stride[1],
                                      s.x.size[2] * s.stride[2], s.y.size[1] * s.stride[1], s.y.size[2] * s.stride[2],
                                      s.padding[1], s.padding[2]});
  if (most > 1 << 28) return "numbers that leave 32 bits";
  const DeviceInfo& info = device.info();
  if (info.max_work_group < most_items || info.local_memory < std::size_t(most_copied + weights) * sizeof(float))
    return "the device's work-groups are too small";
  if (forced) return nullptr;
  if (info.cpu) return "not on CPUs";
  static tuning::Numbers<2> limits("conv.grouped");
  const auto& [in_float32, in_tf32] = limits(device);
  // At a stride less of what lies in local memory is used; the products for a gradient of data suffer from it, too.
  const double steps = pass.data ? std::max(key.up[0] * key.up[1] / 4.0, 1.0) : key.stride[0] * key.stride[1];
  const auto most_channels = double(s.allow_tf32 ? in_tf32 : in_float32);
  return double(key.co * key.ci) * steps <= most_channels ? nullptr : "a product serves better";
}

void run_pass(Queue& queue, const ConvProblem& problem) {
  const Pass pass = pass_of(problem);
  Key key = make_key(problem, pass);
  const Shape shape = make_shape(problem, pass, key);
  divide(key, shape);
  const std::int64_t blocks = pass.to.outer * problem.shape.groups * shape.blocks_h * shape.blocks_w;
  const BufferRef weights = problem.shape.w.data;
  launch(queue, kernel_of(queue.device(), key), NDRange(std::size_t(blocks) * key.group, key.group), pass.from.data,
         weights, problem.bias.defined() ? problem.bias.data : weights, pass.to.data, shape);
}

void run(Queue& queue, const ConvProblem& problem) { add_residual_behind(queue, problem, run_pass); }

constexpr ConvCore core{.name = "grouped", .order = 340, .decline = decline, .run = run};

}  // namespace

void grouped(ConvCores& cores) { cores.add(core); }

}  // namespace dlprim::conv_cores
