// SPDX-License-Identifier: MIT
#include <dlprim/primitives/conv.hpp>
#include <dlprim/primitives/copy.hpp>

#include "conv_case.hpp"
#include "gemm/core.hpp"
#include "tensors.hpp"

namespace dlprim {
namespace {

using testing::Elements;
using testing::encode;
using testing::queue;
using namespace testing::conv;

std::vector<Case> cases() {
  return {
      {"1x1", {2, 5, 8, 8}, {7, 5, 1, 1}, options({1, 1, 1}, {0, 0, 0}), {}},
      {"1x1 odd plane", {2, 33, 7, 7}, {65, 33, 1, 1}, options({1, 1, 1}, {0, 0, 0}), {}},
      {"1x1 stride", {2, 6, 9, 8}, {4, 6, 1, 1}, options({2, 2, 1}, {0, 0, 0}), {}},
      {"3x3", {2, 5, 9, 20}, {6, 5, 3, 3}, options({1, 1, 1}, {1, 1, 0}), {}},
      {"3x3 wide", {1, 4, 5, 40}, {9, 4, 3, 3}, options({1, 1, 1}, {1, 1, 0}), {}},
      {"3x3 stride", {2, 5, 9, 37}, {6, 5, 3, 3}, options({2, 2, 1}, {1, 1, 0}), {}},
      {"7x7 stride", {1, 3, 20, 44}, {8, 3, 7, 7}, options({2, 2, 1}, {3, 3, 0}), {}},
      {"stride 3, dilation 2", {2, 3, 14, 17}, {4, 3, 3, 2}, options({3, 2, 1}, {2, 1, 0}, {2, 2, 1}), {}},
      {"padding above the kernel", {1, 2, 3, 3}, {2, 2, 2, 2}, options({1, 1, 1}, {3, 3, 0}), {}},
      {"asymmetric", {2, 3, 8, 9}, {4, 3, 3, 4}, options({1, 1, 1}, {0, 1, 0}), {2, 2}},
      {"groups", {2, 8, 7, 7}, {12, 4, 3, 3}, options({1, 1, 1}, {1, 1, 0}, {1, 1, 1}, 2), {}},
      {"1d", {3, 4, 50}, {5, 4, 5}, options({2, 1, 1}, {2, 0, 0}, {1, 1, 1}), {}},
      {"3d", {2, 3, 5, 6, 18}, {4, 3, 2, 3, 3}, options({1, 2, 1}, {1, 0, 1}, {1, 1, 2}), {}},
      {"channels last", {2, 8, 6, 7}, {12, 8, 3, 3}, options({1, 1, 1}, {1, 1, 0}), {}, true, true},
      {"channels last, row-major weights", {2, 5, 6, 7}, {4, 5, 3, 3}, options({2, 1, 1}, {1, 1, 0}), {}, true, false},
      {"row-major, weights channels last", {2, 5, 6, 7}, {4, 5, 3, 3}, options({1, 1, 1}, {1, 1, 0}), {}, false, true},
      {"channels last 1x1", {2, 8, 4, 8}, {16, 8, 1, 1}, options({1, 1, 1}, {0, 0, 0}), {}, true, true},
      {"many images, few rows", {40, 70, 2, 3}, {3, 70, 2, 2}, options({1, 1, 1}, {1, 1, 0}), {}},
      {"long sums of few points", {1, 300, 3, 3}, {5, 300, 3, 3}, options({1, 1, 1}, {1, 1, 0}), {}},
      {"channels last 1x1, few channels", {1, 40, 6, 7}, {3, 40, 1, 1}, options({1, 1, 1}, {0, 0, 0}), {}, true, true},
      {"kernel 4 stride 4", {2, 3, 8, 12}, {5, 3, 4, 4}, options({4, 4, 1}, {0, 0, 0}), {}},
  };
}

std::vector<Case> depthwise_cases() {
  return {
      {"depthwise", {2, 9, 8, 11}, {9, 1, 3, 3}, options({1, 1, 1}, {1, 1, 0}, {1, 1, 1}, 9), {}},
      {"depthwise stride", {3, 4, 9, 12}, {4, 1, 3, 3}, options({2, 2, 1}, {1, 1, 0}, {1, 1, 1}, 4), {}},
      {"depthwise multiplier", {2, 3, 7, 7}, {6, 1, 5, 3}, options({1, 2, 1}, {2, 1, 0}, {1, 1, 1}, 3), {}},
      {"depthwise strips", {1, 2, 310, 29}, {2, 1, 3, 3}, options({1, 1, 1}, {1, 1, 0}, {1, 1, 1}, 2), {}},
      {"depthwise vectors", {2, 3, 11, 75}, {3, 1, 5, 5}, options({2, 2, 1}, {2, 2, 0}, {1, 1, 1}, 3), {}},
      {"depthwise padding", {1, 3, 4, 6}, {3, 1, 3, 3}, options({1, 1, 1}, {2, 5, 0}, {1, 1, 1}, 3), {0, 3}},
      {"depthwise dilation", {2, 3, 13, 14}, {3, 1, 3, 3}, options({1, 1, 1}, {2, 3, 0}, {2, 3, 1}, 3), {}},
      {"depthwise channels last",
       {2, 6, 5, 9},
       {6, 1, 3, 3},
       options({1, 1, 1}, {1, 1, 0}, {1, 1, 1}, 6),
       {},
       true,
       false},
      {"depthwise 1d", {2, 6, 30}, {6, 1, 7}, options({1, 1, 1}, {3, 0, 0}, {1, 1, 1}, 6), {}},
      {"depthwise 3d", {1, 3, 5, 6, 7}, {3, 1, 3, 2, 3}, options({2, 1, 1}, {1, 1, 1}, {1, 1, 1}, 3), {}},
      {"depthwise 1d, gaps", {2, 3, 301}, {6, 1, 4}, options({3, 1, 1}, {4, 0, 0}, {2, 1, 1}, 3), {}},
      {"depthwise, one row", {2, 3, 1, 200}, {3, 1, 3, 3}, options({2, 2, 1}, {1, 1, 0}, {1, 1, 1}, 3), {}},
      {"depthwise stride, narrow", {2, 5, 14, 14}, {5, 1, 3, 3}, options({2, 2, 1}, {1, 1, 0}, {1, 1, 1}, 5), {}},
      {"depthwise stride, wide padding", {2, 3, 6, 21}, {3, 1, 3, 4}, options({1, 2, 1}, {2, 6, 0}, {1, 1, 1}, 3), {}},
      {"depthwise stride, dilation", {1, 3, 9, 60}, {3, 1, 3, 3}, options({2, 2, 1}, {0, 0, 0}, {1, 3, 1}, 3), {}},
      {"depthwise, 29 taps in a row", {1, 3, 5, 40}, {3, 1, 2, 29}, options({1, 1, 1}, {1, 14, 0}, {1, 1, 1}, 3), {}},
      {"depthwise, 9 x 9 taps", {2, 3, 17, 21}, {3, 1, 9, 9}, options({1, 2, 1}, {4, 4, 0}, {1, 1, 1}, 3), {}},
      {"depthwise, far apart", {2, 3, 11, 17}, {3, 1, 3, 2}, options({5, 4, 1}, {1, 1, 0}, {1, 1, 1}, 3), {}},
  };
}

std::vector<Case> depthwise_last_cases() {
  auto last = [](const char* label, Sizes x, std::int64_t h, std::int64_t w, std::array<std::int64_t, 3> stride,
                 std::array<std::int64_t, 3> padding, std::array<std::int64_t, 3> dilation = {1, 1, 1},
                 Sizes behind = {}) {
    const std::int64_t channels = x[1];
    return Case{label, x, {channels, 1, h, w}, options(stride, padding, dilation, channels), behind, true, false};
  };
  return {
      last("last 3x3, odd channels", {2, 35, 6, 7}, 3, 3, {1, 1, 1}, {1, 1, 0}),
      last("last 20 channels", {2, 20, 9, 15}, 3, 3, {1, 1, 1}, {1, 1, 0}),
      last("last 48 channels, stride", {1, 48, 12, 21}, 5, 4, {2, 2, 1}, {2, 2, 0}),
      last("last 16 channels, dilation", {2, 16, 10, 8}, 3, 3, {1, 2, 1}, {2, 3, 0}, {2, 3, 1}),
      last("last 3x3 stride 2", {2, 12, 9, 14}, 3, 3, {2, 2, 1}, {1, 1, 0}),
      last("last 3x3 strides 2 and 3", {1, 6, 11, 17}, 3, 3, {2, 3, 1}, {0, 2, 0}),
      last("last 5x5 stride 2", {2, 6, 11, 20}, 5, 5, {2, 2, 1}, {2, 2, 0}),
      last("last 7x7", {2, 6, 14, 14}, 7, 7, {1, 1, 1}, {3, 3, 0}),
      last("last 7x7, small image", {3, 5, 3, 4}, 7, 7, {1, 1, 1}, {3, 3, 0}),
      last("last 1x1 stride 2", {2, 4, 5, 6}, 1, 1, {2, 2, 1}, {0, 0, 0}),
      last("last dilation", {2, 4, 13, 14}, 3, 3, {1, 1, 1}, {2, 3, 0}, {2, 3, 1}),
      last("last dilation and stride", {2, 4, 13, 14}, 3, 2, {2, 2, 1}, {2, 3, 0}, {2, 3, 1}),
      last("last asymmetric", {2, 4, 6, 5}, 3, 3, {2, 2, 1}, {0, 1, 0}, {1, 1, 1}, {1, 2}),
      last("last padding above the kernel", {1, 4, 4, 6}, 3, 3, {1, 1, 1}, {5, 4, 0}),
      last("last long rows, stride 2", {1, 2, 3, 310}, 3, 3, {2, 2, 1}, {1, 1, 0}),
  };
}

class ConvCandidate : public ::testing::TestWithParam<const char*> {};

TEST_P(ConvCandidate, AgreesWithHost) {
  const testing::Variable forced("DLPRIM_GEMM", GetParam()), products("DLPRIM_CONV", "implicit");
  const bool mma = std::string(GetParam()).ends_with("mma") || std::string(GetParam()) == "tma";
  const bool emulated = mma && !testing::device().info().nv_inline_ptx;
  // The emulation of matrix units takes seconds to build kernels for a case: a third of them there.
  const bool slow = emulated || testing::builds_slowly();
  // The tiled core, which is for GPUs, builds slowly on CPUs, too: PoCL takes a third of the cases, others the rest.
  const bool rest = std::string(GetParam()) == "tiled" && testing::device().info().cpu && !testing::builds_slowly();
  int number = 0;
  for (const Case& t : cases()) {
    const int form = number++ % 3;
    if (mma && (!emulated || form == 1)) check(t, DataType::bfloat16);
    if (slow ? form == 0 : !rest || form != 0) check(t, DataType::float32);
  }
}

INSTANTIATE_TEST_SUITE_P(All, ConvCandidate,
                         ::testing::Values("thin", "gemv", "panel", "tma", "wgmma", "mma", "tiled", "reference"),
                         [](const auto& candidate) { return std::string(candidate.param); });

// Channels side by side: edges of tiles, of chunks, of windows and of k in every pass.
TEST(Conv, GathersWholeChunks) {
  const testing::Variable forced("DLPRIM_GEMM", "gather");
  const auto last = [](const char* label, Sizes x, Sizes w, ConvOptions options, Sizes behind = {}) {
    return Case{label, std::move(x), std::move(w), options, std::move(behind), true, true};
  };
  const Case all[] = {
      last("3x3", {2, 8, 9, 11}, {16, 8, 3, 3}, options({1, 1, 1}, {1, 1, 0})),
      last("stride and dilation", {2, 24, 13, 11}, {72, 24, 3, 3}, options({2, 1, 1}, {2, 3, 0}, {1, 2, 1})),
      last("5x5, a tile and more of channels", {1, 16, 8, 9}, {136, 16, 5, 5}, options({2, 2, 1}, {2, 2, 0})),
      last("asymmetric, odd channels", {2, 8, 8, 9}, {21, 8, 3, 4}, options({1, 1, 1}, {0, 1, 0}), {2, 2}),
      last("groups", {2, 32, 7, 7}, {16, 16, 3, 3}, options({1, 1, 1}, {1, 1, 0}, {1, 1, 1}, 2)),
      last("1x1 stride 2", {2, 72, 9, 8}, {8, 72, 1, 1}, options({2, 2, 1}, {0, 0, 0})),
      last("1d", {3, 8, 50}, {16, 8, 5}, options({2, 1, 1}, {2, 0, 0})),
      last("3d", {1, 8, 5, 6, 7}, {8, 8, 3, 3, 2}, options({1, 2, 1}, {1, 1, 0})),
      last("7x7: more than 32 taps", {1, 8, 9, 10}, {16, 8, 7, 7}, options({1, 1, 1}, {3, 3, 0})),
  };
  // Where kernels build slowly, a third of the cases.
  for (std::size_t i = 0; i < std::size(all); i += testing::builds_slowly() ? 3 : 1)
    check(all[i], i % 2 ? DataType::float16 : DataType::bfloat16);
  Case rounded = all[1];
  rounded.options.allow_tf32 = true;
  check(rounded, DataType::float32);
  // Row-major tensors are copied first; results go back to rows that cannot be written in vectors.
  Case planes = all[0];
  planes.x_last = false;
  const testing::Variable copied("DLPRIM_CONV", "channels_last");
  check(planes, DataType::bfloat16);
  planes.options.allow_tf32 = true;
  check(planes, DataType::float32);
}

// tf32 as sums of two bfloat16.
TEST(Conv, WeightsGradientOfTwoParts) {
  const testing::Variable forced("DLPRIM_CONV", "bf16x3"), gather("DLPRIM_GEMM", "gather");
  Case all[] = {
      {"row-major", {2, 8, 9, 11}, {16, 8, 3, 3}, options({1, 1, 1}, {1, 1, 0}), {}},
      {"channels last", {2, 24, 13, 11}, {72, 24, 3, 3}, options({2, 1, 1}, {2, 3, 0}, {1, 2, 1}), {}, true, true},
      {"row-major weights", {1, 16, 8, 9}, {24, 16, 4, 4}, options({2, 2, 1}, {1, 1, 0}), {}, true, false},
      {"groups", {2, 32, 7, 7}, {16, 16, 3, 3}, options({1, 1, 1}, {1, 1, 0}, {1, 1, 1}, 2), {}},
      {"1x1 stride 2", {2, 72, 9, 8}, {8, 72, 1, 1}, options({2, 2, 1}, {0, 0, 0}), {}},
      {"1d", {3, 8, 50}, {16, 8, 5}, options({2, 1, 1}, {2, 0, 0}), {}},
      {"3d", {1, 8, 5, 6, 7}, {8, 8, 3, 3, 2}, options({1, 2, 1}, {1, 1, 0}), {}},
  };
  for (std::size_t i = 0; i < std::size(all); i += testing::builds_slowly() ? 3 : 1) {
    all[i].options.allow_tf32 = true;
    check(all[i], DataType::float32);
  }
}

// Tiles that only Hopper takes, each way round.
TEST(Conv, GathersLargeTiles) {
  if (testing::builds_slowly()) GTEST_SKIP() << "a few cases more of what GathersWholeChunks covers";
  const testing::Variable forced("DLPRIM_GEMM", "gather");
  Case t{"large", {1, 16, 13, 11}, {136, 16, 3, 3}, options({1, 1, 1}, {1, 1, 0}), {}, true, true};
  for (const char* tile : {"128x256x64x64x64x4", "256x128x64x64x64x4", "128x128x64x64x64x6", "64x256x64x64x64x5"}) {
    const testing::Variable shape("DLPRIM_GEMM_TILE", tile);
    check(t, DataType::bfloat16);
    t.x_last = false;  // C contiguous along points
    const testing::Variable copied("DLPRIM_CONV", "channels_last");
    check(t, DataType::bfloat16);
    t.x_last = true;
  }
}

TEST(Conv, StreamsSlicesAcrossTiles) {
  const testing::Variable forced("DLPRIM_GEMM", "tiled"), stream("DLPRIM_GEMM_SPLIT", "stream");
  const testing::Variable products("DLPRIM_CONV", "implicit");
  const Case large{"stream-K", {2, 20, 15, 17}, {70, 20, 3, 3}, options({1, 1, 1}, {1, 1, 0}), {}};
  check(large, DataType::float32);
}

// Emulated, as a rule, which builds slowly: one unit of each vendor, gathers along both directions.
TEST(Conv, OnMatrixUnits) {
  GemmProblem problem;
  problem.type = DataType::bfloat16, problem.p.k = 1;
  for (const char* unit : {"matrix_intel16", "matrix_cdna"}) {
    const GemmCore* core = all_gemm_cores().find(unit);
    if (const char* reason = core->decline(testing::device(), problem, true)) GTEST_SKIP() << unit << ": " << reason;
    const testing::Variable forced("DLPRIM_GEMM", unit);
    check(cases()[5], DataType::bfloat16);
    check(cases()[13], DataType::bfloat16);
  }
}

// Few enough elements for a simulated device.
TEST(Conv, Small) {
  ConvOptions options;
  options.padding = {1, 1, 0}, options.stride = {2, 1, 1};
  check({"small", {2, 3, 5, 6}, {4, 3, 3, 3}, options, {}}, DataType::float32);
  const testing::Variable forced("DLPRIM_CONV", "winograd");
  check({"small winograd", {1, 2, 5, 6}, {3, 2, 3, 3}, {{1, 1, 1}, {1, 1, 0}}, {}}, DataType::float32);
  const testing::Variable last("DLPRIM_CONV", "depthwise_last");
  check({"small last", {1, 2, 5, 4}, {2, 1, 3, 3}, {{2, 2, 1}, {1, 1, 0}, {1, 1, 1}, 2}, {}, true}, DataType::float32);
}

// tf32 reaches the products of every pass, and only where it is allowed. Two parts are closer to float32.
TEST(Conv, RoundsToTf32OnlyWhenAllowed) {
  GemmProblem problem;
  problem.type = DataType::float32, problem.p.k = 1;
  const GemmCore* mma = all_gemm_cores().find("mma");
  if (const char* reason = mma->decline(testing::device(), problem, true)) GTEST_SKIP() << reason;
  const testing::Variable units("DLPRIM_GEMM", "mma");
  const Sizes xs{2, 24, 6, 5}, ws{16, 24, 3, 3}, ys{2, 16, 6, 5};
  const Elements x(DataType::float32, 1440, 1), w(DataType::float32, 3456, 2), dy(DataType::float32, 960, 3);
  const TensorView xv = view(x, xs, false), wv = view(w, ws, false), dyv = view(dy, ys, false);
  auto run = [&](int pass, bool allow_tf32) {
    ConvOptions options{{1, 1, 1}, {1, 1, 0}};
    options.allow_tf32 = allow_tf32;
    const Sizes& sizes = pass == 0 ? ys : pass == 1 ? xs : ws;
    const Elements result(DataType::float32, std::size_t(numel(sizes)), 4);
    const TensorView out = view(result, sizes, false);
    if (pass == 0) conv_forward(queue(), xv, wv, {}, out, options);
    else if (pass == 1) conv_backward_data(queue(), dyv, wv, {}, out, options);
    else conv_backward_weights(queue(), xv, dyv, out, options);
    return result.read();
  };
  for (const std::string core : {"implicit", "winograd", "bf16x3"}) {
    const testing::Variable forced("DLPRIM_CONV", core.c_str());
    const bool parts = core == "bf16x3";  // of weights' gradients alone
    for (int pass = parts ? 2 : 0; pass < 3; pass++) {
      const auto exact = run(pass, false), again = run(pass, false), rounded = run(pass, true);
      double difference = 0, norm = 0;
      for (std::size_t i = 0; i < exact.size(); i++)
        difference += (exact[i] - rounded[i]) * (exact[i] - rounded[i]), norm += exact[i] * exact[i];
      EXPECT_EQ(exact, again) << core << " " << pass;
      EXPECT_GT(difference, parts ? 0 : 1e-10 * norm) << core << " " << pass;
      EXPECT_LT(difference, (parts ? 1e-9 : 1e-5) * norm) << core << " " << pass;
    }
  }
}

// Copies of the operands that have eight channels in a group, whatever the device.
TEST(Conv, CopiesChannelsLast) {
  const testing::Variable forced("DLPRIM_CONV", "channels_last");
  const ConvOptions padded = options({1, 1, 1}, {1, 1, 0}), strided = options({2, 2, 1}, {1, 1, 0});
  const std::vector<Case> cases{
      {"8 channels", {2, 8, 6, 7}, {16, 8, 3, 3}, padded, {}},
      {"stride", {2, 8, 7, 9}, {8, 8, 3, 3}, strided, {}},
      {"groups", {2, 16, 5, 5}, {16, 8, 3, 3}, options({1, 1, 1}, {1, 1, 0}, {1, 1, 1}, 2), {}},
      {"weights channels last", {1, 8, 5, 6}, {8, 8, 3, 3}, padded, {}, false, true},
      {"1x1", {2, 8, 7, 7}, {8, 8, 1, 1}, options({1, 1, 1}, {0, 0, 0}), {}},
      {"x of 8 channels, y of 5", {2, 8, 6, 7}, {5, 8, 3, 3}, padded, {}},
      {"1d", {2, 8, 20}, {8, 8, 5}, options({1, 1, 1}, {2, 0, 0}), {}},
      {"3d", {1, 8, 4, 5, 6}, {8, 8, 2, 3, 3}, options({1, 1, 1}, {1, 1, 1}), {}},
  };
  for (const Case& t : cases) check(t, DataType::bfloat16);
}

// What a candidate cannot have memory for is left to implicit GEMM.
void check_short_of_memory(const char* way, DataType type) {
  Allocator& allocator = testing::device().allocator();
  const Sizes x{1, 8, 1024, 768}, w{8, 8, 3, 3};
  const Elements mx(type, std::size_t(numel(x)), 1), mw(type, std::size_t(numel(w)), 2),
      expected(type, std::size_t(numel(x)), 3), result(type, std::size_t(numel(x)), 4);
  auto run = [&](const char* name, const Elements& y) {
    const testing::Variable forced("DLPRIM_CONV", name);
    conv_forward(queue(), view(mx, x, false), view(mw, w, false), {}, view(y, x, false), options({1, 1, 1}, {1, 1, 0}),
                 Activation::none);
  };
  run("implicit", expected);
  allocator.empty_cache();
  const auto failed = allocator.stats().out_of_memory;
  const auto taken = double(allocator.stats().reserved_bytes.current);
  allocator.set_fraction(taken / double(testing::device().info().global_memory));
  run(way, result);
  allocator.set_fraction(1);
  EXPECT_GT(allocator.stats().out_of_memory, failed) << way;
  EXPECT_EQ(result.read(), expected.read()) << way;
}

TEST(Conv, DoesWithoutCopiesWhereMemoryIsShort) {
  if (testing::builds_slowly()) GTEST_SKIP() << "takes minutes: as many elements as memory runs short by";
  check_short_of_memory("channels_last", DataType::bfloat16);
  check_short_of_memory("winograd", DataType::float32);
  if (testing::device().info().cpu) check_short_of_memory("winograd_rows", DataType::float32);
  check_short_of_memory("shifted", DataType::float32);
}

// Gradients of x whose windows do not overlap, by one product.
TEST(Conv, Patches) {
  const testing::Variable forced("DLPRIM_CONV", "patches");
  const ConvOptions two = options({2, 2, 1}, {}), apart = options({5, 3, 1}, {0, 0, 0}, {2, 1, 1});
  const std::vector<Case> cases{
      {"patches", {2, 3, 8, 12}, {7, 3, 4, 4}, options({4, 4, 1}, {}), {}},
      {"channels last", {2, 3, 8, 12}, {7, 3, 4, 4}, options({4, 4, 1}, {}), {}, true, true},
      {"weights channels last", {2, 8, 6, 4}, {5, 8, 2, 2}, two, {}, false, true},
      {"x channels last", {2, 8, 6, 4}, {5, 8, 2, 2}, two, {}, true, false},
      {"rest of x", {2, 3, 9, 7}, {4, 3, 2, 2}, two, {}},
      {"gaps, dilation", {1, 3, 16, 11}, {4, 3, 3, 2}, apart, {}},
      {"1d", {2, 5, 32}, {3, 5, 8}, options({8, 1, 1}, {}), {}},
      {"3d", {1, 4, 4, 6, 8}, {5, 4, 2, 3, 4}, options({2, 3, 4}, {}), {}},
  };
  for (const DataType type : {DataType::float32, DataType::bfloat16})
    for (const Case& t : cases) check(t, type);
}

// Results and gradients of few channels as sums over products of every tap, whatever the device.
TEST(Conv, FoldsFewChannels) {
  const testing::Variable forced("DLPRIM_CONV", "folded");
  const std::vector<Case> cases{
      {"3x3", {2, 3, 8, 12}, {7, 3, 3, 3}, options({1, 1, 1}, {1, 1, 0}), {}},
      {"channels last, stride", {2, 3, 9, 12}, {7, 3, 5, 4}, options({2, 3, 1}, {2, 1, 0}), {}, true, true},
      {"x channels last, images beside each other",
       {3, 8, 4, 5},
       {2, 8, 3, 3},
       options({1, 1, 1}, {1, 1, 0}),
       {},
       true},
      {"dilation, stride", {2, 3, 14, 17}, {4, 3, 3, 2}, options({3, 2, 1}, {2, 1, 0}, {2, 3, 1}), {}},
      {"padding above the kernel", {1, 2, 3, 3}, {2, 2, 2, 2}, options({1, 1, 1}, {3, 3, 0}), {}},
      {"padding behind", {1, 3, 5, 6}, {4, 3, 2, 3}, options({2, 1, 1}, {0, 1, 0}), {1, 2}},
      {"gaps", {2, 3, 11, 9}, {5, 3, 2, 2}, options({3, 4, 1}, {}), {}},
      {"1d", {3, 2, 40}, {8, 2, 10}, options({5, 1, 1}, {}), {}},
      {"3d", {2, 3, 4, 5, 6}, {4, 3, 2, 3, 3}, options({1, 2, 1}, {1, 1, 1}), {}},
  };
  for (const Case& t : cases) check(t, DataType::float32);
  for (const Case& t : {cases[1], cases[3]})
    for (const DataType type : {DataType::bfloat16, DataType::float16, DataType::float64})
      if (testing::supports(type)) check(t, type);
}

// A gradient that one dimension shares, whose points do not lie evenly apart.
TEST(Conv, FoldsExpandedGradients) {
  const DataType type = DataType::float32;
  const Elements w(type, 45, 2), dy(type, 2 * 5 * 6, 3), dense(type, 2 * 5 * 6 * 7, 4);
  TensorView expanded(dy.data(), type, {2, 5, 6, 7});
  expanded.strides = {30, 6, 1, 0};
  const TensorView copied(dense.data(), type, {2, 5, 6, 7});
  copy(queue(), copied, expanded);
  const auto data = [&](const char* core, const TensorView& gradient) {
    const testing::Variable forced("DLPRIM_CONV", core);
    const Elements dx(type, 2 * 1 * 6 * 7, 5);
    conv_backward_data(queue(), gradient, TensorView(w.data(), type, {5, 1, 3, 3}), {},
                       TensorView(dx.data(), type, {2, 1, 6, 7}), options({1, 1, 1}, {1, 1, 0}));
    return dx.read();
  };
  const std::vector<double> expected = data("implicit", copied), folded = data("folded", expanded);
  for (std::size_t i = 0; i < expected.size(); i++) EXPECT_NEAR(folded[i], expected[i], 1e-5) << i;
}

// Gradients as convolutions with x and y exchanged, whatever the device.
TEST(Conv, MirrorsGradients) {
  const testing::Variable forced("DLPRIM_CONV", "mirrored");
  const std::vector<Case> cases{
      {"3x3", {2, 5, 7, 9}, {3, 5, 3, 3}, options({1, 1, 1}, {1, 1, 0}), {}},
      {"channels last", {2, 5, 7, 9}, {3, 5, 3, 3}, options({1, 1, 1}, {1, 0, 0}), {}, true, true},
      {"dilation", {2, 4, 9, 8}, {2, 4, 2, 3}, options({1, 1, 1}, {0, 3, 0}, {3, 2, 1}), {}},
      {"3d", {2, 3, 4, 5, 6}, {2, 3, 2, 3, 3}, options({1, 1, 1}, {1, 1, 1}), {}},
  };
  for (const Case& t : cases) check(t, DataType::float32);
  check(cases[1], DataType::bfloat16);
}

// Copies with more channels, whatever the device.
TEST(Conv, EnlargesChannels) {
  const testing::Variable forced("DLPRIM_CONV", "whole_chunks");
  const std::vector<Case> cases{
      {"both", {2, 5, 7, 9}, {3, 5, 3, 3}, options({2, 1, 1}, {1, 1, 0}), {}},
      {"channels last", {2, 9, 6, 7}, {16, 9, 3, 3}, options({1, 1, 1}, {1, 1, 0}), {}, true, true},
      {"1d", {3, 8, 20}, {9, 8, 5}, options({1, 1, 1}, {2, 0, 0}), {}},
  };
  for (Case t : cases) {
    check(t, DataType::bfloat16);
    t.options.allow_tf32 = true;
    check(t, DataType::float32);
  }
}

// Windows laid side by side, whatever the device.
TEST(Conv, LaysWindowsOfFewChannels) {
  const testing::Variable forced("DLPRIM_CONV", "row_windows");
  const std::vector<Case> cases{
      {"3 channels, stride", {2, 3, 11, 13}, {9, 3, 7, 7}, options({2, 2, 1}, {3, 3, 0}), {}},
      {"channels last", {2, 3, 9, 10}, {8, 3, 5, 5}, options({1, 1, 1}, {2, 2, 0}), {}, true, true},
      {"whole chunks", {1, 2, 6, 9}, {4, 2, 3, 4}, options({1, 2, 1}, {0, 1, 0}), {}, true, false},
      {"1 channel, dilated rows", {3, 1, 8, 12}, {16, 1, 3, 5}, options({1, 1, 1}, {2, 2, 0}, {2, 1, 1}), {}},
      {"two groups a row", {1, 3, 2, 150}, {4, 3, 1, 3}, options({1, 1, 1}, {0, 1, 0}), {}},
      {"padding behind", {1, 3, 5, 6}, {4, 3, 2, 3}, options({2, 1, 1}, {0, 1, 0}), {1, 2}},
      {"1d", {3, 1, 40}, {8, 1, 10}, options({5, 1, 1}, {}), {}},
      {"3d", {1, 3, 4, 5, 6}, {4, 3, 2, 3, 3}, options({1, 2, 1}, {1, 1, 1}), {}},
  };
  for (const Case& t : cases) check(t, DataType::bfloat16);
  for (Case t : {cases[0], cases[1]}) {
    check(t, DataType::float16);
    t.options.allow_tf32 = true;
    check(t, DataType::float32);
  }
}

// Several groups as one, whatever the device.
TEST(Conv, JoinsGroups) {
  const testing::Variable forced("DLPRIM_CONV", "groups");
  const auto padded = [](std::int64_t groups) { return options({1, 1, 1}, {1, 1, 0}, {1, 1, 1}, groups); };
  const std::vector<Case> cases{
      {"4 groups of 2", {2, 8, 6, 7}, {12, 2, 3, 3}, padded(4), {}},
      {"6 groups of 20: sets of 3", {1, 120, 4, 5}, {120, 20, 3, 3}, padded(6), {}},
      {"groups, channels last", {2, 16, 5, 5}, {8, 4, 3, 3}, padded(4), {}, true, true},
      {"groups, stride", {2, 8, 9, 7}, {8, 2, 3, 3}, options({2, 2, 1}, {1, 1, 0}, {1, 1, 1}, 4), {}},
  };
  for (Case t : cases) {
    check(t, DataType::bfloat16);
    t.options.allow_tf32 = true;
    check(t, DataType::float32);
  }
}

// What is not finite stays in its group: zeros times it are NaN.
TEST(Conv, JoinedGroupsKeepWhatIsNotFinite) {
  const testing::Variable forced("DLPRIM_CONV", "groups");
  const Sizes xs{2, 8, 5, 6}, ws{12, 2, 3, 3}, ys{2, 12, 3, 5};
  ConvOptions o{{2, 1, 1}, {1, 1, 0}, {1, 2, 1}, 4};
  o.allow_tf32 = true;
  for (const DataType type : {DataType::bfloat16, DataType::float16, DataType::float32})
    for (const bool last : {false, true}) {
      const Elements w(type, 216, 2), b(type, 12, 3), r(type, std::size_t(numel(ys)), 4);
      const TensorView weights = view(w, ws, last), bias(b.data(), type, {12}), residual = view(r, ys, last);
      auto forward = [&](const Elements& x) {
        const Elements y(type, std::size_t(numel(ys)), 5);
        conv_forward(queue(), view(x, xs, last), weights, bias, view(y, ys, last), o, Activation::relu, residual);
        return y.read();
      };
      auto data = [&](const Elements& dy) {
        const Elements dx(type, std::size_t(numel(xs)), 5);
        conv_backward_data(queue(), view(dy, ys, last), weights, {}, view(dx, xs, last), o);
        return dx.read();
      };
      // One element of group 1 of image 1 made infinite: only results of that image and group change.
      auto check_others = [&](const Sizes& in, const Sizes& out, auto&& compute) {
        const Elements input(type, std::size_t(numel(in)), 1);
        const std::vector<double> expected = compute(input);
        const std::int64_t per_group = in[1] / 4, place = (in[1] + per_group) * in[2] * in[3] + 7;
        const std::uint64_t infinity = encode(type, INFINITY);
        BufferRef spoilt = input.data();
        spoilt.offset += std::size_t(offset(place, in, strides(in, last))) * size_of(type);
        queue().write(spoilt, &infinity, size_of(type), true);
        const std::vector<double> result = compute(input);
        int changed = 0;
        for (std::int64_t i = 0; i < numel(out); i++) {
          const auto at = std::size_t(offset(i, out, strides(out, last)));
          const std::int64_t plane = i / (out[2] * out[3]), group = plane % out[1] / (out[1] / 4);
          if (plane / out[1] == 1 && group == 1) changed += !(result[at] == expected[at]);
          else ASSERT_NEAR(result[at], expected[at], 0.02 * std::abs(expected[at]) + 1e-3) << name(type) << i;
        }
        EXPECT_GT(changed, 0);
      };
      check_others(xs, ys, forward);
      check_others(ys, xs, data);
    }
}

// Residues of unlike numbers of taps.
TEST(Conv, StridesThatPassOverPositions) {
  check({"1x1 stride 2", {2, 8, 7, 9}, {8, 8, 1, 1}, options({2, 2, 1}, {0, 0, 0}), {}}, DataType::float32);
  check({"3x3 stride 4", {1, 3, 11, 13}, {4, 3, 3, 3}, options({4, 4, 1}, {1, 1, 0}), {}}, DataType::float32);
  check({"7x7 stride 2", {1, 4, 13, 12}, {8, 4, 7, 7}, options({2, 2, 1}, {3, 3, 0}), {}}, DataType::float32);
}

TEST(Conv, OtherTypes) {
  for (const DataType type : testing::floating_types())
    for (const int i : {1, 5, 13}) check(cases()[std::size_t(i)], type);
}

TEST(Conv, Depthwise) {
  for (const Case& t : depthwise_cases()) check(t, DataType::float32);
  for (const DataType type : testing::floating_types()) {
    check(depthwise_cases()[0], type);
    check(depthwise_cases()[4], type);  // strips of vectors on CPUs
  }
}

TEST(Conv, DepthwiseChannelsLast) {
  const testing::Variable forced("DLPRIM_CONV", "depthwise_last");
  for (const Case& t : depthwise_last_cases()) check(t, DataType::float32);
  for (const DataType type : testing::floating_types())
    for (const int i : {1, 4}) check(depthwise_last_cases()[std::size_t(i)], type);
}

// In the same pass, by implicit GEMM, and in one behind it.
TEST(Conv, ActivationsOfSums) {
  auto activate = [](Activation activation, double x) {
    switch (activation) {
      case Activation::relu: return std::max(x, 0.0);
      case Activation::relu6: return std::clamp(x, 0.0, 6.0);
      case Activation::gelu: return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
      case Activation::gelu_tanh: return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
      case Activation::silu: return x / (1 + std::exp(-x));
      case Activation::hardswish: return x * std::clamp(x + 3, 0.0, 6.0) / 6;
      case Activation::sigmoid: return 1 / (1 + std::exp(-x));
      case Activation::hardsigmoid: return std::clamp(x + 3, 0.0, 6.0) / 6;
      default: return x;
    }
  };
  const Sizes sizes{2, 4, 5, 6};
  const Elements x(DataType::float32, 240, 1), residual(DataType::float32, 240, 2);
  for (const std::int64_t groups : {1, 4}) {
    const Elements w(DataType::float32, std::size_t(16 / groups), 3), y(DataType::float32, 240, 4);
    auto run = [&](Activation activation, const TensorView& added) {
      conv_forward(queue(), view(x, sizes, false), view(w, {4, 4 / groups, 1, 1}, false), {}, view(y, sizes, false),
                   {{1, 1, 1}, {0, 0, 0}, {1, 1, 1}, groups}, activation, added);
      return y.read();
    };
    const std::vector<double> product = run(Activation::none, {});
    for (const Activation activation :
         {Activation::none, Activation::relu, Activation::relu6, Activation::gelu, Activation::gelu_tanh,
          Activation::silu, Activation::hardswish, Activation::sigmoid, Activation::hardsigmoid}) {
      const std::vector<double> result = run(activation, view(residual, sizes, false));
      for (std::size_t i = 0; i < result.size(); i++)
        ASSERT_NEAR(result[i], activate(activation, product[i] + residual.host(i)), 1e-5) << int(activation);
    }
  }
}

TEST(Conv, RefusesWrongChannels) {
  const Elements memory(DataType::float32, 1000, 1);
  const TensorView x(memory.data(), DataType::float32, {1, 3, 5, 5}), w(memory.data(), DataType::float32, {2, 4, 3, 3});
  const TensorView y(memory.data(), DataType::float32, {1, 2, 3, 3});
  EXPECT_THROW(conv_forward(queue(), x, w, {}, y, {}), ValidationError);
}

}  // namespace
}  // namespace dlprim
