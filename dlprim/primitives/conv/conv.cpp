// SPDX-License-Identifier: MIT
#include <dlprim/primitives/conv.hpp>
#include <dlprim/primitives/pointwise_code.hpp>
#include <dlprim/primitives/reduce.hpp>
#include <dlprim/runtime/environment.hpp>

#include <vector>

#include "problem.hpp"
#include "../../tuning/store.hpp"
#include "../dot_products.hpp"
#include "../gemm/engine.hpp"

namespace dlprim {

namespace conv_cores {
void add_all(ConvCores& cores);  // generated from the files of cores/
}

namespace {

constexpr const char* operations[] = {"conv_forward", "conv_backward_data", "conv_backward_weights"};

void check_residual(const TensorView& residual, const TensorView& y) {
  if (!residual.defined()) return;
  if (residual.dtype != y.dtype || !std::ranges::equal(residual.shape(), y.shape()))
    throw ValidationError("[conv_forward] expected a residual like " + text(y) + ", got " + text(residual));
}

bool reads_nothing(const ConvProblem& p) {
  return (p.pass != ConvPass::data && p.x.numel() == 0) || (p.pass != ConvPass::weights && p.weights.numel() == 0) ||
         (p.pass != ConvPass::forward && p.y.numel() == 0);
}

// Where sums have no terms: bias, residual and activation are left.
void run_without_terms(Queue& queue, const ConvProblem& p) {
  const TensorView& result = p.pass == ConvPass::forward ? p.y : p.pass == ConvPass::data ? p.x : p.weights;
  std::vector<TensorView> inputs;
  std::string sum = "0";
  const auto add = [&](const TensorView& term) {
    sum += " + x" + std::to_string(inputs.size());
    inputs.push_back(term);
  };
  if (p.bias.defined()) {
    TensorView bias = result;
    bias.data = p.bias.data;
    for (int d = 0; d < bias.dims; d++) bias.strides[d] = d == 1 ? p.bias.stride(0) : 0;
    add(bias);
  }
  if (p.residual.defined()) add(p.residual);
  const auto row = activation_row(p.activation);
  pointwise_operation(queue, inputs, std::span(&result, 1), {},
                      row ? assign_row(*row, "y0", {sum}) : "y0 = " + sum + ";");
}

}  // namespace

ConvProblem::ConvProblem(const Queue& queue, ConvPass pass, const TensorView& x, const TensorView& weights,
                         const TensorView& y, const ConvOptions& options)
    : pass(pass), x(x), weights(weights), y(y), options(options),
      shape(conv_shape(operations[int(pass)], queue, x, weights, y, options)) {}

ConvProblem ConvProblem::with(const Queue& queue, const TensorView& new_x, const TensorView& new_weights,
                              const TensorView& new_y, std::int64_t groups) const {
  ConvOptions new_options = options;
  new_options.groups = groups;
  ConvProblem result(queue, pass, new_x, new_weights, new_y, new_options);
  result.bias = bias, result.residual = residual, result.activation = activation;
  return result;
}

void run_conv(Queue& queue, const ConvProblem& problem) {
  if (reads_nothing(problem)) return run_without_terms(queue, problem);
  static const ConvCores all("conv", "DLPRIM_CONV", conv_cores::add_all);
  all.run(queue, problem);
}

std::size_t workspace_limit(const DeviceInfo& device) {
  return std::size_t(environment::number("DLPRIM_CONV_WORKSPACE").value_or(device.cpu ? 16 : 256)) << 20;
}

bool reads_words_together(const Device& device, DataType type) {
  if (device.info().cpu) return type == DataType::bfloat16 && bfloat16_dot(device) != 0;
  return device.info().nv_compute_capability >= 80;
}

bool tf32_pays(const Device& device, const ConvProblem& problem) {
  const ConvShape& s = problem.shape;
  if (s.type != DataType::float32 || !s.allow_tf32 || problem.pass == ConvPass::weights || s.taps() > 64) return false;
  const bool forward = problem.pass == ConvPass::forward;
  const Volume &read = forward ? s.x : s.y, &result = forward ? s.y : s.x;
  std::int64_t sum = read.channels / s.groups, points = result.outer, products = 1;
  for (int i = 0; i < 3; i++) {
    const std::int64_t phases = forward ? 1 : s.stride[i];  // each a product of its own
    sum *= (s.w.size[i] + phases - 1) / phases, points *= (result.size[i] + phases - 1) / phases;
    products *= phases;
  }
  const std::int64_t rows = result.channels / s.groups;
  const double operations = 2 * double(result.channels) * double(points) * double(sum);
  if (read.channels / s.groups % 4 != 0 || !gather_pays(device, rows, sum, operations)) return false;
  static tuning::Numbers<2> costs("conv.channels_last.tf32");
  const auto& [an_element, start] = costs(device);
  const TensorView& tensor = forward ? problem.x : problem.y;
  return tensor.stride(1) == 1 || operations * double(products) > an_element * double(tensor.numel()) + start;
}

void add_residual_behind(Queue& queue, const ConvProblem& problem, void (*run)(Queue&, const ConvProblem&)) {
  if (!problem.residual.defined()) return run(queue, problem);
  ConvProblem sums = problem;
  sums.residual = {}, sums.activation = Activation::none;
  run(queue, sums);
  pointwise_operation(queue, std::vector{problem.y, problem.residual}, std::span(&problem.y, 1), {},
                      sum_code(problem.activation));
}

std::string sum_code(Activation activation) {
  const auto row = activation_row(activation);
  return row ? assign_row(*row, "y0", {"x0 + x1"}) : "y0 = x0 + x1;";
}

void conv_forward(Queue& queue, const TensorView& x, const TensorView& weights, const TensorView& bias,
                  const TensorView& y, const ConvOptions& options, Activation activation, const TensorView& residual,
                  std::optional<Workspace>* kept) {
  ConvProblem problem(queue, ConvPass::forward, x, weights, y, options);
  check_bias("conv_forward", bias, problem.shape.y.channels, x.dtype);
  check_residual(residual, y);
  problem.bias = bias, problem.residual = residual, problem.activation = activation, problem.kept = kept;
  if (y.numel() > 0) run_conv(queue, problem);
}

void conv_backward_data(Queue& queue, const TensorView& dy, const TensorView& weights, const TensorView& bias,
                        const TensorView& dx, const ConvOptions& options) {
  ConvProblem problem(queue, ConvPass::data, dx, weights, dy, options);
  check_bias("conv_backward_data", bias, problem.shape.x.channels, dx.dtype);
  problem.bias = bias;
  if (dx.numel() > 0) run_conv(queue, problem);
}

void conv_backward_weights(Queue& queue, const TensorView& x, const TensorView& dy, const TensorView& dweights,
                           const ConvOptions& options) {
  const ConvProblem problem(queue, ConvPass::weights, x, dweights, dy, options);
  if (dweights.numel() > 0) run_conv(queue, problem);
}

void conv_backward_bias(Queue& queue, const TensorView& dy, const TensorView& dbias) {
  if (dy.dims < 3)
    throw ValidationError("[conv_backward_bias] expected a gradient of 3 to 5 dimensions, got " +
                          std::to_string(dy.dims));
  check_bias("conv_backward_bias", dbias, dy.size(1), dy.dtype);
  TensorView sums = dy;
  for (int i = 0; i < dy.dims; i++)
    sums.sizes[i] = i == 1 ? dy.size(1) : 1, sums.strides[i] = i == 1 ? dbias.stride(0) : 0;
  sums.data = dbias.data;
  reduce(queue, ReduceId::sum, {std::span(&sums, 1), std::span(&dy, 1)});
}

}  // namespace dlprim
