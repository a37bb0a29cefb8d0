// SPDX-License-Identifier: MIT
// Winograd's F(4x4, 3x3) on CPUs, where rows of images are contiguous: three stages as in winograd.cpp, by vectors of
// neighbouring tiles. Rows of tiles go in turns, so that a turn's intermediate results stay in the cache.
#include <dlprim/runtime/launch.hpp>

#include <algorithm>

#include "../../../tuning/store.hpp"
#include "../../grid.hpp"
#include "../problem.hpp"

namespace dlprim::conv_cores {

namespace {

constexpr std::int64_t domain = 36, panel = 8, columns = 48;
constexpr std::int64_t most_tiles = 256;  // of a row
constexpr std::int64_t most_kept = 64 << 20;  // bytes of one convolution's weights
constexpr std::size_t least_local_memory = 131072;  // rows and tiles take 92 KB

/// Mirrors Shape of conv/winograd_rows.cl.
struct Shape {
  std::int64_t x_image, x_channel, x_row, y_image, y_channel, y_row, w_output, w_channel, w_row, w_column, bias;
  std::int64_t u_plane, v_plane, m_plane, pitch;
  std::int64_t first_row, rows, rows_at_once, tiles_h, tiles_w, height, width, y_height, y_width, origin_h, origin_w;
  std::int64_t channels, outputs, panels, panels_at_once;
};

enum class Stage : std::uint8_t { weights, into, products, from };
constexpr const char* stages[] = {"winograd_rows_weights", "winograd_rows_into", "winograd_rows_products",
                                  "winograd_rows_from"};

struct Key {
  Stage stage;
  std::uint8_t activation, residual;
};

std::int64_t most_channels(const DeviceInfo& info) { return std::int64_t(info.local_memory) / 4 / columns / 64 * 64; }

Kernel& kernel_of(Device& device, const Key& key) {
  static KernelCache<Key> cache;
  return cache.get(device, key, [&] {
    KernelSource source("conv/winograd_rows.cl", stages[int(key.stage)]);
    source.define("MR", panel).define("NR", columns).define("TILES", most_tiles).define("RESIDUAL", key.residual);
    source.define("CHANNELS", std::min<std::int64_t>(most_channels(device.info()), 1024));
    source.define("ACTIVATE(x0)", activation_code(Activation(key.activation)));
    return source;
  });
}

BufferRef at(const BufferRef& data, std::int64_t elements) {
  return {data.memory, data.offset + std::size_t(elements) * sizeof(float)};
}

/// y = x * weights, whose outputs and channels are those of y and x.
struct Convolution {
  const Volume &x, &y;
  BufferRef weights;
  std::int64_t w_output, w_channel, w_row, w_column, origin_h, origin_w;
  TensorView bias, residual;
  Activation activation = Activation::none;
  std::optional<Workspace>* kept = nullptr;
};

// All but what a turn sets.
Shape shape_of(const Convolution& c) {
  Shape s{};
  s.x_image = c.x.outer_stride, s.x_channel = c.x.channel_stride, s.x_row = c.x.stride[1];
  s.y_image = c.y.outer_stride, s.y_channel = c.y.channel_stride, s.y_row = c.y.stride[1];
  s.w_output = c.w_output, s.w_channel = c.w_channel, s.w_row = c.w_row, s.w_column = c.w_column;
  s.bias = c.bias.defined() ? c.bias.stride(0) : 0;
  s.tiles_h = divide_up(c.y.size[1], 4), s.tiles_w = divide_up(c.y.size[2], 4);
  s.height = c.x.size[1], s.width = c.x.size[2], s.y_height = c.y.size[1], s.y_width = c.y.size[2];
  s.origin_h = c.origin_h, s.origin_w = c.origin_w, s.channels = c.x.channels, s.outputs = c.y.channels;
  s.panels = divide_up(s.outputs, 2 * panel) * 2, s.u_plane = s.panels * panel * s.channels;
  return s;
}

// Rows of tiles in a turn; sets where they lie.
std::int64_t rows_of_turn(Shape& s, std::int64_t images, const DeviceInfo& info) {
  const std::int64_t both = s.channels + s.panels * panel,
                     row = domain * both * s.tiles_w * std::int64_t(sizeof(float));
  const std::int64_t all = images * s.tiles_h,
                     most = std::max<std::int64_t>(1, std::int64_t(workspace_limit(info)) / row);
  const std::int64_t rows = divide_up(all, divide_up(all, most));
  // Rows of a matrix should not share the sets of a cache.
  s.pitch = divide_up(rows * s.tiles_w, 16) * 16;
  if (s.pitch % 256 == 0) s.pitch += 16;
  s.v_plane = s.channels * s.pitch, s.m_plane = s.panels * panel * s.pitch;
  return rows;
}

// Panels that a work-item multiplies: fewer than all where there is little else to share out.
std::int64_t panels_at_once(const Shape& s, std::int64_t blocks, const DeviceInfo& info) {
  const std::int64_t wanted = divide_up(4 * std::int64_t(info.compute_units), domain * blocks);
  return std::max<std::int64_t>(divide_up(s.panels, wanted), std::min<std::int64_t>(s.panels, 4));
}

void convolve(Queue& queue, const Convolution& c) {
  Device& device = queue.device();
  const auto kernel = [&](Stage stage) -> Kernel& { return kernel_of(device, {stage, 0, 0}); };
  Shape s = shape_of(c);
  const std::int64_t turn = rows_of_turn(s, c.x.outer, device.info()), all = c.x.outer * s.tiles_h;
  std::optional<Workspace> own;
  std::optional<Workspace>& u = c.kept ? *c.kept : own;
  const Workspace v(queue, std::size_t(domain * s.v_plane) * sizeof(float));
  const Workspace m(queue, std::size_t(domain * s.m_plane + 16) * sizeof(float));
  if (!u) {
    Workspace made(queue, std::size_t(domain * s.u_plane) * sizeof(float));
    const NDRange range(std::size_t(s.panels / 2), std::size_t(divide_up(s.channels, 16)), 1, 1);
    launch(queue, kernel(Stage::weights), range, c.weights, made.data(), s);
    u = std::move(made);
  }
  Kernel& back = kernel_of(device, {Stage::from, std::uint8_t(c.activation), c.residual.defined()});
  for (; s.first_row < all; s.first_row += turn) {
    s.rows = std::min(turn, all - s.first_row), s.rows_at_once = std::max<std::int64_t>(1, most_tiles / s.tiles_w);
    const std::int64_t groups = divide_up(s.rows, s.rows_at_once), blocks = divide_up(s.rows * s.tiles_w, columns);
    s.panels_at_once = panels_at_once(s, blocks, device.info());
    const auto parts = std::size_t(divide_up(s.panels, s.panels_at_once));
    launch(queue, kernel(Stage::into), NDRange(std::size_t(s.channels), std::size_t(groups), 1, 1), c.x.data, v.data(),
           s);
    launch(queue, kernel(Stage::products), NDRange(std::size_t(blocks), parts, domain, 1, 1, 1), u->data(), v.data(),
           m.data(), s);
    launch(queue, back, NDRange(std::size_t(s.outputs), std::size_t(groups), 1, 1), m.data(), c.y.data,
           c.bias.defined() ? c.bias.data : c.y.data, c.residual.defined() ? c.residual.data : c.y.data,
           cl_int(c.bias.defined()), s);
  }
}

// Whether the weights' numbers are made once.
bool keeps(const ConvProblem& p) {
  return p.kept && domain * 4 * p.shape.x.channels * divide_up(p.shape.y.channels, 2 * panel) * 2 * panel <= most_kept;
}

void forward(Queue& queue, const ConvProblem& p) {
  const ConvShape& s = p.shape;
  convolve(queue, {s.x, s.y, s.w.data, s.w.outer_stride, s.w.channel_stride, s.w.stride[1], s.w.stride[2],
                   -s.padding[1], -s.padding[2], p.bias, p.residual, p.activation, keeps(p) ? p.kept : nullptr});
}

// A convolution of y's gradient by the weights rotated by 180 degrees.
void data_gradient(Queue& queue, const ConvProblem& p) {
  const ConvShape& s = p.shape;
  const BufferRef last = at(s.w.data, 2 * (s.w.stride[1] + s.w.stride[2]));
  convolve(queue, {s.y,
                   s.x,
                   last,
                   s.w.channel_stride,
                   s.w.outer_stride,
                   -s.w.stride[1],
                   -s.w.stride[2],
                   s.padding[1] - 2,
                   s.padding[2] - 2,
                   p.bias,
                   {}});
}

void run(Queue& queue, const ConvProblem& problem) {
  if (problem.pass == ConvPass::data) return data_gradient(queue, problem);
  const TensorView &y = problem.y, &e = problem.residual;
  if (!e.defined() || std::equal(y.strides.begin(), y.strides.begin() + y.dims, e.strides.begin()))
    forward(queue, problem);
  else add_residual_behind(queue, problem, forward);
}

// Whether it takes less time than the core "shifted", by rates of both.
bool gains(const Device& device, const ConvProblem& problem) {
  const ConvShape& s = problem.shape;
  static tuning::Numbers<4> numbers("conv.winograd_rows");
  const auto& [operations, bytes, bytes_of_weights, shifted] = numbers(device);
  const auto tiles = double(s.x.outer * divide_up(s.y.size[1], 4) * divide_up(s.y.size[2], 4));
  const auto c = double(s.x.channels), k = double(s.y.channels);
  const double weights = (keeps(problem) ? 36 : 45) * c * k / bytes_of_weights;  // kept ones come from memory
  const double transforms = 4 * (weights + 88 * tiles * (c + k) / bytes);
  return 18 * double(s.points()) * c * k / shifted > 2 * domain * tiles * c * k / operations + transforms;
}

const char* decline(const Device& device, const ConvProblem& problem, bool forced) {
  const ConvShape& s = problem.shape;
  if (problem.pass == ConvPass::weights) return "only for results and gradients of the data";
  if (!device.info().cpu || device.info().local_memory < least_local_memory) return "for CPUs with much local memory";
  if (s.type != DataType::float32) return "only for float32";
  const bool flat = s.x.size[0] == 1 && s.w.size[0] == 1 && s.y.size[0] == 1 && s.padding[0] == 0;
  if (!flat || s.w.size[1] != 3 || s.w.size[2] != 3) return "only for kernels of 3 x 3";
  if (s.groups != 1 || s.stride[1] * s.stride[2] * s.dilation[1] * s.dilation[2] != 1)
    return "only without groups, strides and dilation";
  if (s.x.stride[2] != 1 || s.y.stride[2] != 1) return "only for images whose rows are contiguous";
  if (problem.x.numel() == 0 || problem.y.numel() == 0) return "nothing to read";
  if (std::max(s.x.size[2], s.y.size[2]) > 4 * most_tiles) return "rows of too many tiles";
  if (std::max(s.x.channels, s.y.channels) > std::min<std::int64_t>(most_channels(device.info()), 1024))
    return "more channels than local memory holds";
  return forced || gains(device, problem) ? nullptr : "no gain by estimate";
}

constexpr ConvCore core{.name = "winograd_rows", .order = 190, .decline = decline, .run = run, .copies = true};

}  // namespace

void winograd_rows(ConvCores& cores) { cores.add(core); }

}  // namespace dlprim::conv_cores
