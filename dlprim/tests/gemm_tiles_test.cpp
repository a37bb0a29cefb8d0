// SPDX-License-Identifier: MIT
// Which tiles and splits of k a problem gets by estimate.
#include <gtest/gtest.h>

#include "gemm/core.hpp"
#include "tensors.hpp"

namespace dlprim {
namespace {

TEST(GemmTiles, FillsAllUnits) {
  DeviceInfo info = testing::device().info();
  info.compute_units = 132;
  const TileTable tiles{{{128, 128, 32, 64, 64, 1.00f, 1.00f, 2, 3}}, {40, 4, 4e5}};
  GemmProblem problem;
  const auto best = [&](std::int64_t m, std::int64_t n, std::int64_t k) {
    problem.p.m = m, problem.p.n = n, problem.p.k = k;
    return rank_tiles(tiles, info, problem)[0];
  };
  EXPECT_EQ(best(128 * 264, 128, 2048).splits, 1);  // as many tiles as fit at once
  EXPECT_EQ(best(128 * 3, 128 * 3, 100000).splits, 264 / 9);  // as many splits
  EXPECT_EQ(best(128 * 12, 128 * 12, 2048).share, 144 * 64 / 264 + 1);  // splits would leave units idle
}

TEST(GemmTiles, DeepRingsForFewTiles) {
  DeviceInfo info = testing::device().info();
  info.compute_units = 132;
  const TileTable tiles{{{128, 256, 64, 64, 256, 1.0f, 1.0f, 1, 4},
                         {64, 64, 64, 64, 64, 0.7f, 0.7f, 4, 3},
                         {64, 64, 64, 64, 64, 0.7f, 0.7f, 1, 12}},
                        {},
                        RingCosts{3.6e12, 0.53e-6, 31e9, 246e9, 4.7e12, 1.43e-6, 4e-6, 2.6e-12}};
  const auto best = [&](std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t most_splits = 512) {
    GemmProblem problem;
    problem.type = DataType::bfloat16;
    problem.p.m = m, problem.p.n = n, problem.p.k = k;
    return rank_tiles(tiles, info, problem, most_splits)[0];
  };
  EXPECT_EQ(best(64, 4096, 4096).shape.stages, 12);
  EXPECT_EQ(best(8192, 8192, 8192).shape.bn, 256);
  EXPECT_GT(best(256, 256, 65536).splits, 4);
  EXPECT_EQ(best(256, 256, 65536, 1).splits, 1);
}

// Boxes whose rows begin elsewhere than at lines of memory take longer, which wide tiles hide.
TEST(GemmTiles, WiderWhereRowsBeginBetweenLines) {
  DeviceInfo info = testing::device().info();
  info.compute_units = 132;
  const TileTable tiles{{{128, 160, 64, 64, 160, 1.0f, 1.0f, 1, 5}, {64, 64, 64, 64, 64, 0.7f, 0.7f, 1, 12}},
                        {},
                        RingCosts{3.1e12, 0.5e-6, 54e9, 126e9, 4.3e12, 2e-6, 6.7e-6, 1e-12, 1.4, 2.7}};
  GemmProblem problem;
  problem.type = DataType::bfloat16;
  problem.p.m = 80, problem.p.n = 3584, problem.p.k = 8192, problem.p.a_k = problem.p.b_k = 1;
  problem.p.a_m = problem.p.b_n = 8192;
  EXPECT_EQ(rank_tiles(tiles, info, problem)[0].shape.bn, 64);
  problem.p.a_m = problem.p.b_n = 8200;
  EXPECT_EQ(rank_tiles(tiles, info, problem)[0].shape.bn, 160);
}

// Tiles in turns hide how they begin and end, which short sums need, where the copy engine stores them.
TEST(GemmTiles, InTurnsWhereSumsAreShort) {
  DeviceInfo info = testing::device().info();
  info.compute_units = 132;
  const TileTable tiles{{{128, 256, 64, 64, 256, 1.0f, 1.0f, 1, 4}, {128, 128, 64, 128, 128, 0.94f, 0.94f, 1, 6}},
                        {},
                        RingCosts{3.1e12, 0.5e-6, 54e9, 126e9, 4.3e12, 2e-6, 6.7e-6, 1e-12, 1.4, 2.7}};
  const auto in_turns = [&](std::int64_t n, std::int64_t k, std::int64_t row) {
    GemmProblem problem;
    problem.type = DataType::bfloat16;
    problem.p.m = 16384, problem.p.n = n, problem.p.k = k;
    problem.p.a_k = problem.p.b_k = problem.p.c_n = 1, problem.p.a_m = row, problem.p.b_n = k, problem.p.c_m = n;
    return takes_turns(rank_tiles(tiles, info, problem)[0].shape);
  };
  EXPECT_TRUE(in_turns(512, 512, 512));
  EXPECT_FALSE(in_turns(512, 512, 520));  // rows of A that begin between lines
  EXPECT_FALSE(in_turns(508, 512, 512));  // rows of C that begin between pieces of 16 bytes
  EXPECT_FALSE(in_turns(264, 512, 512));  // a last column of tiles that is nearly empty
  EXPECT_FALSE(in_turns(512, 8192, 8192));
}

}  // namespace
}  // namespace dlprim
