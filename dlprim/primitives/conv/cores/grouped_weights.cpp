// SPDX-License-Identifier: MIT
// Gradients of the weights of groups of few channels, which leave most of a product's tile empty: summed directly, in
// float32.
#include <dlprim/primitives/reduce.hpp>
#include <dlprim/runtime/launch.hpp>

#include "../../../tuning/store.hpp"
#include "../image_rows.hpp"

namespace dlprim::conv_cores {

namespace {

constexpr int group_size = 128;
constexpr std::int64_t capacity_x = 4096, capacity_y = 2048;  // floats in local memory
constexpr std::size_t local_bytes = std::size_t(capacity_x + capacity_y) * sizeof(float);
constexpr std::int64_t most_columns = 64, most_sums = most_taps;  // of a block; of a work-item

// The struct of conv/grouped_weights.cl, in its order.
struct Shape {
  std::int64_t x_n, x_c, x_h, y_n, y_c, y_h;
  std::int32_t groups, in_h, in_w, out_h, out_w, pad_h, pad_w;
  std::int32_t rows, columns, x_rows, x_pitch, blocks_h, blocks_w, blocks, slices;
  std::int32_t padding;
};

struct Key {
  std::uint16_t co, ci, tile_y, tile_x, taps[2], stride[2], dilation[2], loaders, vector, offset;
};

Key make_key(const ConvShape& s) {
  Key key{};
  key.co = std::uint16_t(s.y.channels / s.groups), key.ci = std::uint16_t(s.w.channels);
  const bool two_by_two = 4 * s.taps() <= most_sums;
  key.tile_y = two_by_two && key.co % 2 == 0 ? 2 : 1, key.tile_x = two_by_two && key.ci % 2 == 0 ? 2 : 1;
  for (int i = 0; i < 2; i++) {
    key.taps[i] = std::uint16_t(s.w.size[i + 1]), key.stride[i] = std::uint16_t(s.stride[i + 1]);
    key.dilation[i] = std::uint16_t(s.dilation[i + 1]);
  }
  // Columns of x then start at a multiple of 4 in memory, too.
  key.vector = in_fours(s.x) && in_fours(s.y) ? 4 : 1;
  key.offset = std::uint16_t(key.vector == 4 ? offset_of(s.padding[2]) : 0);
  return key;
}

// What a block holds: as many rows as fit.
Shape make_shape(const ConvShape& s, const Key& key) {
  Shape shape{};
  shape.x_n = s.x.outer_stride, shape.x_c = s.x.channel_stride, shape.x_h = s.x.stride[1];
  shape.y_n = s.y.outer_stride, shape.y_c = s.y.channel_stride, shape.y_h = s.y.stride[1];
  shape.groups = std::int32_t(s.groups);
  shape.in_h = std::int32_t(s.x.size[1]), shape.in_w = std::int32_t(s.x.size[2]);
  shape.out_h = std::int32_t(s.y.size[1]), shape.out_w = std::int32_t(s.y.size[2]);
  shape.pad_h = std::int32_t(s.padding[1]), shape.pad_w = std::int32_t(s.padding[2]);
  const std::int64_t reach_h = (key.taps[0] - 1) * key.dilation[0] + 1, reach_w = (key.taps[1] - 1) * key.dilation[1];
  const std::int64_t columns = std::min(ceil_div(s.y.size[2], 4) * 4, most_columns);
  const std::int64_t pitch = row_pitch(columns, key.stride[1], reach_w, key.offset);
  const std::int64_t x_rows = capacity_x / (key.ci * pitch), y_rows = capacity_y / (key.co * columns);
  const std::int64_t rows = x_rows < reach_h ? 0 : std::min((x_rows - reach_h) / key.stride[0] + 1, y_rows);
  // As many in each block.
  shape.rows = std::int32_t(rows < 1 ? 0 : ceil_div(s.y.size[1], ceil_div(s.y.size[1], std::min(rows, s.y.size[1]))));
  shape.columns = std::int32_t(columns), shape.x_pitch = std::int32_t(pitch);
  shape.x_rows = std::int32_t((shape.rows - 1) * key.stride[0] + reach_h);
  if (shape.rows < 1) return shape;
  shape.blocks_h = std::int32_t(ceil_div(s.y.size[1], shape.rows));
  shape.blocks_w = std::int32_t(ceil_div(s.y.size[2], columns));
  return shape;
}

Kernel& kernel_of(Device& device, const Key& key) {
  static KernelCache<Key> cache;
  return cache.get(device, key, [&] {
    KernelSource source("conv/grouped_weights.cl", "grouped_weights");
    source.define("CO", key.co).define("CI", key.ci).define("VECTOR", key.vector).define("OFFSET", key.offset);
    source.define("TILE_Y", key.tile_y).define("TILE_X", key.tile_x).define("GROUP", group_size);
    source.define("KH", key.taps[0]).define("KW", key.taps[1]).define("SH", key.stride[0]).define("SW", key.stride[1]);
    source.define("DH", key.dilation[0]).define("DW", key.dilation[1]).define("LOADERS", key.loaders);
    source.define("CAPACITY_X", capacity_x).define("CAPACITY_Y", capacity_y);
    return source;
  });
}

const char* decline(const Device& device, const ConvProblem& problem, bool forced) {
  const ConvShape& s = problem.shape;
  if (problem.pass != ConvPass::weights) return "only for gradients of weights";
  if (const char* reason = decline_rows(problem)) return reason;
  if (s.y.channels / s.groups > group_size || s.w.channels > group_size) return "groups of many channels";
  const Key key = make_key(s);
  if (key.co / key.tile_y * (key.ci / key.tile_x) > group_size) return "groups of many channels";
  const Shape shape = make_shape(s, key);
  if (shape.rows < 1) return "rows do not fit in local memory";
  const std::int64_t most = std::max({s.y.outer * shape.blocks_h * shape.blocks_w, s.groups, s.x.size[1], s.x.size[2],
                                      s.y.size[1], s.y.size[2], s.padding[1], s.padding[2]});
  if (most > 1 << 28) return "numbers that leave 32 bits";
  const DeviceInfo& info = device.info();
  if (info.max_work_group < group_size || info.local_memory < local_bytes)
    return "the device's work-groups are too small";
  if (forced) return nullptr;
  if (info.cpu) return "not on CPUs";
  static tuning::Numbers<2> limits("conv.grouped_weights");
  const auto& [in_float32, in_tf32] = limits(device);
  return key.co * key.ci * key.stride[0] * key.stride[1] <= (s.allow_tf32 ? in_tf32 : in_float32)
             ? nullptr
             : "a product serves better";
}

void run(Queue& queue, const ConvProblem& problem) {
  const ConvShape& s = problem.shape;
  Key key = make_key(s);
  Shape shape = make_shape(s, key);
  const DeviceInfo& info = queue.device().info();
  key.loaders = std::uint16_t(loaders_of(shape.x_pitch, key.vector));
  const std::int64_t blocks = s.y.outer * shape.blocks_h * shape.blocks_w;
  const std::int64_t wanted = ceil_div(8 * std::int64_t(info.compute_units), s.groups);
  const std::int64_t slices = std::clamp<std::int64_t>(wanted, 1, blocks);
  shape.blocks = std::int32_t(blocks), shape.slices = std::int32_t(slices);
  const std::int64_t sizes[] = {slices, s.y.channels, s.w.channels, s.w.size[1], s.w.size[2]};
  const std::int64_t inner = sizes[3] * sizes[4];
  const std::int64_t strides[] = {s.y.channels * s.w.channels * inner, s.w.channels * inner, inner, sizes[4], 1};
  const Workspace memory(queue, std::size_t(slices * strides[0]) * sizeof(float));
  launch(queue, kernel_of(queue.device(), key), NDRange(std::size_t(s.groups * slices) * group_size, group_size),
         s.x.data, s.y.data, memory.data(), shape);
  const TensorView sums(memory.data(), DataType::float32, std::span(sizes), std::span(strides));
  const std::int64_t result[] = {1, sizes[1], sizes[2], sizes[3], sizes[4]};
  const std::int64_t to[] = {0, s.w.outer_stride, s.w.channel_stride, s.w.stride[1], s.w.stride[2]};
  const TensorView weights(s.w.data, s.type, std::span(result), std::span(to));
  reduce(queue, ReduceId::sum, {{&weights, 1}, {&sums, 1}});
}

constexpr ConvCore core{.name = "grouped_weights", .order = 350, .decline = decline, .run = run};

}  // namespace

void grouped_weights(ConvCores& cores) { cores.add(core); }

}  // namespace dlprim::conv_cores
