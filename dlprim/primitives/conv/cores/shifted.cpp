// SPDX-License-Identifier: MIT
// Convolution of images on CPUs as one product whose operand is read from planes of x, shifted for each kernel position.
#include <dlprim/runtime/launch.hpp>

#include <algorithm>
#include <cstdint>

#include "../../../tuning/store.hpp"
#include "../../grid.hpp"
#include "../problem.hpp"

namespace dlprim::conv_cores {

namespace {

/// Mirrors Shape of conv/shifted.cl.
struct Shape {
  std::int64_t x_image, x_group, x_channel, tap_h, tap_w, phase_h, phase_w, pitch;
  std::int64_t w_row, y_image, y_channel, y_row, bias;
  std::int64_t m, channels, columns, line, width, taps_h, taps_w, step_h, step_w;
  std::int64_t slice, blocks, all_blocks, tile_m, tile_blocks, tiles_m, tiles_n;
};

/// Mirrors Copy of conv/shifted_copy.cl.
struct Copy {
  std::int64_t x_image, x_channel, x_row, x_size, y_image, y_channel, y_phase, pitch, rows, behind;
  std::int64_t height, width, padding_h, padding_w, step_h, step_w, phases_h, phases_w;
};

struct Key {
  std::uint16_t type = 0, activation = 0, residual = 0, copy = 0, mr = 0, nr = 0, mb = 0, nb = 0;
};

// Sums go in slices whose part of x, for one block, stays in the first cache: terms, rows of x.
constexpr std::int64_t longest_slice = 512, rows_of_slice = 128;
constexpr std::int64_t most_blocks = 16;  // of a tile
constexpr std::int64_t few = 4;  // columns behind an image's whole blocks that are summed up one by one

Kernel& kernel_of(Device& device, const Key& key) {
  static KernelCache<Key> cache;
  return cache.get(device, key, [&] {
    const std::string name = key.copy ? "shifted_copy" : "shifted";
    KernelSource source("conv/" + name + ".cl", "conv_" + name);
    const std::string type = DataType(key.type) == DataType::float64 ? "double" : "float";
    source.define("T", type).define("VEC", type + "16");
    if (key.copy) return source;
    source.define("MR", key.mr).define("NR", key.nr).define("MB", key.mb).define("NB", key.nb);
    source.define("FEW", few)
        .define("KB", longest_slice)
        .define("BLOCKS", most_blocks)
        .define("RESIDUAL", key.residual);
    source.define("ACTIVATE(x0)", activation_code(Activation(key.activation)));
    return source;
  });
}

BufferRef at(const BufferRef& data, std::int64_t elements, DataType type) {
  return {data.memory, data.offset + std::size_t(elements) * size_of(type)};
}

Key key_of(const Device& device, const ConvProblem& problem) {
  static tuning::Numbers<2> singles("conv.shifted.float32"), doubles("conv.shifted.float64");
  const DataType type = problem.shape.type;
  const auto& [rows, columns] = (type == DataType::float64 ? doubles : singles)(device);
  const std::size_t local = device.info().local_memory;
  Key key{};
  key.type = std::uint16_t(type), key.activation = std::uint16_t(problem.activation);
  key.residual = problem.residual.defined();
  key.mr = std::uint16_t(rows), key.nr = std::uint16_t(columns);
  key.mb = std::uint16_t((local >= 262144 ? 128 : 32) / key.mr * key.mr);
  key.nb = std::uint16_t((local >= 262144 ? 576 : 192) / size_of(type) / key.nr * key.nr);
  return key;
}

// The planes that x is copied to.
Copy planes(const ConvShape& s) {
  const auto reach = [&](int i) { return (s.w.size[i] - 1) * s.dilation[i]; };  // of the kernel
  const auto phases = [&](int i) {
    std::int64_t last = 0;
    for (std::int64_t tap = 0; tap < s.w.size[i]; tap++) last = std::max(last, tap * s.dilation[i] % s.stride[i]);
    return last + 1;
  };
  Copy c{};
  c.x_image = s.x.outer_stride, c.x_channel = s.x.channel_stride, c.x_row = s.x.stride[1];
  c.height = s.x.size[1], c.width = s.x.size[2], c.padding_h = s.padding[1], c.padding_w = s.padding[2];
  c.x_size = (s.x.outer - 1) * c.x_image + (s.x.channels - 1) * c.x_channel + (c.height - 1) * c.x_row + c.width;
  c.step_h = s.stride[1], c.step_w = s.stride[2], c.phases_h = phases(1), c.phases_w = phases(2);
  c.rows = s.y.size[1] + reach(1) / c.step_h;
  // Zeros left of a row serve the row above, too, as far as all planes have some.
  const std::int64_t read = s.y.size[2] + reach(2) / c.step_w, inside = (c.width - 1 + c.padding_w) / c.step_w + 1;
  const std::int64_t zeros = std::max<std::int64_t>(0, divide_up(c.padding_w - c.phases_w + 1, c.step_w));
  c.behind = std::min({zeros, reach(2) / c.step_w, std::max<std::int64_t>(0, read - inside)});
  c.pitch = read - c.behind;
  c.y_phase = divide_up(c.rows * c.pitch + c.behind + 15, 16) * 16;
  c.y_channel = c.phases_h * c.phases_w * c.y_phase, c.y_image = s.x.channels * c.y_channel;
  return c;
}

// Whether x serves as it is: windows lie inside, padding may be behind, too, and a block reads nothing behind a plane.
bool reads_directly(const ConvShape& s, const Shape& shape, const Key& key) {
  for (int i = 1; i < 3; i++)
    if (s.stride[i] != 1 || s.padding[i] != 0 || s.y.size[i] + (s.w.size[i] - 1) * s.dilation[i] > s.x.size[i])
      return false;
  return shape.columns >= key.nr;
}

// Cuts the product into tiles, smaller ones where there are few.
void set_tiles(Shape& shape, std::int64_t images, std::int64_t groups, const Key& key, const DeviceInfo& info) {
  shape.blocks = divide_up(shape.columns, key.nr), shape.all_blocks = shape.blocks * images;
  shape.tile_m = divide_up(divide_up(shape.m, divide_up(shape.m, key.mb)), key.mr) * key.mr;
  const bool whole = shape.slice == shape.channels;
  shape.tile_blocks = std::min<std::int64_t>(shape.all_blocks, whole ? most_blocks : key.nb / key.nr);
  const auto tiles = [&] { return divide_up(shape.m, shape.tile_m) * divide_up(shape.all_blocks, shape.tile_blocks); };
  const std::int64_t wanted = divide_up(4 * std::int64_t(info.compute_units), groups);
  while (tiles() < wanted && shape.tile_m >= 64) shape.tile_m = divide_up(shape.tile_m, 2 * key.mr) * key.mr;
  while (tiles() < wanted && shape.tile_blocks > 1) shape.tile_blocks--;
  while (tiles() < wanted && shape.tile_m > key.mr) shape.tile_m -= key.mr;
  shape.tiles_m = divide_up(shape.m, shape.tile_m), shape.tiles_n = divide_up(shape.all_blocks, shape.tile_blocks);
}

// All but what depends on how many images there are, and on where x lies.
Shape shape_of(const ConvProblem& problem) {
  const ConvShape& s = problem.shape;
  Shape shape{};
  shape.tap_h = s.dilation[1], shape.tap_w = s.dilation[2], shape.step_h = s.stride[1], shape.step_w = s.stride[2];
  shape.taps_h = s.w.size[1], shape.taps_w = s.w.size[2];
  shape.m = s.y.channels / s.groups, shape.channels = s.w.channels, shape.w_row = s.w.outer_stride;
  shape.slice =
      std::min({shape.channels, longest_slice / s.taps(), std::max<std::int64_t>(1, rows_of_slice / shape.taps_h)});
  shape.y_image = s.y.outer_stride, shape.y_channel = s.y.channel_stride, shape.y_row = s.y.stride[1];
  shape.bias = problem.bias.defined() ? problem.bias.stride(0) : 0;
  return shape;
}

// Says where x lies.
void place(Shape& shape, const ConvShape& s, std::int64_t image, std::int64_t channel, std::int64_t pitch) {
  shape.x_image = image, shape.x_channel = channel, shape.x_group = shape.channels * channel, shape.pitch = pitch;
  shape.columns = (s.y.size[1] - 1) * pitch + s.y.size[2];
  const bool one_row = pitch == s.y.size[2] && shape.y_row == pitch;
  shape.line = one_row ? shape.columns : pitch, shape.width = one_row ? shape.columns : s.y.size[2];
}

// Computes `images` from number `first` on, from x.
void multiply(Queue& queue, const ConvProblem& problem, Shape shape, const BufferRef& x, std::int64_t first,
              std::int64_t images) {
  const ConvShape& s = problem.shape;
  const Key key = key_of(queue.device(), problem);
  set_tiles(shape, images, s.groups, key, queue.device().info());
  const auto of_image = [&](const TensorView& t) {
    return at(t.defined() ? t.data : s.y.data, t.defined() ? first * s.y.outer_stride : 0, s.type);
  };
  launch(queue, kernel_of(queue.device(), key), NDRange(std::size_t(shape.tiles_m * shape.tiles_n * s.groups), 1), x,
         s.w.data, of_image(problem.y), problem.bias.defined() ? problem.bias.data : s.y.data,
         of_image(problem.residual), cl_int(problem.bias.defined()), shape);
}

void forward(Queue& queue, const ConvProblem& problem) {
  const ConvShape& s = problem.shape;
  Key key = key_of(queue.device(), problem);
  Shape shape = shape_of(problem);
  place(shape, s, s.x.outer_stride, s.x.channel_stride, s.x.stride[1]);
  if (reads_directly(s, shape, key)) return multiply(queue, problem, shape, s.x.data, 0, s.x.outer);
  const Copy copy = planes(s);
  place(shape, s, copy.y_image, copy.y_channel, copy.pitch);
  shape.phase_w = copy.y_phase, shape.phase_h = copy.phases_w * copy.y_phase;
  const auto bytes = std::size_t(copy.y_image) * size_of(s.type);
  const std::int64_t limit = std::int64_t(workspace_limit(queue.device().info()) / bytes);
  const std::int64_t chunk = std::clamp<std::int64_t>(limit, 1, s.x.outer);
  const Workspace memory(queue, std::size_t(chunk * copy.y_image + key.nr) * size_of(s.type));
  key = Key{.type = key.type, .copy = 1};
  for (std::int64_t first = 0; first < s.x.outer; first += chunk) {
    const std::int64_t images = std::min(chunk, s.x.outer - first);
    Copy part = copy;
    part.x_size -= first * s.x.outer_stride;
    launch(queue, kernel_of(queue.device(), key), NDRange(std::size_t(s.x.channels), std::size_t(images), 1, 1),
           at(s.x.data, first * s.x.outer_stride, s.type), memory.data(), part);
    multiply(queue, problem, shape, memory.data(), first, images);
  }
}

void run(Queue& queue, const ConvProblem& problem) {
  if (!problem.residual.defined()) return forward(queue, problem);
  const TensorView &y = problem.y, &residual = problem.residual;
  const bool alike = std::equal(y.strides.begin(), y.strides.begin() + y.dims, residual.strides.begin());
  if (alike) forward(queue, problem);
  else add_residual_behind(queue, problem, forward);
}

const char* decline(const Device& device, const ConvProblem& problem, bool forced) {
  const ConvShape& s = problem.shape;
  if (problem.pass != ConvPass::forward) return "only for results";
  if (!device.info().cpu && !forced) return "for CPUs";
  if (s.type != DataType::float32 && s.type != DataType::float64) return "only for float32 and float64";
  const bool flat = s.x.size[0] == 1 && s.w.size[0] == 1 && s.y.size[0] == 1 && s.padding[0] == 0;
  if (!flat || s.x.stride[2] != 1 || s.y.stride[2] != 1) return "only for images whose rows are contiguous";
  if (!dense(s.w, false) || s.taps() > longest_slice) return "only for few taps, densely, channel by channel";
  if (!forced && s.y.size[1] * s.y.size[2] < 16) return "images smaller than a vector";
  static tuning::Numbers<1> least("conv.shifted.least");
  // As if all channels were of one group: with many of few channels, what serves instead fills its tiles badly.
  const double products =
      double(s.y.outer * s.y.channels * s.y.size[1] * s.y.size[2]) * double(s.x.channels * s.taps());
  if (!forced && products < least(device)[0]) return "little work";
  const auto read = [&](int i) { return s.y.size[i] + (s.w.size[i] - 1) * s.dilation[i]; };
  if (read(1) > INT32_MAX / read(2)) return "images of more positions than an int counts";
  return nullptr;
}

constexpr ConvCore core{.name = "shifted", .order = 250, .decline = decline, .run = run, .copies = true};

}  // namespace

void shifted(ConvCores& cores) { cores.add(core); }

}  // namespace dlprim::conv_cores
