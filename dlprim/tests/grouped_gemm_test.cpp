// SPDX-License-Identifier: MIT
// Products of groups by the core for Hopper's copy engine, emulated where there is none.
#include <dlprim/primitives/gemm.hpp>

#include <dlprim/runtime/settings.hpp>

#include <algorithm>
#include <cmath>

#include "floats.hpp"
#include "gemm/engine.hpp"

namespace dlprim {
namespace {

using testing::Elements;
using testing::queue;
using testing::Variable;
using Sizes = std::vector<std::int64_t>;

// Ends as given, and as they are meant.
struct Ends {
  std::vector<std::int32_t> given;
  std::int64_t size;
  Workspace memory;
  Ends(std::vector<std::int32_t> ends, std::int64_t size)
      : given(std::move(ends)), size(size), memory(queue(), 4 * given.size()) {
    queue().write(memory.data(), given.data(), 4 * given.size(), true);
  }
  std::int64_t count() const { return std::int64_t(given.size()); }
  std::int64_t end(std::int64_t g) const {
    return g < 0 ? 0 : std::clamp<std::int64_t>(given[std::size_t(g)], end(g - 1), size);
  }
  TensorView view() const { return {memory.data(), DataType::int32, Sizes{count()}}; }
};

double bound(DataType type, std::int64_t k) { return (testing::epsilon(type) + 1e-6) * std::sqrt(double(k)) + 1e-6; }

constexpr double untouched = 0.25;

void fill(const Elements& c, std::int64_t size) {
  const std::vector<std::uint16_t> bits(std::size_t(size), std::uint16_t(testing::encode(c.type(), untouched)));
  queue().write(c.data(), bits.data(), 2 * bits.size(), true);
}

void check_rows(DataType type, const Ends& ends, std::int64_t n, std::int64_t k, bool b_along_k) {
  const std::int64_t m = ends.size, groups = ends.count();
  const Elements a(type, std::size_t(m * k), 1), b(type, std::size_t(groups * k * n), 2),
      c(type, std::size_t(m * n), 3);
  fill(c, m * n);
  const Sizes strides = b_along_k ? Sizes{k * n, 1, k} : Sizes{k * n, n, 1};
  ASSERT_TRUE(grouped_gemm(queue(), {a.data(), type, Sizes{m, k}}, {b.data(), type, Sizes{groups, k, n}, strides},
                           ends.view(), {c.data(), type, Sizes{m, n}}));
  const std::vector<double> got = c.read();
  double error = 0;
  for (std::int64_t i = 0; i < m; i++) {
    std::int64_t g = 0;
    while (g < groups && i >= ends.end(g)) g++;
    for (std::int64_t j = 0; j < n; j++) {
      double sum = g == groups ? untouched : 0;
      for (std::int64_t l = 0; g < groups && l < k; l++)
        sum += a.host(std::size_t(i * k + l)) * b.host(std::size_t(g * k * n + l * strides[1] + j * strides[2]));
      error = std::max(error, std::abs(sum - got[std::size_t(i * n + j)]));
    }
  }
  EXPECT_LT(error, bound(type, k));
}

void check_k(DataType type, const Ends& ends, std::int64_t m, std::int64_t n) {
  const std::int64_t k = ends.size, groups = ends.count();
  const Elements a(type, std::size_t(m * k), 1), b(type, std::size_t(k * n), 2),
      c(type, std::size_t(groups * m * n), 3);
  ASSERT_TRUE(grouped_gemm(queue(), {a.data(), type, Sizes{m, k}, Sizes{1, m}}, {b.data(), type, Sizes{k, n}},
                           ends.view(), {c.data(), type, Sizes{groups, m, n}}));
  const std::vector<double> got = c.read();
  double error = 0;
  for (std::int64_t g = 0; g < groups; g++)
    for (std::int64_t i = 0; i < m; i++)
      for (std::int64_t j = 0; j < n; j++) {
        double sum = 0;
        for (std::int64_t l = ends.end(g - 1); l < ends.end(g); l++)
          sum += a.host(std::size_t(l * m + i)) * b.host(std::size_t(l * n + j));
        error = std::max(error, std::abs(sum - got[std::size_t((g * m + i) * n + j)]));
      }
  EXPECT_LT(error, bound(type, k));
}

class GroupedGemm : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const DeviceInfo& info = testing::device().info();
    if (info.max_work_group < 512 || info.local_memory < 49152)
      GTEST_SKIP() << "the device's work-groups are too small";
  }
};

TEST_P(GroupedGemm, AgreesWithHost) {
  const Variable forced("DLPRIM_GEMM", "tma_grouped"), tile("DLPRIM_GEMM_TILE", GetParam());
  const DataType type = DataType::bfloat16;
  const Ends uneven({3, 70, 70, 201}, 220), all({64, 128}, 128), bad({-5, 40, 30, 1000, 2}, 90), one({0, 0, 1, 1}, 1);
  check_rows(type, uneven, 72, 136, true);
  check_rows(DataType::float16, uneven, 136, 72, false);
  check_rows(type, all, 64, 64, true);
  check_rows(type, bad, 40, 64, true);
  check_rows(type, one, 200, 264, true);
  check_k(type, uneven, 72, 136);
  check_k(DataType::float16, bad, 64, 72);
  check_k(type, one, 136, 64);
}

TEST_P(GroupedGemm, WideIndexes) {
  const Variable forced("DLPRIM_GEMM", "tma_grouped"), tile("DLPRIM_GEMM_TILE", GetParam());
  const std::int64_t limit = settings.index_limit;
  settings.index_limit = 100;
  const Ends ends({3, 70, 90}, 90);
  check_rows(DataType::bfloat16, ends, 72, 72, true);
  check_k(DataType::bfloat16, ends, 72, 72);
  settings.index_limit = limit;
}

INSTANTIATE_TEST_SUITE_P(All, GroupedGemm, ::testing::Values("64x128x64x64x64x2", "128x128x64x128x64x2"),
                         [](const auto& tile) { return std::string(tile.param); });

// More tiles than units, which two groups of four warps take in turns on Hopper.
TEST(GroupedGemms, TilesInTurns) {
  if (testing::device().info().nv_compute_capability != 90) GTEST_SKIP() << "only for Hopper";
  const Variable forced("DLPRIM_GEMM", "tma_grouped"), tile("DLPRIM_GEMM_TILE", "128x128x64x128x128x6");
  std::vector<std::int32_t> each_third(300);
  for (std::size_t i = 0; i < each_third.size(); i++) each_third[i] = std::int32_t(3 * i);
  const Ends ends(each_third, 900);
  check_rows(DataType::bfloat16, ends, 72, 72, true);
  check_rows(DataType::float16, ends, 136, 456, false);
  check_k(DataType::bfloat16, ends, 72, 40);
}

// As many matrices of B as groups, in one product.
TEST(GroupedGemms, CountAllMatricesInOffsets) {
  GemmProblem problem;
  problem.groups = {{}, 100, false};
  auto& p = problem.p;
  p.m = p.n = p.k = 1024, p.b_batch = 1 << 20;
  EXPECT_TRUE(fits_32_bits(problem));
  p.b_batch = 1 << 25;
  EXPECT_FALSE(fits_32_bits(problem));
}

TEST(GroupedGemms, DeclineAndReject) {
  const Elements x(DataType::bfloat16, 64 * 64 * 2, 1);
  const Ends ends({30, 64}, 64);
  const auto view = [&](Sizes sizes) { return TensorView(x.data(), DataType::bfloat16, sizes); };
  const Variable forced("DLPRIM_GEMM", "tma_grouped");
  EXPECT_FALSE(grouped_gemm(queue(), view({64, 36}), view({2, 36, 64}), ends.view(), view({64, 64})));
  EXPECT_THROW(grouped_gemm(queue(), view({64, 64}), view({1, 64, 64}), ends.view(), view({64, 64})), ValidationError);
  EXPECT_THROW(grouped_gemm(queue(), view({64, 64}), view({2, 32, 64}), ends.view(), view({64, 64})), ValidationError);
  EXPECT_THROW(grouped_gemm(queue(), view({64, 64}), view({2, 64, 64}), view({2}), view({64, 64})), ValidationError);
}

}  // namespace
}  // namespace dlprim
