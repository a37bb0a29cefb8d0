// SPDX-License-Identifier: MIT
// Products of 8-bit floats with scales: by matrix units that take them as they are, else in bfloat16.
#include <dlprim/primitives/scaled_gemm.hpp>

#include "../check.hpp"
#include "core.hpp"

namespace dlprim {

namespace {

using Sizes = std::vector<std::int64_t>;

// A matrix of its own memory.
struct Matrix {
  Workspace memory;
  TensorView view;
  Matrix(Queue& queue, DataType type, std::int64_t rows, std::int64_t columns)
      : memory(queue, std::size_t(rows * columns) * size_of(type)), view(memory.data(), type, Sizes{rows, columns}) {}
};

TensorView scale_of_rows(const ScaledGemmOptions& options, std::int64_t rows) {
  return {options.a_scale, DataType::float32, Sizes{rows, 1}, Sizes{options.lines ? 1 : 0, 1}};
}
TensorView scale_of_columns(const ScaledGemmOptions& options, std::int64_t columns) {
  return {options.b_scale, DataType::float32, Sizes{1, columns}, Sizes{0, options.lines ? 1 : 0}};
}
TensorView bias_as_row(const TensorView& bias) {
  return {bias.data, bias.dtype, Sizes{1, bias.size(0)}, Sizes{0, bias.stride(0)}};
}

// c = `sums`, multiplied by the scales where `with_scales` holds, and what else the options say.
void finish(Queue& queue, const TensorView& sums, const TensorView& c, const ScaledGemmOptions& options,
            bool with_scales) {
  std::vector<TensorView> inputs{sums};
  std::string value = "x0";
  const auto next = [&](const TensorView& input, const char* operation) {
    value = "(" + value + operation + "x" + std::to_string(inputs.size()) + ")";
    inputs.push_back(input);
  };
  if (with_scales) {
    next(scale_of_rows(options, c.size(0)), " * ");
    next(scale_of_columns(options, c.size(1)), " * ");
  }
  if (options.bias.data.memory) next(bias_as_row(options.bias), " + ");
  if (options.c_scale.memory) next({options.c_scale, DataType::float32, Sizes{1, 1}}, " * ");
  std::optional<Matrix> wide;
  if (options.c_kind) wide.emplace(queue, DataType::float32, c.size(0), c.size(1));
  const TensorView result = wide ? wide->view : c;
  pointwise_operation(queue, inputs, std::span(&result, 1), {}, "y0 = " + value + ";", DataType::float32);
  if (wide) convert(queue, c, options.c_kind, wide->view, {});
}

// e4m3fn_saturating differs in what is written alone.
SmallFloat as_read(SmallFloat kind) { return kind == SmallFloat::e4m3fn_saturating ? SmallFloat::e4m3fn : kind; }

GemmProblem problem_of(const TensorView& a, SmallFloat a_kind, const TensorView& b, SmallFloat b_kind,
                       const TensorView& c, const ScaledGemmOptions& options) {
  GemmProblem problem;
  problem.type = DataType::bfloat16;
  problem.scaled = {as_read(a_kind), as_read(b_kind), c.dtype,           options.a_scale,
                    options.b_scale, options.lines,   !options.fast_sums};
  problem.a = a.data, problem.b = b.data, problem.c = c.data;
  auto& p = problem.p;
  p.m = c.size(0), p.n = c.size(1), p.k = a.size(1);
  p.a_m = a.stride(0), p.a_k = a.stride(1), p.b_k = b.stride(0), p.b_n = b.stride(1);
  p.c_m = c.stride(0), p.c_n = c.stride(1);
  if (options.bias.data.memory) {
    problem.addend = options.bias.data, problem.beta = 1;
    p.d_n = options.bias.stride(0);
  }
  if (p.c_m == 1 && p.c_n != 1) transpose(problem);
  return problem;
}

// By matrix units for 8-bit floats; false, and nothing runs, where there are none.
bool multiply_bytes(Queue& queue, const GemmProblem& problem) {
  static const GemmCores cores("scaled_gemm", "DLPRIM_GEMM", [](GemmCores& all) { all.add(gemm_cores::tma_scaled); });
  return cores.try_run(queue, problem);
}

void check(const TensorView& a, const TensorView& b, const TensorView& c, const ScaledGemmOptions& options) {
  DLPRIM_EXPECT(a.dims == 2 && a.dtype == DataType::uint8, "scaled_gemm", "a matrix of bytes, got ", a);
  DLPRIM_EXPECT(b.dims == 2 && b.dtype == DataType::uint8 && b.size(0) == a.size(1), "scaled_gemm",
                "an operand matching ", a, ", got ", b);
  DLPRIM_EXPECT(c.dims == 2 && c.size(0) == a.size(0) && c.size(1) == b.size(1) &&
                    (options.c_kind ? c.dtype == DataType::uint8 : is_floating(c.dtype)),
                "scaled_gemm", "a result matching ", a, " x ", b, ", got ", c);
  const TensorView& bias = options.bias;
  DLPRIM_EXPECT(!bias.data.memory || (bias.dims == 1 && bias.size(0) == c.size(1) && is_floating(bias.dtype)),
                "scaled_gemm", "a bias of ", c.size(1), " floats, got ", bias);
}

}  // namespace

void scaled_gemm(Queue& queue, const TensorView& a, SmallFloat a_kind, const TensorView& b, SmallFloat b_kind,
                 const TensorView& c, const ScaledGemmOptions& options) {
  check(a, b, c, options);
  if (c.numel() == 0) return;
  const std::int64_t m = c.size(0), n = c.size(1), k = a.size(1);
  const bool narrow = c.dtype == DataType::float16 || c.dtype == DataType::bfloat16;
  const bool whole = (narrow || c.dtype == DataType::float32) && !options.c_scale.memory &&
                     (!options.bias.data.memory || options.bias.dtype == c.dtype);
  if (whole && multiply_bytes(queue, problem_of(a, a_kind, b, b_kind, c, options))) return;
  const Matrix sums(queue, DataType::float32, m, n);
  ScaledGemmOptions only_scales = options;
  only_scales.bias = {};
  if (!whole && multiply_bytes(queue, problem_of(a, a_kind, b, b_kind, sums.view, only_scales)))
    return finish(queue, sums.view, c, options, false);
  {
    const Matrix left(queue, DataType::bfloat16, m, k), right(queue, DataType::bfloat16, n, k);
    const TensorView transposed{right.view.data, DataType::bfloat16, Sizes{k, n}, Sizes{1, k}};
    convert(queue, left.view, {}, a, a_kind);
    convert(queue, transposed, {}, b, b_kind);
    gemm(queue, left.view, transposed, sums.view);
  }
  finish(queue, sums.view, c, options, true);
}

}  // namespace dlprim
