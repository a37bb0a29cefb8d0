// SPDX-License-Identifier: MIT
// Gradients of convolutions to few channels, as of a decoder's last layer, at stride 1: y's gradient, convolved with the
// weights rotated by 180 degrees, is that of x; and with x in y's place it gives the weights' gradient, rotated. Then the
// few channels are those that are gathered, which the core "row_windows" lays side by side.
#include <dlprim/primitives/copy.hpp>

#include <vector>

#include "../../../tuning/store.hpp"
#include "../problem.hpp"

namespace dlprim::conv_cores {

namespace {

constexpr std::int64_t most_channels = 7;
constexpr double rows_of_units = 32;  // that a product of fewer rows computes

// Weights [rows, columns, taps] rotated, of those whose rows and columns lie so far apart.
Workspace rotated(Queue& queue, const ConvShape& s, std::int64_t rows, std::int64_t columns, std::int64_t row_stride,
                  std::int64_t column_stride) {
  WeightOrder order{.rows = rows,
                    .columns = columns,
                    .row_stride = row_stride,
                    .column_stride = column_stride,
                    .group_stride = 0,
                    .taps = {s.w.size[0], s.w.size[1], s.w.size[2]},
                    .first = {s.w.size[0] - 1, s.w.size[1] - 1, s.w.size[2] - 1},
                    .step = {-1, -1, -1},
                    .tap_outer = false};
  return ordered_weights(queue, s, order);
}

// A row-major view of weights with input and output channels exchanged.
TensorView exchanged(const TensorView& weights, const BufferRef& data) {
  std::vector<std::int64_t> sizes(weights.shape().begin(), weights.shape().end());
  std::swap(sizes[0], sizes[1]);
  return TensorView(data, weights.dtype, sizes);
}

// The same sums with x and y exchanged.
ConvProblem mirror(Queue& queue, const ConvProblem& problem, const TensorView& weights) {
  const bool data = problem.pass == ConvPass::data;
  ConvOptions options = problem.options;
  const ConvShape& s = problem.shape;
  for (int i = 0; i < s.rank; i++) {
    const int at = 3 - s.rank + i;
    options.padding[std::size_t(i)] = (s.w.size[at] - 1) * s.dilation[at] - s.padding[at];
  }
  ConvProblem result(queue, data ? ConvPass::forward : ConvPass::weights, problem.y, weights, problem.x, options);
  result.bias = problem.bias;
  return result;
}

void run(Queue& queue, const ConvProblem& problem) {
  const ConvShape& s = problem.shape;
  if (problem.pass == ConvPass::data) {
    const Workspace memory = rotated(queue, s, s.w.channels, s.w.outer, s.w.channel_stride, s.w.outer_stride);
    return run_conv(queue, mirror(queue, problem, exchanged(problem.weights, memory.data())));
  }
  const Workspace memory(queue, std::size_t(problem.weights.numel()) * size_of(s.type));
  const ConvProblem inner = mirror(queue, problem, exchanged(problem.weights, memory.data()));
  run_conv(queue, inner);
  const Volume& w = inner.shape.w;
  const Workspace back = rotated(queue, inner.shape, w.channels, w.outer, w.channel_stride, w.outer_stride);
  copy(queue, problem.weights, TensorView(back.data(), s.type, problem.weights.shape()));
}

bool pays(const Device& device, const ConvProblem& problem) {
  if (device.info().nv_compute_capability < 80) return false;
  const ConvShape& s = problem.shape;
  static tuning::Numbers<2> results("conv.row_windows"), gradients("conv.row_windows.weights");
  const auto& [an_element, start] = (problem.pass == ConvPass::weights ? gradients : results)(device);
  const double terms = 2 * double(s.x.channels * s.taps()) * double(s.points());
  const double elements = double(s.points() * s.y.channels * s.w.size[2]);
  return terms * std::max(rows_of_units, double(s.y.channels)) > an_element * elements + start;
}

const char* decline(const Device& device, const ConvProblem& problem, bool forced) {
  const ConvShape& s = problem.shape;
  if (problem.pass == ConvPass::forward) return "only for gradients";
  if (s.groups != 1 || s.taps() == 1) return "groups, or one tap";
  if (s.y.channels >= s.x.channels) return "no fewer channels than x";
  for (int i = 0; i < 3; i++) {
    const std::int64_t reach = (s.w.size[i] - 1) * s.dilation[i];
    if (s.stride[i] != 1) return "a stride";
    if (s.padding[i] > reach || s.x.size[i] + 2 * s.padding[i] - reach != s.y.size[i])
      return "more padding than windows reach, or on one side";
  }
  if (problem.x.numel() == 0 || problem.y.numel() == 0) return "an empty operand";
  if (forced) return nullptr;
  const bool tf32 = s.type == DataType::float32 && s.allow_tf32;
  if (!tf32 && (size_of(s.type) != 2 || !is_floating(s.type))) return "only for 16-bit floats and tf32";
  if (s.y.channels > most_channels || s.y.channels * s.w.size[2] > longest_window || s.dilation[2] > 1)
    return "many channels";
  return pays(device, problem) ? nullptr : "too little work to pay for copies";
}

constexpr ConvCore core{.name = "mirrored", .order = 410, .decline = decline, .run = run, .copies = true};

}  // namespace

void mirrored(ConvCores& cores) { cores.add(core); }

}  // namespace dlprim::conv_cores
