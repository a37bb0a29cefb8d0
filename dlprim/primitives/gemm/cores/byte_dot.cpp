// SPDX-License-Identifier: MIT
// The engine's core for products of int8 on CPUs with dot products of bytes, to sums of 32 bits: columns of the result
// are channels of a convolution with one tap, its rows are points.
#include <dlprim/primitives/quantized_conv.hpp>

#include "../core.hpp"

namespace dlprim::gemm_cores {

namespace {

const char* decline(const Device& device, const GemmProblem& problem, bool forced) {
  const auto& p = problem.p;
  if (problem.type != DataType::int8) return "only for int8";
  if (problem.mode != GemmMode::plain) return "only for plain products";
  if (!problem.wide_result || problem.alpha != 1. || problem.beta != 0. || problem.residual.memory ||
      problem.activation != Activation::none)
    return "only for sums of 32 bits as they are";
  if (p.c_n != 1 && p.n != 1) return "columns of the result do not lie side by side";
  if (p.k == 0) return "k is 0";
  if (!has_quantized_conv(device)) return "the CPU or its driver has no dot products of bytes";
  constexpr double large = 1 << 20;  // with which products of a batch, one after the other, take longer than launches
  if (problem.batches > 1 && double(p.m) * double(p.n) * double(p.k) < large && !forced)
    return "a batch of small products";
  return std::min({p.m, p.n, p.k}) < 8 && !forced ? "too thin a product to pay" : nullptr;
}

void run(Queue& queue, const GemmProblem& problem) {
  const auto& p = problem.p;
  const auto at = [](BufferRef data, std::int64_t bytes) { return data.offset += std::size_t(bytes), data; };
  for (std::int64_t i = 0; i < problem.batches; i++) {
    const TensorView x = strided(at(problem.a, i * p.a_batch), DataType::int8, {1, p.k, p.m}, {0, p.a_k, p.a_m});
    const TensorView w = strided(at(problem.b, i * p.b_batch), DataType::int8, {p.n, p.k, 1}, {p.b_n, p.b_k, 1});
    const TensorView y = strided(at(problem.c, 4 * i * p.c_batch), DataType::int32, {1, p.n, p.m}, {0, 1, p.c_m});
    quantized_conv(queue, x, w, y, {}, {}, problem.batches == 1 ? problem.kept_b : nullptr);
  }
}

constexpr GemmCore core{
    .name = "byte_dot", .order = 640, .kernel = "reference", .decline = decline, .run = run, .copies = true};

}  // namespace

void byte_dot(GemmCores& cores) { cores.add(core); }

}  // namespace dlprim::gemm_cores
