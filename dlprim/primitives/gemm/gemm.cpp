// SPDX-License-Identifier: MIT
#include <dlprim/primitives/gemm.hpp>

#include <optional>
#include <string>

#include <dlprim/runtime/memory.hpp>

#include "engine.hpp"
#include "several.hpp"

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

GemmProblem problem_of(const TensorView& a, const TensorView& b, const TensorView& c, const GemmOptions& options) {
  GemmProblem problem;
  problem.type = a.dtype, problem.wide_result = c.dtype != a.dtype;
  problem.a = a.data, problem.b = b.data, problem.c = c.data;
  problem.alpha = options.alpha, problem.beta = options.beta, problem.activation = options.activation;
  problem.allow_tf32 = options.allow_tf32, problem.kept_b = options.kept;
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
  return problem;
}

// Whether products lie so that a launch may take several: results row after row, operands as the first.
bool alike(std::span<const TensorView> b, std::span<const TensorView> c) {
  for (std::size_t i = 0; i < b.size(); i++) {
    const TensorView &operand = b[i], &result = c[i];
    if (operand.dims != 2 || result.numel() == 0 || result.dtype != c[0].dtype) return false;
    if (result.dtype == DataType::float64) return false;  // what gemm has to say of it comes first
    if (operand.stride(0) != b[0].stride(0) || operand.stride(1) != b[0].stride(1)) return false;
    if (result.stride(1) != 1 || result.stride(0) != result.size(1)) return false;
  }
  return true;
}

}  // namespace

void gemm(Queue& queue, const TensorView& a, const TensorView& b, const TensorView& c, const GemmOptions& options) {
  validate(a, b, c, options);
  if (c.numel() == 0) return;
  if (c.dtype == DataType::float64 && !queue.device().info().fp64)
    throw NotImplementedError("[gemm] " + queue.device().info().name + " has no float64");
  run_gemm(queue, problem_of(a, b, c, options));
}

void gemm(Queue& queue, const TensorView& a, std::span<const TensorView> b, std::span<const TensorView> c,
          bool allow_tf32) {
  DLPRIM_EXPECT(b.size() == c.size(), "gemm", "as many results as operands, ", b.size(), ", got ", c.size());
  const GemmOptions options{.allow_tf32 = allow_tf32};
  for (std::size_t i = 0; i < b.size(); i++) validate(a, b[i], c[i], options);
  if (b.size() > 1 && alike(b, c)) {
    std::vector<GemmPart> more;
    for (std::size_t i = 1; i < b.size(); i++) more.push_back({b[i].data, c[i].data, c[i].size(1)});
    if (run_several(queue, problem_of(a, b[0], c[0], options), more)) return;
  }
  for (std::size_t i = 0; i < b.size(); i++) gemm(queue, a, b[i], c[i], options);
}

void gated_gemm(Queue& queue, const TensorView& a, const TensorView& gate, const TensorView& up, const TensorView& c,
                Activation activation, bool allow_tf32) {
  GemmOptions options{.allow_tf32 = allow_tf32};
  validate(a, gate, c, options), validate(a, up, c, options);
  DLPRIM_EXPECT(is_floating(a.dtype) && a.dims == 2 && c.dtype == a.dtype, "gated_gemm",
                "matrices of one floating type, got ", a, " and ", c);
  const TensorView operands[] = {gate, up}, results[] = {c, c};
  if (alike(operands, results) && run_gated(queue, problem_of(a, gate, c, options), up.data, activation)) return;
  if (c.numel() == 0) return;
  const Workspace memory(queue, std::size_t(c.numel()) * size_of(c.dtype));
  const TensorView other = TensorView(memory.data(), c.dtype, c.shape());
  gemm(queue, a, up, other, options);
  options.activation = activation;
  gemm(queue, a, gate, c, options);
  pointwise(queue, PointwiseId::mul, {c}, {c, other});
}

}  // namespace dlprim
