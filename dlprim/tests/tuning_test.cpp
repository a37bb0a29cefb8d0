// SPDX-License-Identifier: MIT
#include <dlprim/error.hpp>
#include <dlprim/runtime/environment.hpp>

#include <clocale>

#include "../tuning/store.hpp"
#include "gemm/core.hpp"
#include "testing.hpp"

namespace dlprim {
namespace {

DeviceInfo nvidia(const char* name, int capability) {
  DeviceInfo info;
  info.name = name, info.vendor = Vendor::nvidia, info.gpu = true, info.nv_compute_capability = capability;
  return info;
}

const DeviceInfo h200 = nvidia("NVIDIA H200", 90), h100 = nvidia("NVIDIA H100 PCIe", 90),
                 a100 = nvidia("NVIDIA A100", 80);

TEST(Tuning, DevicesOfAnArchitectureShareWhatWasMeasured) {
  EXPECT_EQ(tuning::scope_of(h200), "nvidia/sm_90/NVIDIA H200");
  const std::string choice = "core convolution bfloat16 64 802816 147 1 a:k b:k rank2 edges last";
  EXPECT_EQ(tuning::values(h200, choice), std::vector<std::string>{"tiled"});
  EXPECT_EQ(tuning::values(h100, choice), std::vector<std::string>{"tiled"});
  EXPECT_TRUE(tuning::values(a100, choice).empty());
  EXPECT_FALSE(tuning::values(h100, "gemm.wgmma.rates").empty());
  EXPECT_TRUE(tuning::values(a100, "gemm.wgmma.rates").empty());
}

TEST(Tuning, WhatNothingIsKnownOfTakesTheDefault) {
  DeviceInfo unknown;
  unknown.name = "a/new\tdevice";
  EXPECT_EQ(tuning::scope_of(unknown), "other/simd1/a new device");
  EXPECT_EQ(tuning::values(unknown, "gemm.tiles.tiled.float32"), tuning::values(h200, "gemm.tiles.tiled.float32"));
  EXPECT_TRUE(tuning::values(unknown, "no such key").empty());
}

TEST(Tuning, PanelsByTheVectorsOfACpu) {
  DeviceInfo cpu;
  cpu.name = "a CPU", cpu.cpu = true, cpu.local_memory = 262144, cpu.float_vector = 16;
  EXPECT_EQ(text_of(read_panels(cpu, "float32")[0]), "8x32x128x96x160");
  cpu.float_vector = 8;
  EXPECT_EQ(text_of(read_panels(cpu, "float32")[0]), "6x16x120x96x160");
  cpu.local_memory = 32768;
  ASSERT_EQ(read_panels(cpu, "float32").size(), 1u);
  EXPECT_EQ(text_of(read_panels(cpu, "float64")[0]), "4x16x16x32x64");
}

TEST(Tuning, ValuesThatAreSetComeFirstAndCanBeForgotten) {
  const Device& device = testing::device();
  const std::string key = "gemm.mma.float32";
  static tuning::Numbers<1> limit("gemm.mma.float32");
  const double shipped = limit(device)[0];
  tuning::set(device.info(), key, {"77"});
  EXPECT_EQ(limit(device)[0], 77);
  tuning::forget(device.info(), key);
  EXPECT_EQ(limit(device)[0], shipped);
}

TEST(Tuning, KeptValuesAreReadAgain) {
  const DeviceInfo& info = testing::device().info();
  const std::vector<std::string> lines{"64x64x8x4x8x2 1 1 2", "32x32x8x4x4x2 0.5 0.25 3"};
  tuning::keep(info, "test.kept", lines);
  const auto read = tuning::values(info, "test.kept");
  tuning::forget(info, "test.kept");
  if (environment::is_on("DLPRIM_CACHE_DISABLE")) GTEST_SKIP() << "there is no cache on disk";
  EXPECT_EQ(read, lines);
  EXPECT_TRUE(tuning::values(info, "test.kept").empty());
}

TEST(Tuning, NumbersAreReadInAnyLocale) {
  const std::vector<double> expected{128, 64, 8, 8, 8, 2, 0.25, 4e5};
  EXPECT_EQ(tuning::numbers_in("128x64x8x8x8x2 0.25 4e5"), expected);
  const std::string before = std::setlocale(LC_ALL, nullptr);
  for (const char* locale : {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE"}) {
    if (!std::setlocale(LC_ALL, locale)) continue;
    EXPECT_EQ(tuning::numbers_in("128x64x8x8x8x2 0.25 4e5"), expected);
  }
  std::setlocale(LC_ALL, before.c_str());
  EXPECT_TRUE(tuning::numbers_in("").empty());
  EXPECT_EQ(tuning::numbers_in("3 rubbish 4"), std::vector<double>{3});
}

// A file on disk may be damaged, or of another version.
TEST(Tuning, LinesThatCannotBeReadAreLeftOut) {
  const DeviceInfo& info = testing::device().info();
  tuning::set(info, "gemm.tiles.tiled.float32",
              {"0x0x0", "64x64x8x4x8x2 1 1 2", "-1x64x8x4x8x2 1 1 2", "64x64x8x4x8x2"});
  const TileTable tiles = read_tiles(info, "tiled.float32", "tiled");
  ASSERT_EQ(tiles.shapes.size(), 1u);
  EXPECT_EQ(line_of(tiles.shapes[0]), "64x64x8x4x8x2 1 1 2");
  tuning::set(info, "gemm.tiles.tiled.float32", {"nonsense"});
  EXPECT_THROW(read_tiles(info, "tiled.float32", "tiled"), Error);
  tuning::forget(info, "gemm.tiles.tiled.float32");
}

// What was chosen by other values is chosen anew.
TEST(Tuning, ChoicesFollowWhatIsSet) {
  const Device& device = testing::device();
  GemmProblem problem;
  problem.p.m = 333, problem.p.n = 335, problem.p.k = 334;
  auto chosen = [&](const char* line) {
    tuning::set(device.info(), "gemm.tiles.tiled.float32", {line});
    const TileTable tiles = read_tiles(device.info(), "tiled.float32", "tiled");
    const GemmCore& core = *all_gemm_cores().find("tiled");
    return text_of(choose_tile(testing::queue(), core, problem, tiles, nullptr).shape);
  };
  EXPECT_EQ(chosen("64x64x8x4x8x2 1 1 2"), "64x64x8x4x8x2");
  EXPECT_EQ(chosen("32x64x8x4x4x2 1 1 2"), "32x64x8x4x4x2");
  tuning::forget(device.info(), "gemm.tiles.tiled.float32");
}

}  // namespace
}  // namespace dlprim
