// SPDX-License-Identifier: MIT
// The gradient of x where windows do not overlap, as in the patches of a vision transformer and in upsampling by
// transposed convolution: one product gives every window's elements, and a strided copy puts them in their places.
#include <dlprim/primitives/copy.hpp>
#include <dlprim/primitives/pointwise.hpp>

#include "../problem.hpp"
#include "../../gemm/engine.hpp"

namespace dlprim::conv_cores {

namespace {

// Whether some elements of x lie in no window.
bool has_gaps(const ConvShape& s) {
  for (int i = 0; i < 3; i++)
    if (s.w.size[i] != s.stride[i] || s.dilation[i] > 1 || s.x.size[i] != s.y.size[i] * s.stride[i]) return true;
  return false;
}

// The windows' elements [batch, element, window...]: elements in the weights' order, laid out like y.
TensorView like_y(const ConvProblem& problem, const Workspace& memory) {
  TensorView view = problem.y;
  view.sizes[1] = problem.shape.w.channels * problem.shape.taps();
  view = TensorView(memory.data(), view.dtype, view.shape());
  if (problem.y.stride(1) == 1) lay_channels_last(view);
  return view;
}

// The weights of one output channel as the column that its points are multiplied by.
TensorView columns(const ConvProblem& problem) {
  TensorView view = problem.weights;
  view.sizes[0] = problem.shape.w.channels * problem.shape.taps(), view.strides[0] = 1;
  view.sizes[1] = problem.weights.size(0), view.strides[1] = problem.weights.stride(0);
  for (int i = 2; i < view.dims; i++) view.sizes[i] = view.strides[i] = 1;
  return view;
}

// `tensor` as [batch, channel, tap..., window...].
TensorView by_window(const ConvProblem& problem, const TensorView& tensor, std::int64_t channel_stride,
                     const std::int64_t (&tap_stride)[3], const std::int64_t (&window_stride)[3]) {
  const ConvShape& s = problem.shape;
  TensorView view = tensor;
  view.dims = 8;
  view.sizes[1] = s.w.channels, view.strides[1] = channel_stride;
  for (int i = 0; i < 3; i++) {
    view.sizes[2 + i] = s.w.size[i], view.strides[2 + i] = tap_stride[i];
    view.sizes[5 + i] = s.y.size[i], view.strides[5 + i] = window_stride[i];
  }
  return view;
}

TensorView elements_by_window(const ConvProblem& problem, const TensorView& elements) {
  const ConvShape& s = problem.shape;
  const bool tap_outer = !dense(s.w, false);
  const std::int64_t element = elements.stride(1), taps = s.taps();
  std::int64_t tap_stride[3], window_stride[3]{}, next = tap_outer ? s.w.channels * element : element;
  for (int i = 2; i >= 0; i--) tap_stride[i] = next, next *= s.w.size[i];
  for (int i = 2; i < elements.dims; i++) window_stride[5 - elements.dims + i - 2] = elements.stride(i);
  return by_window(problem, elements, tap_outer ? element : taps * element, tap_stride, window_stride);
}

TensorView x_by_window(const ConvProblem& problem) {
  const ConvShape& s = problem.shape;
  std::int64_t tap_stride[3], window_stride[3];
  for (int i = 0; i < 3; i++)
    tap_stride[i] = s.x.stride[i] * s.dilation[i], window_stride[i] = s.x.stride[i] * s.stride[i];
  return by_window(problem, problem.x, s.x.channel_stride, tap_stride, window_stride);
}

// A number for each channel as a tensor like `like`.
TensorView over(const TensorView& numbers, const TensorView& like) {
  TensorView view = like;
  view.data = numbers.data, view.strides = {};
  view.strides[1] = numbers.stride(0);
  return view;
}

void run_product(Queue& queue, const ConvProblem& problem) {
  const ConvShape& s = problem.shape;
  const Workspace memory(queue, std::size_t(s.points() * s.w.channels * s.taps()) * size_of(s.type));
  const TensorView elements = like_y(problem, memory);
  run_conv(queue, ConvProblem(queue, ConvPass::forward, problem.y, columns(problem), elements, {}));
  const TensorView from = elements_by_window(problem, elements), to = x_by_window(problem);
  if (!problem.bias.defined()) {
    if (has_gaps(s)) fill(queue, problem.x, Scalar(0));
    return copy(queue, to, from);
  }
  if (has_gaps(s)) copy(queue, problem.x, over(problem.bias, problem.x));
  pointwise(queue, PointwiseId::add, {to}, {from, over(problem.bias, to)}, {Scalar(1)});
}

const char* decline(const Device&, const ConvProblem& problem, bool forced) {
  const ConvShape& s = problem.shape;
  if (problem.pass != ConvPass::data) return "only for the gradient of x";
  if (s.groups != 1 || s.taps() == 1) return "groups, or one tap";
  if (s.points() == 0 || s.y.channels == 0) return "an empty operand";
  for (int i = 0; i < 3; i++)
    if (s.padding[i] != 0 || (s.w.size[i] - 1) * s.dilation[i] >= s.stride[i]) return "windows overlap or are padded";
  if (!dense(s.w, false) && !dense(s.w, true)) return "the weights are not dense";
  return forced || s.taps() >= 4 ? nullptr : "few taps";
}

constexpr ConvCore core{.name = "patches", .order = 300, .decline = decline, .run = run_product, .copies = true};

}  // namespace

void patches(ConvCores& cores) { cores.add(core); }

}  // namespace dlprim::conv_cores
