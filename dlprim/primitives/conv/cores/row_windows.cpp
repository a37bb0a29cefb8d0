// SPDX-License-Identifier: MIT
// Convolutions of few channels, as of a network's first layer: windows along the last dimension are laid side by side,
// which matrix units read in whole chunks, and the convolution has a kernel of 1 there.
#include <dlprim/runtime/launch.hpp>

#include "../../../tuning/store.hpp"
#include "../../grid.hpp"
#include "../enlarged.hpp"
#include "../problem.hpp"

namespace dlprim::conv_cores {

namespace {

constexpr std::int64_t windows_of_group = 128, most_items = 128;
constexpr std::int64_t most_local = 16384;  // bytes

// Elements of a window along the last dimension, whole chunks.
std::int64_t window_length(const ConvProblem& problem) {
  const std::int64_t chunk = chunk_of(problem);
  return divide_up(problem.shape.w.size[2] * problem.shape.w.channels, chunk) * chunk;
}

// The struct of conv/row_windows.cl.
struct Rows {
  cl_long x_stride[5], depth, height, width, windows, padding, segments;
};

struct Key {
  std::uint16_t bytes, channels, taps, length, stride, items;
};

std::int64_t items_of(const Device& device) { return device.info().cpu ? 1 : most_items; }

Kernel& kernel_for(Device& device, const Key& key) {
  static KernelCache<Key> cache;
  return cache.get(device, key, [&] {
    KernelSource source("conv/row_windows.cl", "row_windows");
    source.define("T", key.bytes == 2 ? "ushort" : "uint").define("VECTOR", key.bytes == 2 ? "ushort8" : "uint4");
    source.define("CHUNK", 16 / key.bytes).define("CHANNELS", key.channels).define("TAPS", key.taps);
    source.define("LENGTH", key.length).define("STRIDE", key.stride);
    return source.define("WINDOWS", windows_of_group).define("ITEMS", key.items);
  });
}

// x's windows as a tensor whose channels are a window's elements, side by side.
TensorView lay_windows(Queue& queue, const ConvProblem& problem, Workspace& memory) {
  const ConvShape& s = problem.shape;
  TensorView view = problem.x;
  view.sizes[1] = window_length(problem), view.sizes[view.dims - 1] = s.y.size[2];
  memory = Workspace(queue, std::size_t(view.numel()) * size_of(s.type));
  view.data = memory.data();
  lay_channels_last(view);
  Rows rows{{s.x.outer_stride, s.x.channel_stride, s.x.stride[0], s.x.stride[1], s.x.stride[2]},
            s.x.size[0],
            s.x.size[1],
            s.x.size[2],
            s.y.size[2],
            s.padding[2],
            divide_up(s.y.size[2], windows_of_group)};
  const auto items = std::size_t(items_of(queue.device()));
  const Key key{std::uint16_t(size_of(s.type)), std::uint16_t(s.w.channels), std::uint16_t(s.w.size[2]),
                std::uint16_t(view.sizes[1]),   std::uint16_t(s.stride[2]),  std::uint16_t(items)};
  const auto groups = std::size_t(s.x.outer * s.x.size[0] * s.x.size[1] * rows.segments);
  launch(queue, kernel_for(queue.device(), key), NDRange(groups * items, items), problem.x.data, memory.data(), rows);
  return view;
}

// Weights with a window's elements in the place of channels, laid out like their windows; zeros beyond the last tap.
EnlargedWeights window_weights(Queue& queue, const ConvProblem& problem) {
  const ConvShape& s = problem.shape;
  TensorView sizes = problem.weights;
  const int last = sizes.dims - 1;
  sizes.sizes[1] = window_length(problem), sizes.sizes[last] = 1;
  EnlargedWeights result(queue, problem.weights, sizes, true);
  TensorView& inside = result.inside;
  inside.sizes[1] = s.w.channels, inside.sizes[last] = s.w.size[2], inside.strides[last] = s.w.channels;
  return result;
}

const char* decline(const Device& device, const ConvProblem& problem, bool forced) {
  const ConvShape& s = problem.shape;
  const bool tf32 = s.type == DataType::float32 && s.allow_tf32;
  if (!tf32 && (size_of(s.type) != 2 || !is_floating(s.type))) return "only for 16-bit floats and tf32";
  if (problem.pass == ConvPass::data) return "not for the gradient of x";
  if (s.groups != 1 || s.w.channels % chunk_of(problem) == 0) return "groups, or channels in whole chunks";
  if (s.w.size[2] == 1 || window_length(problem) > longest_window) return "one tap in a row, or a long window";
  if (problem.x.numel() == 0 || s.points() == 0 || s.y.channels == 0) return "an empty operand";
  const std::int64_t pixels = (windows_of_group - 1) * s.stride[2] + s.w.size[2];
  if (s.dilation[2] != 1 || s.stride[2] > most_local || pixels * s.w.channels * 4 + 16 > most_local)
    return "windows lie far apart";
  if (device.info().max_work_group < std::size_t(items_of(device)) || device.info().local_memory < most_local)
    return "the device's work-groups are too small";
  if (forced) return nullptr;
  if (!reads_words_together(device, s.type)) return "the device has no matrix units that it can use";
  static tuning::Numbers<2> results("conv.row_windows"), gradients("conv.row_windows.weights");
  const auto& [an_element, start] = (problem.pass == ConvPass::weights ? gradients : results)(device);
  const double elements = double(s.x.outer * s.x.size[0] * s.x.size[1]) * double(s.y.size[2] * window_length(problem));
  const double operations = 2.0 * double(s.y.channels * s.w.channels * s.taps()) * double(s.points());
  return operations > an_element * elements + start ? nullptr : "too little work to pay for copies";
}

void run(Queue& queue, const ConvProblem& problem) {
  Workspace memory;
  const TensorView windows = lay_windows(queue, problem, memory);
  const EnlargedWeights weights = window_weights(queue, problem);
  if (problem.pass == ConvPass::forward) weights.fill(queue);
  ConvProblem inner = problem;
  const int last = problem.shape.rank - 1;
  inner.options.stride[last] = inner.options.dilation[last] = 1, inner.options.padding[last] = 0;
  run_conv(queue, inner.with(queue, windows, weights.view, problem.y, 1));
  if (problem.pass == ConvPass::weights) weights.take_back(queue);
}

constexpr ConvCore core{.name = "row_windows", .order = 420, .decline = decline, .run = run, .copies = true};

}  // namespace

void row_windows(ConvCores& cores) { cores.add(core); }

}  // namespace dlprim::conv_cores
