// SPDX-License-Identifier: MIT
// Winograd's F(4x4, 3x3) in three stages: patches into the domain of 36 numbers, one product for each of them, and
// back.
#include <dlprim/runtime/launch.hpp>

#include <algorithm>

#include "../../../tuning/store.hpp"
#include "../../gemm/engine.hpp"
#include "../problem.hpp"

namespace dlprim::conv_cores {

namespace {

constexpr std::int64_t tile = 4, domain = 36;

// About how many times as fast as implicit GEMM it is on a CPU, by rates that tell layers where it won from others.
double gain_on_cpu(const ConvShape& s, double tiles, double operations, double bytes) {
  const auto c = double(s.x.channels), k = double(s.y.channels);
  const double transforms = 4 * (45 * c * k + 88 * tiles * (c + k)) / bytes;
  return 18 * double(s.points()) * c * k / operations / (2 * domain * tiles * c * k / operations + transforms);
}

// Whole vectors of channels, as the engine's core points_weights reads them.
bool channels_lie_side_by_side(const ConvProblem& problem) {
  return problem.x.stride(1) == 1 && problem.y.stride(1) == 1 && problem.x.size(1) % 16 == 0 && problem.y.size(1) >= 8;
}

const char* decline_by_estimate(const Device& device, const ConvProblem& problem) {
  const ConvShape& s = problem.shape;
  const auto tiles = double(s.x.outer * ((s.y.size[1] + tile - 1) / tile) * ((s.y.size[2] + tile - 1) / tile));
  const bool by_rows = s.x.stride[2] == 1 && s.y.stride[2] == 1;
  if (device.info().cpu && problem.pass != ConvPass::weights && by_rows) return "winograd_rows serves";
  if (device.info().cpu) {
    static tuning::Numbers<5> numbers("conv.winograd.cpu");
    const auto& [operations, bytes, wanted, wanted_of_weights, side_by_side] = numbers(device);
    // The gradient of the weights is what implicit GEMM takes longest for, but where channels lie side by side.
    const double enough = problem.pass != ConvPass::weights    ? wanted
                          : channels_lie_side_by_side(problem) ? side_by_side
                                                               : wanted_of_weights;
    return gain_on_cpu(s, tiles, operations, bytes) <= enough ? "no gain by estimate" : nullptr;
  }
  if (tf32_pays(device, problem)) return "matrix units are faster in tf32";
  static tuning::Numbers<2> numbers("conv.winograd.gpu");
  const auto& [channels, fewest] = numbers(device);
  const bool small = double(std::min(s.x.channels, s.y.channels)) < channels || tiles < fewest;
  return small ? "too small to pay" : nullptr;
}

/// Mirrors Patches of conv/winograd.cl.
struct Patches {
  std::int64_t outer, channel, row, column, plane;
  std::int32_t height, width, origin_h, origin_w, tiles_h, tiles_w;
  std::uint32_t count, pitch;
};

enum class Matrix : std::uint8_t { from_data, from_weights, from_gradient, to_output, to_weights };
struct MatrixInfo {
  const char* name;
  int rows, columns;
};
constexpr MatrixInfo matrices[] = {
    {"FROM_DATA", 6, 6}, {"FROM_WEIGHTS", 6, 3}, {"FROM_GRADIENT", 6, 4}, {"TO_OUTPUT", 4, 6}, {"TO_WEIGHTS", 3, 6}};

struct Key {
  Matrix matrix;
  std::uint8_t addend, activation;
};

Kernel& kernel_of(Device& device, const Key& key) {
  static KernelCache<Key> cache;
  return cache.get(device, key, [&] {
    const MatrixInfo& info = matrices[int(key.matrix)];
    const bool back = key.matrix >= Matrix::to_output;
    KernelSource source("conv/winograd.cl", back ? "winograd_from" : "winograd_into");
    source.define("L", info.name).define("R", info.rows).define("S", info.columns);
    if (back) source.define("ADDEND", key.addend).define("ACTIVATE(x0)", activation_code(Activation(key.activation)));
    return source;
  });
}

NDRange range_of(const Patches& patches, std::int64_t channels) {
  return NDRange(patches.pitch, std::size_t(channels), 64, 1);
}

void into(Queue& queue, Matrix matrix, const BufferRef& from, const Workspace& to, const Patches& patches,
          std::int64_t channels) {
  launch(queue, kernel_of(queue.device(), {matrix, 0, 0}), range_of(patches, channels), from, to.data(), patches);
}

BufferRef at(const BufferRef& data, std::int64_t elements) {
  return {data.memory, data.offset + std::size_t(elements) * sizeof(float)};
}

std::uint32_t round_up(std::int64_t n) { return std::uint32_t((n + 3) / 4 * 4); }

// Patches of a volume [image, channel, h, w], one for each 4 x 4 elements of `tiled`.
Patches tiles(const Volume& v, const Volume& tiled, std::int64_t images, std::int64_t origin_h, std::int64_t origin_w) {
  const std::int64_t th = (tiled.size[1] + tile - 1) / tile, tw = (tiled.size[2] + tile - 1) / tile;
  const std::int64_t count = images * th * tw, pitch = round_up(count);
  return {v.outer_stride, v.channel_stride,     v.stride[1],         v.stride[2],   v.channels * pitch,
          int(v.size[1]), int(v.size[2]),       int(origin_h),       int(origin_w), int(th),
          int(tw),        std::uint32_t(count), std::uint32_t(pitch)};
}

// The weights as patches: `rows` of them lie `row_stride` apart and fill a line of the domain, for every channel.
Patches kernels(const Volume& w, std::int64_t rows, std::int64_t row_stride, std::int64_t channels,
                std::int64_t channel_stride) {
  const std::int64_t pitch = round_up(rows);
  return {row_stride, channel_stride,      w.stride[1],         w.stride[2], channels * pitch, 3, 3, 0, 0, 1,
          1,          std::uint32_t(rows), std::uint32_t(pitch)};
}

Workspace in_domain(Queue& queue, const Patches& patches) {
  return Workspace(queue, std::size_t(domain * patches.plane) * sizeof(float));
}

// A plane of [channels, pitch] of each of the 36 numbers as a batch of matrices; `across` swaps rows and columns.
TensorView matrix_of(const Workspace& data, const Patches& patches, std::int64_t rows, std::int64_t columns,
                     bool across) {
  TensorView view(data.data(), DataType::float32, {domain, rows, columns});
  view.strides[0] = patches.plane;
  view.strides[1] = across ? 1 : patches.pitch, view.strides[2] = across ? patches.pitch : 1;
  return view;
}

// Images in a batch, so that `bytes` for each stay within the limit.
std::int64_t images_at_once(const Queue& queue, std::int64_t images, std::int64_t channels, const Volume& tiled) {
  const std::int64_t count = (tiled.size[1] + tile - 1) / tile * ((tiled.size[2] + tile - 1) / tile);
  const auto bytes = std::size_t(domain * channels * count) * sizeof(float);
  return std::clamp<std::int64_t>(std::int64_t(workspace_limit(queue.device().info()) / bytes), 1, images);
}

// y = x * weights: `weights` are patches of y's channels for each channel of x.
void convolve(Queue& queue, const Volume& x, const Volume& y, const BufferRef& w, const Patches& weights,
              std::int64_t origin_h, std::int64_t origin_w, const TensorView& bias, Activation activation,
              bool allow_tf32) {
  GemmOptions options;
  options.allow_tf32 = allow_tf32;
  const Workspace u = in_domain(queue, weights);
  into(queue, Matrix::from_weights, w, u, weights, x.channels);
  const std::int64_t chunk = images_at_once(queue, x.outer, x.channels + y.channels, y);
  const Key back{Matrix::to_output, bias.defined(), std::uint8_t(activation)};
  for (std::int64_t first = 0; first < x.outer; first += chunk) {
    const std::int64_t images = std::min(chunk, x.outer - first);
    const Patches in = tiles(x, y, images, origin_h, origin_w), out = tiles(y, y, images, 0, 0);
    const Workspace v = in_domain(queue, in), m = in_domain(queue, out);
    into(queue, Matrix::from_data, at(x.data, first * x.outer_stride), v, in, x.channels);
    gemm(queue, matrix_of(u, weights, y.channels, x.channels, true), matrix_of(v, in, x.channels, in.pitch, false),
         matrix_of(m, out, y.channels, out.pitch, false), options);
    launch(queue, kernel_of(queue.device(), back), range_of(out, y.channels), m.data(),
           at(y.data, first * y.outer_stride), bias.defined() ? bias.data : y.data,
           cl_long(bias.defined() ? bias.stride(0) : 0), out);
  }
}

void forward(Queue& queue, const ConvProblem& problem) {
  const ConvShape& s = problem.shape;
  const Patches weights = kernels(s.w, s.y.channels, s.w.outer_stride, s.x.channels, s.w.channel_stride);
  convolve(queue, s.x, s.y, s.w.data, weights, -s.padding[1], -s.padding[2], problem.bias, problem.activation,
           s.allow_tf32);
}

// The gradient is a convolution of y's by the weights rotated by 180 degrees.
void data_gradient(Queue& queue, const ConvShape& s, const TensorView& bias) {
  Patches weights = kernels(s.w, s.x.channels, s.w.channel_stride, s.y.channels, s.w.outer_stride);
  const BufferRef last = at(s.w.data, 2 * (s.w.stride[1] + s.w.stride[2]));
  weights.row = -weights.row, weights.column = -weights.column;
  convolve(queue, s.y, s.x, last, weights, s.padding[1] - 2, s.padding[2] - 2, bias, Activation::none, s.allow_tf32);
}

// The transposed algorithm: in the domain, the product of y's gradient and x over all tiles.
void weights_gradient(Queue& queue, const ConvShape& s) {
  const Patches weights = kernels(s.w, s.x.channels, s.w.channel_stride, s.y.channels, s.w.outer_stride);
  const Workspace d = in_domain(queue, weights);
  const TensorView sums = matrix_of(d, weights, s.y.channels, s.x.channels, false);
  const std::int64_t chunk = images_at_once(queue, s.x.outer, s.x.channels + s.y.channels, s.y);
  GemmOptions options;
  options.addend = sums, options.allow_tf32 = s.allow_tf32;
  for (std::int64_t first = 0; first < s.x.outer; first += chunk, options.beta = 1) {
    const std::int64_t images = std::min(chunk, s.x.outer - first);
    const Patches in = tiles(s.x, s.y, images, -s.padding[1], -s.padding[2]), out = tiles(s.y, s.y, images, 0, 0);
    const Workspace v = in_domain(queue, in), g = in_domain(queue, out);
    into(queue, Matrix::from_data, at(s.x.data, first * s.x.outer_stride), v, in, s.x.channels);
    into(queue, Matrix::from_gradient, at(s.y.data, first * s.y.outer_stride), g, out, s.y.channels);
    gemm(queue, matrix_of(g, out, s.y.channels, out.pitch, false), matrix_of(v, in, in.pitch, s.x.channels, true), sums,
         options);
  }
  launch(queue, kernel_of(queue.device(), {Matrix::to_weights, 0, 0}), range_of(weights, s.y.channels), d.data(),
         s.w.data, s.w.data, cl_long(0), weights);
}

void run_pass(Queue& queue, const ConvProblem& problem) {
  switch (problem.pass) {
    case ConvPass::forward: return add_residual_behind(queue, problem, forward);
    case ConvPass::data: return data_gradient(queue, problem.shape, problem.bias);
    case ConvPass::weights: return weights_gradient(queue, problem.shape);
  }
}

const char* decline(const Device& device, const ConvProblem& problem, bool forced) {
  const ConvShape& s = problem.shape;
  if (s.type != DataType::float32) return "only for float32";
  const bool flat = s.x.size[0] == 1 && s.w.size[0] == 1 && s.y.size[0] == 1 && s.padding[0] == 0;
  if (!flat || s.w.size[1] != 3 || s.w.size[2] != 3) return "only for kernels of 3 x 3";
  if (s.groups != 1 || s.stride[1] * s.stride[2] * s.dilation[1] * s.dilation[2] != 1)
    return "only without groups, strides and dilation";
  if (problem.x.numel() == 0 || problem.y.numel() == 0) return "nothing to read";
  return forced ? nullptr : decline_by_estimate(device, problem);
}

constexpr ConvCore core{.name = "winograd", .order = 200, .decline = decline, .run = run_pass, .copies = true};

}  // namespace

void winograd(ConvCores& cores) { cores.add(core); }

}  // namespace dlprim::conv_cores
