// SPDX-License-Identifier: MIT
// Products of bfloat16 in pairs, and convolutions of images whose channels lie side by side, by the cores for CPUs.
#include "dot_products.hpp"
#include "conv/problem.hpp"
#include "conv_case.hpp"
#include "gemm/core.hpp"
#include "gemm_case.hpp"
#include "setting.hpp"

namespace dlprim {
namespace {

using testing::Variable;

bool has_dot() { return testing::device().info().cpu && bfloat16_dot(testing::device()) != 0; }

std::vector<DataType> types() {
  if (has_dot()) return {DataType::bfloat16, DataType::float32};
  return {DataType::float32};
}

TEST(BFloat16Dot, IsFoundByAnotherProcess) {
  if (!testing::device().info().cpu) GTEST_SKIP() << "for CPUs";
  KernelSource broken = KernelSource::from_text("__kernel void broken(void) { nothing_of_this_name(); }\n", "broken");
  EXPECT_FALSE(testing::device().programs().accepts(broken));
  EXPECT_EQ(bfloat16_dot(testing::device()), bfloat16_dot(testing::device()));
}

void check_products(const char* core) {
  using namespace testing::products;
  const Variable forced("DLPRIM_GEMM", core);
  for (const bool a : {false, true})
    for (const bool b : {false, true}) {
      check({1, 33, 70, 46, a, b}, DataType::bfloat16);
      check({3, 70, 33, 20, a, b, !b, 0, 0, 0.5, -2, Activation::relu, true}, DataType::bfloat16);
      check({2, 19, 50, 34, a, b, a, 8, 6, 1, 1, Activation::gelu}, DataType::bfloat16);
      check({2, 40, 18, 34, a, b, false, 3, 1}, DataType::bfloat16);  // rows that begin anywhere
      check({1, 300, 130, 2100, a, b}, DataType::bfloat16, DataType::float32);
      check({2, 17, 17, 21, a, b}, DataType::bfloat16);
    }
  check({2, 24, 40, 64, false, true, false, 0, 0, 1, 0, Activation::none, false, true}, DataType::bfloat16);
  check({1, 200, 100, 4}, DataType::bfloat16);
  check({1, 150, 72, 66, false, true, false, 0, 0, 2, 0.5, Activation::none, true}, DataType::bfloat16);
  check({1, 150, 96, 66, false, true}, DataType::bfloat16, DataType::float32);
  const std::int64_t limit = settings.index_limit;
  settings.index_limit = 100;
  check({2, 72, 37, 70, false, true}, DataType::bfloat16);
  settings.index_limit = limit;
}

TEST(BFloat16Dot, ProductsOfPackedOperands) {
  if (!has_dot()) GTEST_SKIP() << "the CPU or its driver has no dot products of bfloat16";
  check_products("bfloat16");
}

TEST(BFloat16Dot, ProductsOfRows) {
  if (!has_dot()) GTEST_SKIP() << "the CPU or its driver has no dot products of bfloat16";
  check_products("points");
}

// In pairs along k, and where these do not lie as such.
TEST(BFloat16Dot, FewRows) {
  if (!has_dot()) GTEST_SKIP() << "the CPU or its driver has no dot products of bfloat16";
  using namespace testing::products;
  const Variable forced("DLPRIM_GEMM", "thin");
  for (const std::int64_t m : {1, 2, 3, 5, 6, 7, 8}) {
    check({1, m, 37, 90, false, true}, DataType::bfloat16);
    check({2, m, 22, 70, false, true, true, 4, 2, 0.5, -2}, DataType::bfloat16);
    if (m % 2) check({2, m, 19, 77, false, true, false, 3, 1}, DataType::bfloat16);
  }
}

// What a core of the engine says to a product.
const char* reason(const char* core, const GemmProblem& problem) {
  const GemmCores& all = all_gemm_cores();
  return all.decline(*all.find(core), testing::device(), problem, false);
}

TEST(BFloat16Dot, TakesLargeProducts) {
  if (!has_dot()) GTEST_SKIP() << "the CPU or its driver has no dot products of bfloat16";
  GemmProblem problem;
  problem.type = DataType::bfloat16;
  problem.p.m = problem.p.n = problem.p.k = 512, problem.p.a_m = problem.p.b_n = problem.p.c_m = 512;
  problem.p.a_k = problem.p.b_k = problem.p.c_n = 1;
  EXPECT_EQ(reason("bfloat16", problem), nullptr);
  problem.p.k = 511;
  EXPECT_EQ(reason("bfloat16", problem), nullptr);
}

TEST(Points, ResultsAndGradients) {
  if (!testing::device().info().cpu) GTEST_SKIP() << "for CPUs";
  using namespace testing::conv;
  const Variable forced("DLPRIM_GEMM", "points");
  for (const DataType type : types()) {
    const auto run = [&](const Case& t) { check(t, type); };
    run({"3 x 3", {2, 18, 9, 11}, {50, 18, 3, 3}, options({1, 1, 1}, {1, 1, 1}), {}, true, true});
    run({"strides and dilation",
         {3, 34, 13, 8},
         {36, 34, 3, 2},
         options({2, 1, 1}, {2, 0, 0}, {2, 3, 1}),
         {},
         true,
         true});
    run({"one image of odd points", {1, 16, 7, 7}, {64, 16, 3, 3}, options({1, 1, 1}, {1, 1, 1}), {}, true, true});
    run({"no padding", {1, 20, 6, 6}, {100, 20, 2, 3}, options({1, 1, 1}, {0, 0, 0}), {}, true, true});
    run({"strided point", {2, 48, 9, 9}, {96, 48, 1, 1}, options({2, 2, 2}, {0, 0, 0}), {}, true, true});
    run({"few channels", {2, 2, 12, 12}, {8, 2, 5, 5}, options({2, 2, 2}, {2, 2, 2}), {}, true, true});
    run({"odd channels", {1, 17, 8, 8}, {33, 17, 3, 3}, options({1, 1, 1}, {1, 1, 1}), {}, true, true});
    run({"weights in rows", {1, 16, 8, 8}, {32, 16, 3, 3}, options({1, 1, 1}, {1, 1, 1}), {}, true, false});
    run({"a line", {2, 24, 40}, {40, 24, 7}, options({2, 1, 1}, {3, 0, 0}), {}, true, true});
    run({"a volume", {1, 16, 5, 6, 7}, {24, 16, 3, 3, 3}, options({1, 2, 1}, {1, 1, 1}), {}, true, true});
    run({"groups", {1, 32, 6, 6}, {32, 16, 3, 3}, options({1, 1, 1}, {1, 1, 1}, {1, 1, 1}, 2), {}, true, true});
    if (testing::builds_slowly()) continue;
    run({"many rows and points", {2, 72, 20, 19}, {300, 72, 3, 3}, options({1, 1, 1}, {1, 1, 1}), {}, true, true});
    const std::int64_t limit = settings.index_limit;
    settings.index_limit = 100;
    run({"wide indices", {1, 18, 9, 9}, {34, 18, 3, 3}, options({1, 1, 1}, {1, 1, 1}), {}, true, true});
    settings.index_limit = limit;
  }
}

// Of which vectors hold several, and panels of one each.
TEST(Points, Groups) {
  if (!testing::device().info().cpu) GTEST_SKIP() << "for CPUs";
  using namespace testing::conv;
  const Variable forced("DLPRIM_CONV", "implicit");
  for (const DataType type : types()) {
    const auto run = [&](const char* label, Sizes x, Sizes w, ConvOptions o, bool w_last = true) {
      o.groups = x[1] / w[1];
      check({label, std::move(x), std::move(w), o, {}, true, w_last}, type);
    };
    run("groups of 4", {2, 32, 9, 7}, {32, 4, 3, 3}, options({1, 1, 1}, {1, 1, 0}));
    run("groups of 8, half a vector", {1, 40, 9, 7}, {40, 8, 3, 3}, options({2, 1, 1}, {1, 1, 0}), false);
    run("groups of 8, strides", {1, 32, 9, 9}, {32, 8, 3, 3}, options({2, 2, 1}, {1, 1, 0}));
    run("groups of 4, strides", {2, 32, 9, 8}, {32, 4, 3, 3}, options({2, 2, 1}, {1, 1, 0}));
    run("groups of 2", {1, 24, 6, 7}, {24, 2, 3, 2}, options({1, 1, 1}, {1, 0, 0}, {1, 2, 1}));
    run("groups of 8 to 4 rows", {1, 32, 6, 6}, {16, 8, 3, 3}, options({1, 1, 1}, {1, 1, 0}));
    run("groups of 24", {2, 48, 7, 6}, {48, 24, 3, 3}, options({1, 2, 1}, {1, 1, 0}));
    run("groups of 10 to 70 rows", {1, 20, 5, 6}, {140, 10, 3, 3}, options({1, 1, 1}, {0, 1, 0}));
    run("points of groups", {2, 32, 5, 6}, {48, 16, 1, 1}, options({1, 1, 1}, {0, 0, 0}));
    run("a line", {2, 16, 40}, {16, 8, 7}, options({2, 1, 1}, {3, 0, 0}));
    if (testing::builds_slowly()) continue;
    run("a volume", {1, 16, 4, 5, 6}, {16, 4, 2, 3, 3}, options({1, 1, 1}, {1, 1, 1}));
    run("many points", {3, 16, 20, 19}, {16, 4, 3, 3}, options({1, 1, 1}, {1, 1, 0}));
    const std::int64_t limit = settings.index_limit;
    settings.index_limit = 100;
    run("wide indices", {1, 16, 9, 9}, {16, 8, 3, 3}, options({1, 1, 1}, {1, 1, 0}));
    settings.index_limit = limit;
  }
}

TEST(Points, AreTaken) {
  if (!testing::device().info().cpu) GTEST_SKIP() << "for CPUs";
  for (const DataType type : types()) {
    GemmProblem problem;
    auto& p = problem.p;
    problem.type = type, problem.mode = GemmMode::convolution, problem.rank = 2, problem.check = true;
    problem.channel_inner = true;
    p.m = 64, p.n = 784, p.k = 288, p.a_m = 288, p.a_k = 1, p.c_m = 1, p.channels = 32, p.x_c = 1;
    p.out[1] = p.out[2] = p.in[1] = p.in[2] = 28, p.taps[1] = p.taps[2] = 3, p.start[1] = p.start[2] = -1;
    p.x_n = 28 * 28 * 32, p.x_stride[1] = 28 * 32, p.x_stride[2] = 32;
    p.y_n = 28 * 28 * 64, p.y_stride[1] = 28 * 64, p.y_stride[2] = 64;
    EXPECT_EQ(reason("points", problem), nullptr);
    problem.batches = 8, p.m = 8, p.channels = 4, p.k = 36, p.a_m = 36, p.a_batch = 8 * 36;
    p.b_batch = 4, p.c_batch = 8;
    EXPECT_EQ(reason("points", problem), nullptr);
    p.m = p.c_batch = 2, p.a_batch = 2 * 36, problem.batches = 3;
    EXPECT_STREQ(reason("points", problem), "groups of few channels");
    problem.batches = 1, p.m = p.c_batch = 64, p.channels = 32, p.k = 288, p.a_m = 288;
    problem.mode = GemmMode::weights_gradient;
    std::swap(p.n, p.k), p.a_m = p.c_n = 1, p.c_m = 288;
    EXPECT_EQ(reason("points_weights", problem), nullptr);
    p.y_stride[1] += 64;  // rows of y lie apart
    EXPECT_STREQ(reason("points_weights", problem), "points of y do not lie in a row");
  }
}

TEST(Points, ChannelsOfRowsAreCopied) {
  if (!has_dot()) GTEST_SKIP() << "the CPU or its driver has no dot products of bfloat16";
  using namespace testing::conv;
  check({"images in rows", {2, 32, 20, 20}, {64, 32, 3, 3}, options({1, 1, 1}, {1, 1, 1}), {}}, DataType::bfloat16);
  check({"a first layer", {2, 3, 40, 40}, {32, 3, 7, 7}, options({2, 2, 2}, {3, 3, 3}), {}, true, true},
        DataType::bfloat16);
  check({"a first layer in rows", {2, 3, 40, 40}, {32, 3, 7, 7}, options({2, 2, 2}, {3, 3, 3}), {}},
        DataType::bfloat16);
}

}  // namespace
}  // namespace dlprim
