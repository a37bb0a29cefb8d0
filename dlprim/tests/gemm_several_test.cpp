// SPDX-License-Identifier: MIT
// Products of one matrix of few rows with several others, as one launch and as many.
#include <dlprim/primitives/gemm.hpp>

#include <cmath>
#include <deque>

#include "floats.hpp"
#include "gemm/core.hpp"
#include "gemm/several.hpp"

namespace dlprim {
namespace {

using testing::Elements;
using testing::queue;
using testing::Variable;

// A matrix in device memory whose rows, or columns, lie `length` apart.
struct Matrix {
  std::int64_t rows, columns, row, column;
  Elements elements;
  Matrix(DataType type, std::int64_t rows, std::int64_t columns, bool by_columns, std::int64_t length, unsigned seed)
      : rows(rows), columns(columns), row(by_columns ? 1 : length), column(by_columns ? length : 1),
        elements(type, std::size_t((by_columns ? columns : rows) * length), seed) {}
  double at(std::int64_t i, std::int64_t j) const { return elements.host(std::size_t(i * row + j * column)); }
  TensorView view() const {
    return {elements.data(), elements.type(), std::vector<std::int64_t>{rows, columns},
            std::vector<std::int64_t>{row, column}};
  }
};

double product(const Matrix& a, const Matrix& b, std::int64_t i, std::int64_t j) {
  double sum = 0;
  for (std::int64_t l = 0; l < a.columns; l++) sum += a.at(i, l) * b.at(l, j);
  return sum;
}

double tolerance(DataType type, std::int64_t k) {
  return (testing::epsilon(type) + 1e-6) * std::sqrt(double(k)) + 1e-6;
}

struct Several {
  std::int64_t m, k;
  std::vector<std::int64_t> n;
  bool along_k = true;
  std::int64_t gap = 0;  // between what lies along k
};

void check(const Several& t, DataType type) {
  SCOPED_TRACE(::testing::Message() << name(type) << " " << t.m << " x " << t.k << ", " << t.n.size() << " products");
  const Matrix a(type, t.m, t.k, false, t.k, 1);
  std::deque<Matrix> b, c;
  std::vector<TensorView> operands, results;
  for (const std::int64_t n : t.n) {
    b.emplace_back(type, t.k, n, t.along_k, t.along_k ? t.k + t.gap : n, unsigned(2 + b.size()));
    c.emplace_back(type, t.m, n, false, n, unsigned(20 + c.size()));
    operands.push_back(b.back().view()), results.push_back(c.back().view());
  }
  gemm(queue(), a.view(), operands, results);
  for (std::size_t i = 0; i < c.size(); i++) {
    const auto values = c[i].elements.read();
    for (std::int64_t r = 0; r < t.m; r++)
      for (std::int64_t j = 0; j < t.n[i]; j++)
        ASSERT_NEAR(values[std::size_t(r * t.n[i] + j)], product(a, b[i], r, j), tolerance(type, t.k))
            << "product " << i << " row " << r << " column " << j;
  }
}

// Sizes that end within tiles and pieces; one to five products; what only single launches take.
TEST(GemmOfSeveral, AgreesWithHost) {
  for (const char* core : {"gemv", ""}) {
    const Variable forced("DLPRIM_GEMM", *core ? core : nullptr);
    for (const DataType type : {DataType::float32, DataType::bfloat16, DataType::float16}) {
      check({1, 64, {64, 16, 16}}, type);
      check({3, 129, {7, 40}}, type);
      if (testing::builds_slowly()) continue;
      check({8, 72, {33, 9, 8, 100, 21}, true, 8}, type);
      check({2, 40, {24, 24, 12, 5}, false}, type);
      check({1, 4096, {30}}, type);
    }
  }
}

TEST(GemmOfSeveral, IsOneLaunch) {
  const Variable forced("DLPRIM_GEMM", "gemv");
  const Matrix a(DataType::bfloat16, 1, 64, false, 64, 1), b(DataType::bfloat16, 64, 40, true, 64, 2),
      b1(DataType::bfloat16, 64, 24, true, 64, 3), c(DataType::bfloat16, 1, 40, false, 40, 4),
      c1(DataType::bfloat16, 1, 24, false, 24, 5);
  GemmProblem problem;
  problem.type = DataType::bfloat16, problem.a = a.elements.data(), problem.b = b.elements.data();
  problem.c = c.elements.data();
  auto& p = problem.p;
  p.m = 1, p.n = p.c_m = 40, p.k = p.a_m = p.b_n = 64, p.a_k = p.b_k = p.c_n = 1;
  const GemmPart part{b1.elements.data(), c1.elements.data(), 24};
  EXPECT_TRUE(run_several(queue(), problem, std::span(&part, 1)));
  EXPECT_TRUE(run_gated(queue(), problem, b.elements.data(), Activation::silu));
  p.b_k = 40, p.b_n = 1;
  EXPECT_FALSE(run_several(queue(), problem, std::span(&part, 1))) << "the first lies across k";
}

double activate(Activation activation, double x) {
  if (activation == Activation::silu) return x / (1 + std::exp(-x));
  return activation == Activation::relu ? std::max(x, 0.0) : 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
}

TEST(GatedGemm, AgreesWithHost) {
  struct Case {
    std::int64_t m, n, k;
    bool along_k;
    Activation activation;
  };
  int number = 0;
  for (const char* core : {"gemv", ""})
    for (const DataType type : {DataType::float32, DataType::bfloat16, DataType::float16})
      for (const Case& t : {Case{1, 64, 64, true, Activation::silu}, Case{3, 21, 129, true, Activation::gelu},
                            Case{8, 100, 40, true, Activation::relu}, Case{2, 24, 40, false, Activation::silu},
                            Case{20, 9, 16, true, Activation::silu}}) {
        if (!testing::takes(number++)) continue;
        const Variable forced("DLPRIM_GEMM", *core ? core : nullptr);
        const std::int64_t length = t.along_k ? t.k : t.n;
        const Matrix a(type, t.m, t.k, false, t.k, 1), gate(type, t.k, t.n, t.along_k, length, 2),
            up(type, t.k, t.n, t.along_k, length, 3), c(type, t.m, t.n, false, t.n, 4);
        gated_gemm(queue(), a.view(), gate.view(), up.view(), c.view(), t.activation);
        const auto values = c.elements.read();
        for (std::int64_t i = 0; i < t.m; i++)
          for (std::int64_t j = 0; j < t.n; j++) {
            const double factor = product(a, up, i, j), gated = activate(t.activation, product(a, gate, i, j));
            const double within = 3 * tolerance(type, t.k) * (1 + std::abs(gated) + std::abs(factor));
            ASSERT_NEAR(values[std::size_t(i * t.n + j)], gated * factor, within)
                << name(type) << " " << core << " " << t.n << " row " << i << " column " << j;
          }
      }
}

TEST(GatedGemm, RefusesWhatDoesNotFit) {
  const Matrix a(DataType::float32, 2, 8, false, 8, 1), gate(DataType::float32, 8, 4, true, 8, 2),
      up(DataType::float32, 8, 5, true, 8, 3), c(DataType::float32, 2, 4, false, 4, 4);
  EXPECT_THROW(gated_gemm(queue(), a.view(), gate.view(), up.view(), c.view(), Activation::silu), ValidationError);
  const TensorView operands[] = {gate.view(), up.view()}, results[] = {c.view()};
  EXPECT_THROW(gemm(queue(), a.view(), operands, results), ValidationError);
}

}  // namespace
}  // namespace dlprim
