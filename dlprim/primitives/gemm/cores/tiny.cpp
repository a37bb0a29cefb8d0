// SPDX-License-Identifier: MIT
// The engine's core for CPUs and many products of few columns and short sums.
#include "../core.hpp"

namespace dlprim::gemm_cores {

namespace {

extern const GemmCore core;

constexpr std::int64_t most_columns = 4, longest = 8, fewest_rows = 2048;
constexpr std::int64_t most_rows = 16;  // of each matrix of a batch: longer ones have vectors of their own

// With the short side along n.
GemmProblem tall(GemmProblem problem) {
  if (problem.p.m < problem.p.n) transpose(problem);
  return problem;
}

const char* decline(const Device& device, const GemmProblem& given, bool forced) {
  if (given.mode != GemmMode::plain) return "only for matrices";
  if (!is_floating(given.type)) return "only for floating types";
  const GemmProblem problem = tall(given);
  const auto& p = problem.p;
  if (p.n > most_columns || p.k > longest) return "too many columns, or too long sums";
  if (p.m * problem.batches >= std::int64_t(1) << 30) return "rows need more than 32 bits";
  if (forced) return nullptr;
  if (!device.info().cpu) return "for CPUs";
  if (problem.batches > 1 && p.m > most_rows) return "long matrices";
  return p.m * problem.batches < fewest_rows ? "too few rows" : nullptr;
}

void run(Queue& queue, const GemmProblem& given) {
  GemmProblem problem = tall(given);
  auto& p = problem.p;
  GemmKey key = gemm_key(&core, problem);
  key.shape[0] = std::uint16_t(p.n);
  key.shape[1] = std::uint16_t(std::min<std::size_t>(64, queue.device().info().max_work_group));
  p.shares = p.m * problem.batches;
  const std::size_t group = key.shape[1], groups = (std::size_t(p.shares) + group - 1) / group;
  launch_gemm(queue, gemm_kernel(queue.device(), key), key, problem, NDRange(groups * group, group), problem.a,
              problem.c);
}

void define(KernelSource& source, const Device&, const GemmKey& key) {
  define_shape(source, key, {"COLUMNS", "GROUP"});
}

constexpr GemmCore core{
    .name = "tiny", .order = 90, .kernel = "tiny", .decline = decline, .run = run, .define = define};

}  // namespace

void tiny(GemmCores& cores) { cores.add(core); }

}  // namespace dlprim::gemm_cores
