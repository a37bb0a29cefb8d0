// SPDX-License-Identifier: MIT
// The engine's core of last resort: one work-item an element, any type, any k.
#include "../core.hpp"

namespace dlprim::gemm_cores {

namespace {

extern const GemmCore core;

const char* decline(const Device&, const GemmProblem&, bool) { return nullptr; }

void run(Queue& queue, const GemmProblem& given) {
  GemmProblem problem = given;
  problem.p.splits = problem.batches;
  const GemmKey key = gemm_key(&core, problem);
  const std::size_t items = std::size_t(problem.batches * problem.p.m * problem.p.n);
  Kernel& kernel = gemm_kernel(queue.device(), key);
  launch_gemm(queue, kernel, key, problem, NDRange(items, kernel.work_group(64)), problem.a, problem.c);
}

constexpr GemmCore core{.name = "reference", .order = 1000, .kernel = "reference", .decline = decline, .run = run};

}  // namespace

void reference(GemmCores& cores) { cores.add(core); }

}  // namespace dlprim::gemm_cores
