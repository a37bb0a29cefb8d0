// SPDX-License-Identifier: MIT
// One pass of a convolution, and what can compute it: the candidates that conv.cpp lists.
#pragma once
#include "shape.hpp"
#include "../select.hpp"

namespace dlprim {

enum class ConvPass : std::uint8_t { forward, data, weights };

/// Computes y, the gradient of x, or that of the weights from the other two; the gradients stand in their places.
struct ConvProblem {
  ConvPass pass;
  TensorView x, weights, y;
  ConvOptions options;
  ConvShape shape;
  TensorView bias, residual;
  Activation activation = Activation::none;

  /// Checks types, ranks and sizes (ValidationError).
  ConvProblem(const Queue& queue, ConvPass pass, const TensorView& x, const TensorView& weights, const TensorView& y,
              const ConvOptions& options);
  /// The same with other operands and groups.
  ConvProblem with(const Queue& queue, const TensorView& x, const TensorView& weights, const TensorView& y,
                   std::int64_t groups) const;
};

/// Runs a problem whose result is not empty by the first candidate that takes it.
void run_conv(Queue& queue, const ConvProblem& problem);
/// For kernels that add no residual: `run` without it and the activation, which a pass behind adds.
void add_residual_behind(Queue& queue, const ConvProblem& problem, void (*run)(Queue&, const ConvProblem&));

/// The candidates.
const char* decline_depthwise(const Device& device, const ConvProblem& problem, bool forced);
void run_depthwise(Queue& queue, const ConvProblem& problem);
const char* decline_winograd(const Device& device, const ConvProblem& problem, bool forced);
void run_winograd(Queue& queue, const ConvProblem& problem);
const char* decline_patches(const Device& device, const ConvProblem& problem, bool forced);
void run_patches(Queue& queue, const ConvProblem& problem);
const char* decline_groups(const Device& device, const ConvProblem& problem, bool forced);
void run_groups(Queue& queue, const ConvProblem& problem);
const char* decline_channels_last(const Device& device, const ConvProblem& problem, bool forced);
void run_channels_last(Queue& queue, const ConvProblem& problem);
const char* decline_implicit(const Device& device, const ConvProblem& problem, bool forced);
void run_implicit(Queue& queue, const ConvProblem& problem);

}  // namespace dlprim
