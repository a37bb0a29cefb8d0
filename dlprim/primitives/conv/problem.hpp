// SPDX-License-Identifier: MIT
// One pass of a convolution, and what computes it: the cores in cores/.
#pragma once
#include "../select.hpp"
#include "../gemm/engine.hpp"
#include "shape.hpp"

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
  std::optional<Workspace>* kept = nullptr;  // as conv_forward says; with() leaves it out

  /// Checks types, ranks and sizes (ValidationError).
  ConvProblem(const Queue& queue, ConvPass pass, const TensorView& x, const TensorView& weights, const TensorView& y,
              const ConvOptions& options);
  /// The same with other operands and groups.
  ConvProblem with(const Queue& queue, const TensorView& x, const TensorView& weights, const TensorView& y,
                   std::int64_t groups) const;
};

using ConvCore = Core<ConvProblem>;
using ConvCores = Cores<ConvCore>;

/// Runs a problem whose result is not empty by the first core that takes it.
void run_conv(Queue& queue, const ConvProblem& problem);
/// Bytes that copies of a call's images may take; more images go in turns. On CPUs they shall stay in the cache.
std::size_t workspace_limit(const DeviceInfo& device);
/// Whether Hopper's matrix units serve a pass in tf32 best, with its channels side by side (the core "gather" of gemm),
/// be it after a copy.
bool tf32_pays(const Device& device, const ConvProblem& problem);
/// Whether the engine's fastest products of 16-bit floats read them side by side: matrix units do, and dot products of CPUs.
bool reads_words_together(const Device& device, DataType type);
/// For kernels that add no residual: `run` without it and the activation, which a pass behind adds.
void add_residual_behind(Queue& queue, const ConvProblem& problem, void (*run)(Queue&, const ConvProblem&));

namespace conv_cores {
/// What a pass reads of x and y.
inline bool reads_x(ConvPass pass) { return pass != ConvPass::data; }
inline bool reads_y(ConvPass pass) { return pass != ConvPass::forward; }
/// Channels that a matrix unit's loads take at once, 16 bytes. Weights' gradients in tf32 are products of 16-bit parts
/// (core "bf16x3").
inline std::int64_t chunk_of(const ConvProblem& problem) {
  return problem.pass == ConvPass::weights ? 8 : 16 / std::int64_t(size_of(problem.shape.type));
}
/// Elements of a row of a window, the most that the core "row_windows" lays side by side.
constexpr std::int64_t longest_window = 64;
/// A forward pass as a product with gathered windows, but for the weights, whose rows it does not set.
GemmProblem windows_product(const ConvProblem& problem, bool channel_inner);
/// The weights' gradient as one product, whose sums run over the points. Throws ValidationError where its taps lie apart.
GemmProblem weights_product(const ConvShape& shape);
}  // namespace conv_cores

}  // namespace dlprim
