// SPDX-License-Identifier: MIT
// Products of groups whose lengths the device alone knows.
#include "../check.hpp"
#include "core.hpp"

namespace dlprim {

bool grouped_gemm(Queue& queue, const TensorView& a, const TensorView& b, const TensorView& ends, const TensorView& c) {
  const bool of_k = b.dims == 2;
  const std::int64_t count = ends.size(0);
  DLPRIM_EXPECT(ends.dims == 1 && ends.dtype == DataType::int32 && ends.is_contiguous(), "grouped_gemm",
                "contiguous ends of int32, got ", ends);
  DLPRIM_EXPECT(a.dims == 2 && (of_k || b.dims == 3) && a.dtype == b.dtype && a.dtype == c.dtype &&
                    b.size(-2) == a.size(1) && (of_k || b.size(0) == count),
                "grouped_gemm", "a matrix, and one or one for each group, that match, got ", a, " and ", b);
  DLPRIM_EXPECT(
      c.dims == (of_k ? 3 : 2) && c.size(-2) == a.size(0) && c.size(-1) == b.size(-1) && (!of_k || c.size(0) == count),
      "grouped_gemm", "a result matching ", a, " x ", b, ", got ", c);
  if (c.numel() == 0) return true;
  GemmProblem problem;
  problem.type = a.dtype;
  problem.groups = {ends.data, count, of_k};
  problem.a = a.data, problem.b = b.data, problem.c = c.data;
  problem.batches = of_k ? count : 1;
  auto& p = problem.p;
  p.m = a.size(0), p.n = b.size(-1), p.k = a.size(1);
  p.a_m = a.stride(0), p.a_k = a.stride(1), p.b_k = b.stride(-2), p.b_n = b.stride(-1);
  p.c_m = c.stride(-2), p.c_n = c.stride(-1);
  p.b_batch = of_k ? 0 : b.stride(0), p.c_batch = of_k ? c.stride(0) : 0;
  if (p.c_n != 1 && p.n > 1) return false;
  static const GemmCores cores("grouped_gemm", "DLPRIM_GEMM", [](GemmCores& all) { all.add(gemm_cores::tma_grouped); });
  return cores.try_run(queue, problem);
}

}  // namespace dlprim
