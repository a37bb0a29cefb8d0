// SPDX-License-Identifier: MIT
// Products in tf32 of which operands lie across k (tma_registers). Elements are small integers, so that results are
// exact.
#include <dlprim/primitives/gemm.hpp>

#include <cmath>

#include "floats.hpp"
#include "gemm/core.hpp"
#include "setting.hpp"

namespace dlprim {
namespace {

using testing::DeviceVector;
using testing::queue;
using testing::Variable;

struct Case {
  std::int64_t batches, m, n, k;
  bool a_across = false, b_across = true;
  std::int64_t gap = 0;  // between rows, in elements
  double alpha = 1, beta = 0;
  Activation activation = Activation::none;
  bool row_addend = false, one_b = false;
  std::int64_t c_gap = 0;
};

std::vector<float> integers(std::int64_t size, std::uint32_t seed) {
  std::vector<float> values(std::size_t(size), 0.0f);
  for (float& v : values) seed = seed * 1664525 + 1013904223, v = float(int(seed >> 28) - 8);
  return values;
}

// A matrix of a batch, contiguous along columns or rows.
struct Layout {
  std::int64_t row, column, batch;
  Layout(std::int64_t rows, std::int64_t columns, bool by_columns, std::int64_t gap)
      : row(by_columns ? 1 : columns + gap), column(by_columns ? rows + gap : 1),
        batch(by_columns ? columns * column : rows * row) {}
  std::size_t at(std::int64_t b, std::int64_t i, std::int64_t j) const {
    return std::size_t(b * batch + i * row + j * column);
  }
  TensorView view(const DeviceVector<float>& x, std::int64_t b, std::int64_t rows, std::int64_t columns) const {
    return {x.data(), DataType::float32, std::vector<std::int64_t>{b, rows, columns},
            std::vector<std::int64_t>{batch, row, column}};
  }
};

double activate(Activation activation, double x) {
  if (activation == Activation::relu) return x < 0 ? 0 : x;
  return activation == Activation::gelu ? 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))) : x;
}

void check(const Case& t) {
  SCOPED_TRACE(::testing::Message() << t.batches << " x " << t.m << " x " << t.n << " x " << t.k << " across "
                                    << t.a_across << t.b_across << " gap " << t.gap << " " << t.c_gap);
  const Layout la(t.m, t.k, t.a_across, t.gap), lc(t.m, t.n, false, t.c_gap);
  Layout lb(t.k, t.n, !t.b_across, t.gap), ld(t.m, t.n, false, 0);
  const auto x = integers(t.batches * la.batch, 1), y = integers(t.batches * lb.batch, 2);
  const auto before = integers(t.batches * lc.batch, 3), d = integers(t.batches * ld.batch, 4);
  const DeviceVector<float> a(x), b(y), c(before), addend(d);
  if (t.one_b) lb.batch = 0;
  if (t.row_addend) ld.batch = ld.row = 0;
  GemmOptions options{t.alpha, t.beta, ld.view(addend, t.batches, t.m, t.n), t.activation};
  options.allow_tf32 = true;
  gemm(queue(), la.view(a, t.batches, t.m, t.k), lb.view(b, t.batches, t.k, t.n), lc.view(c, t.batches, t.m, t.n),
       options);
  const auto result = c.read();
  std::vector<bool> written(result.size());
  int wrong = 0;
  for (std::int64_t z = 0; z < t.batches; z++)
    for (std::int64_t i = 0; i < t.m; i++)
      for (std::int64_t j = 0; j < t.n; j++) {
        double sum = 0;
        for (std::int64_t l = 0; l < t.k; l++) sum += double(x[la.at(z, i, l)]) * double(y[lb.at(z, l, j)]);
        const double expected = activate(t.activation, t.alpha * sum + t.beta * d[ld.at(z, i, j)]);
        const std::size_t at = lc.at(z, i, j);
        written[at] = true;
        const double tolerance = t.activation == Activation::gelu ? 1e-5 * (1 + std::abs(expected)) : 0;
        if (!(std::abs(result[at] - expected) <= tolerance) && wrong++ < 5)
          ADD_FAILURE() << "batch " << z << " row " << i << " column " << j << ": " << result[at] << " instead of "
                        << expected;
      }
  EXPECT_EQ(wrong, 0) << "elements";
  for (std::size_t i = 0; i < result.size(); i++)
    if (!written[i]) ASSERT_EQ(result[i], before[i]) << "element " << i << " outside the result was overwritten";
}

enum class Across { a, b, both };

// Tiles of the device's tables; without its matrix units those that can be formed elsewhere.
std::vector<std::string> tiles(Across across) {
  if (!testing::has_hopper_units()) return {"128x128x64x128x64x2", "128x128x64x64x128x2"};
  std::vector<std::string> all;
  const char* tables[] = {"tma.registers", "tma.registers.transposed", "tma.turned"};
  const char* table = tables[int(across)];
  for (const TileShape& s : read_tiles(testing::device().info(), table, "tma").shapes) {
    const std::string text = text_of(s);
    all.push_back(text.substr(0, text.rfind('x')));  // the table's own, as many of them on a unit as it says
  }
  return all;
}

class GemmByRegisters : public ::testing::TestWithParam<Across> {};

// Either operand across k, or both: sizes that end within tiles, boxes, stages and pieces stored at once; batches, rows that lie
// apart, ways to finish, splits.
TEST_P(GemmByRegisters, AgreesWithHost) {
  const Variable forced("DLPRIM_GEMM", "tma_registers");
  const bool a = GetParam() != Across::b, b = GetParam() != Across::a;
  int number = 0;
  for (const std::string& text : tiles(GetParam())) {
    const Variable tile("DLPRIM_GEMM_TILE", text.c_str());
    const auto run = [&](Case t) {
      t.a_across = a, t.b_across = b;
      if (a && b) t.m = (t.m + 3) / 4 * 4, t.n = (t.n + 3) / 4 * 4;  // else one would be copied
      if (number++ % 3 == 0 || !testing::builds_slowly()) check(t);
    };
    SCOPED_TRACE(text);
    if (testing::has_hopper_units())
      run({1, 2000, 2056, 96}), run({9, 640, 776, 40});  // several tiles for a work-group
    run({1, 256, 256, 64});
    run({1, 136, 200, 72});
    run({1, 300, 268, 100});
    run({3, 72, 264, 136, false, true, 8, 0.5, -2, Activation::relu, true});
    run({2, 64, 72, 64, false, true, 0, 1, 1, Activation::gelu, false, true});
    run({1, 132, 36, 4, false, true, 4});
    run({2, 68, 132, 260, false, true, 0, 1, 1, Activation::none, false, false, 1});
    run({1, 76, 140, 36, false, true, 0, 1, 0, Activation::none, false, false, 2});
    run({1, b ? 61 : 64, b ? 64 : 61, 32});
    const Variable split("DLPRIM_GEMM_SPLIT", "2");
    run({2, 136, 132, 328, false, true, 0, 1, 1});
    run({1, b ? 63 : 136, b ? 136 : 63, 256, false, true, 0, 0.5});
  }
}

// Chosen by estimate: both operands across k; one that lies badly beside one across k.
TEST(GemmRegisters, OneIsCopied) {
  const Variable forced("DLPRIM_GEMM", "tma_registers");
  check({1, 136, 72, 72, true, true});
  check({1, 72, 136, 72, true, true});
  check({2, 72, 136, 75, false, true});  // rows of A are not whole pieces
  check({2, 136, 72, 75, true, false});
  check({1, 260, 264, 1000, true, true, 4, 1, 1, Activation::relu});
}

TEST(GemmRegisters, WideIndexes) {
  const Variable forced("DLPRIM_GEMM", "tma_registers");
  const std::int64_t limit = settings.index_limit;
  settings.index_limit = 100;
  check({2, 72, 136, 72, false, true});
  check({2, 72, 136, 72, true, false});
  settings.index_limit = limit;
}

TEST(GemmRegisters, TakesTf32AcrossK) {
  GemmProblem problem;
  problem.type = DataType::float32, problem.allow_tf32 = true;
  auto& p = problem.p;
  p.m = p.n = p.k = 256, p.a_m = 256, p.a_k = 1, p.b_k = 256, p.b_n = 1, p.c_m = 256, p.c_n = 1;
  const GemmCore& core = *all_gemm_cores().find("tma_registers");
  const auto serves = [&](const GemmProblem& t) { return core.decline(testing::device(), t, true) == nullptr; };
  const DeviceInfo& info = testing::device().info();
  if (info.max_work_group < 512 || info.local_memory < 49152) GTEST_SKIP() << "work-groups or local memory too small";
  EXPECT_TRUE(serves(problem));
  GemmProblem other = problem;
  other.allow_tf32 = false;
  EXPECT_FALSE(serves(other));
  other = problem, other.p.b_k = 1, other.p.b_n = 256;  // both along k
  EXPECT_FALSE(serves(other));
  other = problem, other.p.b_k = 257;  // to be copied anyway
  EXPECT_FALSE(serves(other));
  other = problem, other.p.a_m = 257;  // this one is, then
  EXPECT_TRUE(serves(other));
}

INSTANTIATE_TEST_SUITE_P(All, GemmByRegisters, ::testing::Values(Across::a, Across::b, Across::both),
                         [](const auto& t) { return std::string(std::array{"A", "B", "Both"}[std::size_t(t.param)]); });

}  // namespace
}  // namespace dlprim
