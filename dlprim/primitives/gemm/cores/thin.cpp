// SPDX-License-Identifier: MIT
// The engine's core for CPUs and products of few rows or columns.
#include "../../dot_products.hpp"
#include "../core.hpp"

namespace dlprim::gemm_cores {

namespace {

extern const GemmCore core;

constexpr std::int64_t most_rows = 8, most_rows_along_n = 4;

bool along_k(const GemmIndices<std::int64_t>& p) { return p.b_k == 1 && (p.a_k == 1 || p.k == 1); }

// Whether operands that lie along k do so in pairs, for which the CPU has dot products.
bool in_pairs(const Device& device, const GemmProblem& problem) {
  const auto& p = problem.p;
  const std::int64_t steps[] = {p.k, p.a_m, p.b_n, p.a_batch, p.b_batch};
  return problem.type == DataType::bfloat16 && along_k(p) &&
         std::ranges::all_of(steps, [](std::int64_t step) { return step % 2 == 0; }) &&
         problem.a.offset % sizeof(float) == 0 && problem.b.offset % sizeof(float) == 0 && bfloat16_dot(device);
}

const char* decline(const Device& device, const GemmProblem& given, bool forced) {
  if (given.mode != GemmMode::plain) return "only for matrices";
  if (!is_floating(given.type)) return "only for floating types";
  if (!device.info().cpu && !forced) return "for CPUs";
  const GemmProblem problem = wide(given);
  const auto& p = problem.p;
  if (p.m > (along_k(p) ? most_rows : most_rows_along_n)) return "too many rows and columns";
  if (p.k == 0) return "k is 0";
  if (p.b_n != 1 && !along_k(p)) return "an operand is contiguous in neither direction";
  const std::int64_t units = device.info().compute_units;
  if (p.n * problem.batches < 2 * units && p.k > 4096 && !forced) return "too little to share between the cores";
  return nullptr;
}

void run(Queue& queue, const GemmProblem& given) {
  GemmProblem problem = wide(given);
  auto& p = problem.p;
  GemmKey key = gemm_key(&core, problem);
  key.shape[0] = std::uint16_t(p.m), key.b_along_k = along_k(p);
  key.shape[1] = in_pairs(queue.device(), problem);
  const std::int64_t unit = !key.b_along_k ? 64
                            : p.m > 6      ? 3
                                           : 4,  // what the kernel takes at a time
      units = queue.device().info().compute_units;
  const std::int64_t groups = std::max<std::int64_t>(1, 4 * units / problem.batches);
  p.tile_m = p.m, p.tile_n = divide_up(p.n, groups * unit) * unit;
  p.tiles_m = 1, p.tiles_n = divide_up(p.n, p.tile_n), p.splits = 1;
  launch_tiles(queue, key, problem, 1);
}

void define(KernelSource& source, const Device& device, const GemmKey& key) {
  if (key.shape[1]) source.define("BFLOAT16_DOT", bfloat16_dot(device));
  source.define("MR", key.shape[0]).define("B_ALONG_K", key.b_along_k);
}

constexpr GemmCore core{
    .name = "thin", .order = 100, .kernel = "thin", .decline = decline, .run = run, .define = define};

}  // namespace

void thin(GemmCores& cores) { cores.add(core); }

}  // namespace dlprim::gemm_cores
