// SPDX-License-Identifier: MIT
// Convolutions on CPUs of images in rows and few channels, such as a network's first layer, whose results have their
// channels side by side.
#include <dlprim/runtime/launch.hpp>

#include <algorithm>

#include "../../../tuning/store.hpp"
#include "../../gemm/pack.hpp"
#include "../problem.hpp"

namespace dlprim::conv_cores {

namespace {

constexpr std::int64_t most_elements = 192;   // of a window
constexpr std::int64_t most_step = 16;        // a kernel for each
constexpr std::int64_t most_windows = 128;    // at once
constexpr std::int64_t places = most_elements * most_windows;  // elements of local memory

/// Mirrors Shape of conv/windows_last.cl.
struct Shape {
  std::int64_t x_image, x_channel, x_row, y_image, y_row, y_column, bias;
  std::int64_t channels, height, width, taps_h, taps_w, step_h, tap_h, tap_w, padding_h, padding_w;
  std::int64_t n, rows, columns, lines, strip, windows, pitch;
};

struct Block {
  std::int64_t rows, columns;
};

// As products by matrices that stay the same.
Block block_of(const Device& device) {
  static tuning::Numbers<2> numbers("gemm.constant");
  const auto& [rows, columns] = numbers(device);
  return {std::int64_t(rows), std::int64_t(columns)};
}

struct Key {
  Activation activation;
  std::uint8_t step;
};

Kernel& kernel_of(Device& device, const Key& key) {
  static KernelCache<Key> cache;
  return cache.get(device, key, [&] {
    const Block block = block_of(device);
    KernelSource source("conv/windows_last.cl", "conv_windows_last");
    source.define("T", "float").define("VEC", "float16").define("MR", block.rows).define("NR", block.columns);
    source.define("STEP", key.step).define("PLACES", places);
    return source.define("ACTIVATE(x0)", activation_code(key.activation));
  });
}

// What is computed at once of a row: windows, a multiple of `block` and none where local memory is too small for that,
// and how many elements of a row of the image they read.
struct Part {
  std::int64_t windows, pitch;
};

Part part_of(const ConvShape& s, std::int64_t block) {
  const std::int64_t step = s.stride[2], behind = (s.w.size[2] - 1) * s.dilation[2] + 1;
  const auto pitch = [&](std::int64_t windows) { return (windows - 1) * step + behind; };
  const std::int64_t fit = (places / (s.w.channels * s.w.size[1]) - behind) / step + 1;
  const std::int64_t most = std::min(fit, most_windows) / block * block;
  if (most <= 0) return {0, 0};
  const std::int64_t even = divide_up(s.y.size[2], divide_up(s.y.size[2], most));
  const std::int64_t windows = divide_up(even, block) * block;
  return {windows, pitch(windows)};
}

// The weights in panels, in the place where what is made of them is kept, or in `own`.
BufferRef panels_of(Queue& queue, const ConvProblem& problem, std::int64_t width, std::optional<Workspace>& own) {
  const ConvShape& s = problem.shape;
  const std::int64_t k = s.w.channels * s.taps();
  const PackedOperand w{.data = s.w.data,
                        .lines = k,
                        .count = s.w.outer,
                        .line = 1,
                        .step = s.w.outer_stride,
                        .batch = 0,
                        .width = width,
                        .panel = k * width,
                        .pitch = width};
  return packed_once(queue, s.type, w, problem.kept ? *problem.kept : own);
}

void forward(Queue& queue, const ConvProblem& problem) {
  const ConvShape& s = problem.shape;
  Shape shape{};
  shape.x_image = s.x.outer_stride, shape.x_channel = s.x.channel_stride, shape.x_row = s.x.stride[1];
  shape.channels = s.x.channels, shape.height = s.x.size[1], shape.width = s.x.size[2];
  shape.y_image = s.y.outer_stride, shape.y_row = s.y.stride[1], shape.y_column = s.y.stride[2];
  shape.bias = problem.bias.defined() ? problem.bias.stride(0) : 0;
  shape.taps_h = s.w.size[1], shape.taps_w = s.w.size[2], shape.step_h = s.stride[1];
  shape.tap_h = s.dilation[1], shape.tap_w = s.dilation[2];
  shape.padding_h = s.padding[1], shape.padding_w = s.padding[2];
  shape.n = s.y.channels, shape.rows = s.y.size[1], shape.columns = s.y.size[2], shape.lines = s.y.outer * shape.rows;
  shape.strip = std::max<std::int64_t>(1, shape.lines / (8 * std::int64_t(queue.device().info().compute_units)));
  const Part part = part_of(s, block_of(queue.device()).rows);
  shape.windows = part.windows, shape.pitch = part.pitch;
  std::optional<Workspace> own;
  const BufferRef panels = panels_of(queue, problem, block_of(queue.device()).columns, own);
  launch(queue, kernel_of(queue.device(), {problem.activation, std::uint8_t(s.stride[2])}),
         NDRange(std::size_t(divide_up(shape.lines, shape.strip)), 1), s.x.data, panels, s.y.data,
         problem.bias.defined() ? problem.bias.data : s.y.data, cl_int(problem.bias.defined()), shape);
}

void run(Queue& queue, const ConvProblem& problem) { add_residual_behind(queue, problem, forward); }

const char* decline(const Device& device, const ConvProblem& problem, bool forced) {
  const ConvShape& s = problem.shape;
  if (problem.pass != ConvPass::forward) return "only for results";
  if (!device.info().cpu && !forced) return "for CPUs";
  if (s.type != DataType::float32 || s.groups != 1) return "only for float32 without groups";
  const bool flat = s.x.size[0] == 1 && s.w.size[0] == 1 && s.y.size[0] == 1 && s.padding[0] == 0;
  if (!flat || s.x.stride[2] != 1) return "only for images whose rows are contiguous";
  if (s.y.channel_stride != 1 || s.y.stride[2] == 1 || s.y.channels < 16) return "only for results whose channels are";
  if (!dense(s.w, false) || s.w.channels * s.taps() > most_elements)
    return "only for few elements of a window, densely";
  if (part_of(s, block_of(device).rows).windows == 0 || s.stride[2] > most_step) return "windows too far apart";
  if (std::max(s.x.size[1], s.x.size[2]) * s.x.size[2] > INT32_MAX / 2)
    return "images of more positions than an int counts";
  return device.info().local_memory >= std::size_t(places) * sizeof(float) + 4096 ? nullptr : "needs local memory";
}

constexpr ConvCore core{.name = "windows_last", .order = 240, .decline = decline, .run = run, .copies = true};

}  // namespace

void windows_last(ConvCores& cores) { cores.add(core); }

}  // namespace dlprim::conv_cores
