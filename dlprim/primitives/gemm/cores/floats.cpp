// SPDX-License-Identifier: MIT
// The engine's core for products of bytes on CPUs: as float32, whose sums are exact as long as they stay below 2^24, and
// which vectors multiply faster than bytes one by one.
#include <dlprim/primitives/copy.hpp>

#include <optional>

#include "../core.hpp"

namespace dlprim::gemm_cores {

namespace {

constexpr std::int64_t exact = std::int64_t(1) << 24;

// The longest sum of products that is exact.
std::int64_t longest_sum(DataType type) { return exact / (type == DataType::int8 ? 128 * 128 : 255 * 255); }

const char* decline(const Device& device, const GemmProblem& problem, bool forced) {
  const auto& p = problem.p;
  if (problem.type != DataType::int8 && problem.type != DataType::uint8) return "only for bytes";
  if (problem.mode != GemmMode::plain) return "only for plain products";
  if (!problem.wide_result || problem.alpha != 1. || problem.beta != 0. || problem.residual.memory ||
      problem.activation != Activation::none)
    return "only for sums of 32 bits as they are";
  if (p.k == 0) return "k is 0";
  if (forced) return nullptr;
  if (!device.info().cpu) return "for CPUs";
  return std::min({p.m, p.n, p.k}) < 8 ? "too thin a product to pay" : nullptr;
}

TensorView view(BufferRef data, DataType type, std::initializer_list<std::int64_t> sizes,
                std::initializer_list<std::int64_t> strides) {
  return {data, type, std::span(sizes.begin(), sizes.size()), std::span(strides.begin(), strides.size())};
}

void run(Queue& queue, const GemmProblem& problem) {
  const auto& p = problem.p;
  const std::int64_t batches = problem.batches, a_batches = p.a_batch ? batches : 1,
                     b_batches = p.b_batch ? batches : 1;
  const Workspace a_memory(queue, std::size_t(a_batches * p.m * p.k) * 4);
  const Workspace b_memory(queue, std::size_t(b_batches * p.k * p.n) * 4);
  const Workspace sums_memory(queue, std::size_t(batches * p.m * p.n) * 4);
  const TensorView floats_a(a_memory.data(), DataType::float32, {a_batches, p.m, p.k});
  const TensorView floats_b(b_memory.data(), DataType::float32, {b_batches, p.k, p.n});
  copy(queue, floats_a, view(problem.a, problem.type, {a_batches, p.m, p.k}, {p.a_batch, p.a_m, p.a_k}));
  copy(queue, floats_b, view(problem.b, problem.type, {b_batches, p.k, p.n}, {p.b_batch, p.b_k, p.b_n}));
  const TensorView a =
      view(a_memory.data(), DataType::float32, {batches, p.m, p.k}, {a_batches > 1 ? p.m * p.k : 0, p.k, 1});
  const TensorView b =
      view(b_memory.data(), DataType::float32, {batches, p.k, p.n}, {b_batches > 1 ? p.k * p.n : 0, p.n, 1});
  const TensorView sums(sums_memory.data(), DataType::float32, {batches, p.m, p.n});
  const TensorView c = view(problem.c, DataType::int32, {batches, p.m, p.n}, {p.c_batch, p.c_m, p.c_n});
  const std::int64_t longest = longest_sum(problem.type);
  std::optional<Workspace> more;
  for (std::int64_t begin = 0; begin < p.k; begin += longest) {
    const std::int64_t length = std::min(longest, p.k - begin);
    gemm(queue, a.narrowed(2, begin, length), b.narrowed(1, begin, length), sums);
    if (begin == 0) {
      copy(queue, c, sums);
      continue;
    }
    if (!more) more.emplace(queue, std::size_t(sums.numel()) * 4);
    const TensorView addend(more->data(), DataType::int32, sums.shape());
    copy(queue, addend, sums);
    const TensorView both[] = {c, addend};
    const Scalar one(1);
    pointwise(queue, PointwiseId::add, {&c, 1}, both, {&one, 1});
  }
}

constexpr GemmCore core{
    .name = "floats", .order = 650, .kernel = "reference", .decline = decline, .run = run, .copies = true};

}  // namespace

void floats(GemmCores& cores) { cores.add(core); }

}  // namespace dlprim::gemm_cores
