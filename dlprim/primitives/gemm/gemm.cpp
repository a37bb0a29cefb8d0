// SPDX-License-Identifier: MIT
#include <dlprim/primitives/gemm.hpp>

#include <optional>
#include <string>

#include "engine.hpp"

namespace dlprim {

std::string text(const TensorView& t) {
  std::string result = std::string(name(t.dtype)) + " [";
  for (int i = 0; i < t.dims; i++) result += (i ? ", " : "") + std::to_string(t.sizes[i]);
  return result + "]";
}

namespace {

// The type that a result may have besides its operands'.
std::optional<DataType> wide_type(DataType type) {
  if (type == DataType::int8 || type == DataType::uint8) return DataType::int32;
  if (type == DataType::float16 || type == DataType::bfloat16) return DataType::float32;
  return {};
}

void validate(const TensorView& a, const TensorView& b, const TensorView& c, const GemmOptions& options) {
  DLPRIM_EXPECT(a.dims == 2 || a.dims == 3, "gemm", "a matrix or a batch of matrices, got ", a);
  DLPRIM_EXPECT(b.dims == a.dims && b.dtype == a.dtype && b.size(-2) == a.size(-1), "gemm", "an operand matching ", a,
                ", got ", b);
  DLPRIM_EXPECT(a.dims == 2 || b.size(0) == a.size(0), "gemm", "as many matrices as ", a, ", got ", b);
  DLPRIM_EXPECT(c.dtype == a.dtype || c.dtype == wide_type(a.dtype), "gemm",
                "a result of a's type or that of its sums, got ", c);
  DLPRIM_EXPECT(c.dims == a.dims && c.size(-2) == a.size(-2) && c.size(-1) == b.size(-1) &&
                    c.size(0) == (a.dims == 3 ? a.size(0) : a.size(-2)),
                "gemm", "a result matching ", a, " x ", b, ", got ", c);
  const TensorView& d = options.addend;
  if (options.beta == 0.0) return;
  DLPRIM_EXPECT(
      d.dims == c.dims && d.dtype == c.dtype && std::equal(d.shape().begin(), d.shape().end(), c.shape().begin()),
      "gemm", "an addend like ", c, ", got ", d);
}

}  // namespace

void gemm(Queue& queue, const TensorView& a, const TensorView& b, const TensorView& c, const GemmOptions& options) {
  validate(a, b, c, options);
  if (c.numel() == 0) return;
  if (c.dtype == DataType::float64 && !queue.device().info().fp64)
    throw NotImplementedError("[gemm] " + queue.device().info().name + " has no float64");
  GemmProblem problem;
  problem.type = a.dtype, problem.wide_result = c.dtype != a.dtype;
  problem.a = a.data, problem.b = b.data, problem.c = c.data;
  problem.alpha = options.alpha, problem.beta = options.beta, problem.activation = options.activation;
  problem.allow_tf32 = options.allow_tf32;
  const bool batched = c.dims == 3;
  problem.batches = batched ? c.size(0) : 1;
  auto& p = problem.p;
  p.m = c.size(-2), p.n = c.size(-1), p.k = a.size(-1);
  auto batch = [&](const TensorView& t) { return batched ? t.stride(0) : 0; };
  p.a_batch = batch(a), p.a_m = a.stride(-2), p.a_k = a.stride(-1);
  p.b_batch = batch(b), p.b_k = b.stride(-2), p.b_n = b.stride(-1);
  p.c_batch = batch(c), p.c_m = c.stride(-2), p.c_n = c.stride(-1);
  if (options.beta != 0.0) {
    const TensorView& d = options.addend;
    problem.addend = d.data;
    p.d_batch = batch(d), p.d_m = d.stride(-2), p.d_n = d.stride(-1);
  }
  if (p.k == 0) problem.a = problem.b = c.data;  // empty tensors have no memory
  run_gemm(queue, problem);
}

}  // namespace dlprim
