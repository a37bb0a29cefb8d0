// SPDX-License-Identifier: MIT
// Convolutions of channels that matrix units cannot read in whole chunks of 16 bytes, such as 377: copies with more
// channels, which are zero.
#include <dlprim/primitives/pointwise.hpp>

#include "../../../tuning/store.hpp"
#include "../../grid.hpp"
#include "../enlarged.hpp"
#include "../problem.hpp"

namespace dlprim::conv_cores {

namespace {

std::int64_t whole(const ConvProblem& p, std::int64_t channels) {
  return divide_up(channels, chunk_of(p)) * chunk_of(p);
}

// `tensor` in whole chunks of channels, side by side; itself where it has no others.
TensorView enlarged(Queue& queue, const ConvProblem& problem, const TensorView& tensor, Workspace& memory) {
  TensorView all = tensor;
  all.sizes[1] = whole(problem, tensor.size(1));
  if (all.size(1) == tensor.size(1)) return tensor;
  memory = Workspace(queue, std::size_t(all.numel()) * size_of(tensor.dtype));
  all.data = memory.data();
  lay_channels_last(all);
  TensorView inside = all, rest = all;
  inside.sizes[1] = tensor.size(1), rest.sizes[1] = all.size(1) - tensor.size(1);
  rest.data.offset += std::size_t(tensor.size(1)) * size_of(tensor.dtype);
  copy(queue, inside, tensor);
  fill(queue, rest, Scalar(0));
  return all;
}

EnlargedWeights enlarged_weights(Queue& queue, const ConvProblem& problem) {
  TensorView sizes = problem.weights;
  if (reads_y(problem.pass)) sizes.sizes[0] = whole(problem, sizes.size(0));
  if (reads_x(problem.pass)) sizes.sizes[1] = whole(problem, sizes.size(1));
  EnlargedWeights result(queue, problem.weights, sizes, true);
  for (int d = 0; d < 2; d++) result.inside.sizes[d] = problem.weights.size(d);
  return result;
}

// Whether the units that read whole chunks, and the copies for them, take less time.
bool pays(const Device& device, const ConvProblem& problem) {
  if (device.info().nv_compute_capability < 80) return false;
  const ConvShape& s = problem.shape;
  static tuning::Numbers<2> words("conv.channels_last"), tf32("conv.channels_last.tf32"), parts("conv.bf16x3");
  auto& costs = size_of(s.type) == 2 ? words : problem.pass == ConvPass::weights ? parts : tf32;
  const auto& [an_element, start] = costs(device);
  double elements = 0;
  if (reads_x(problem.pass)) elements += double(problem.x.numel());
  if (reads_y(problem.pass)) elements += double(problem.y.numel());
  const double operations = 2.0 * double(s.y.channels * s.w.channels * s.taps()) * double(s.points());
  if (operations <= an_element * elements + start) return false;
  // tf32 is for Hopper's units alone.
  const Volume &read = reads_x(problem.pass) ? s.x : s.y, &result = reads_x(problem.pass) ? s.y : s.x;
  return size_of(s.type) == 2 ||
         gather_pays(device, result.channels, whole(problem, read.channels) * s.taps(), operations);
}

const char* decline(const Device& device, const ConvProblem& problem, bool forced) {
  const ConvShape& s = problem.shape;
  const bool tf32 = s.type == DataType::float32 && s.allow_tf32;
  if (!tf32 && (size_of(s.type) != 2 || !is_floating(s.type))) return "only for 16-bit floats and tf32";
  if (s.groups != 1 || problem.x.numel() == 0 || problem.y.numel() == 0) return "groups, or an empty operand";
  const bool x = reads_x(problem.pass) && whole(problem, s.x.channels) != s.x.channels;
  const bool y = reads_y(problem.pass) && whole(problem, s.y.channels) != s.y.channels;
  if (!x && !y) return "channels are whole chunks";
  if (forced) return nullptr;
  if ((x && s.x.channels < chunk_of(problem)) || (y && s.y.channels < chunk_of(problem))) return "few channels";
  return pays(device, problem) ? nullptr : "too little work to pay for copies";
}

void run(Queue& queue, const ConvProblem& problem) {
  Workspace x_memory, y_memory;
  const TensorView x = reads_x(problem.pass) ? enlarged(queue, problem, problem.x, x_memory) : problem.x;
  const TensorView y = reads_y(problem.pass) ? enlarged(queue, problem, problem.y, y_memory) : problem.y;
  const EnlargedWeights weights = enlarged_weights(queue, problem);
  if (problem.pass != ConvPass::weights) weights.fill(queue);
  run_conv(queue, problem.with(queue, x, weights.view, y, 1));
  if (problem.pass == ConvPass::weights) weights.take_back(queue);
}

constexpr ConvCore core{.name = "whole_chunks", .order = 440, .decline = decline, .run = run, .copies = true};

}  // namespace

void whole_chunks(ConvCores& cores) { cores.add(core); }

}  // namespace dlprim::conv_cores
