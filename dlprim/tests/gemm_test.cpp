// SPDX-License-Identifier: MIT
#include <random>
#include <thread>

#include "../tuning/store.hpp"
#include "gemm/core.hpp"
#include "gemm_case.hpp"
#include "setting.hpp"
#include "tensor_map.hpp"

namespace dlprim {
namespace {

using testing::Elements;
using testing::queue;

using namespace testing::products;

std::vector<Case> edge_cases() {
  std::vector<Case> cases;
  const std::int64_t sizes[][3] = {{1, 1, 1},     {1, 7, 5},      {7, 1, 300},   {13, 17, 19},
                                   {64, 96, 256}, {63, 95, 255},  {65, 97, 257}, {127, 129, 9},
                                   {128, 128, 8}, {130, 33, 513}, {4, 200, 1},   {16, 64, 20}};
  int number = 0;
  for (const auto& s : sizes)
    for (const bool at : {false, true})
      for (const bool bt : {false, true}) {
        Case t{1, s[0], s[1], s[2], at, bt};
        t.c_transposed = number % 5 == 4, t.gap = number % 3, t.offset = number % 4;
        if (number % 2) t.alpha = 0.5, t.beta = -2, t.broadcast_addend = number % 3 == 0;
        number++;
        cases.push_back(t);
      }
  cases.push_back({3, 33, 20, 40, false, true});
  cases.push_back({1, 8, 50, 70, false, true});
  cases.push_back({1, 33, 6, 40, false, true, false, 1, 2, 1, 1});
  cases.push_back({3, 16, 40, 24, true, false, false, 0, 0, 1, 1, Activation::relu, true, true});
  cases.push_back({2, 9, 40, 24, false, false, false, 0, 0, 1, 1, Activation::gelu});
  cases.push_back({2, 9, 40, 24, false, false, false, 0, 0, 1, 0, Activation::gelu_tanh});
  cases.push_back({1, 5, 6, 0, false, false, false, 0, 0, 1, 3});
  cases.push_back({1, 5, 6, 0});
  cases.push_back({1, 0, 6, 4});
  cases.push_back({0, 3, 6, 4});
  cases.push_back({1, 3, 5, 100003});
  cases.push_back({1, 64, 64, 5000, true, false, false, 0, 0, 1, 1});
  return cases;
}

// The mma core takes float32 and 16-bit types; where it is emulated, which is slow, one of the latter stands for both.
bool mma_type(DataType type) {
  return type == DataType::float32 || type == DataType::bfloat16 ||
         (type == DataType::float16 && testing::device().info().nv_inline_ptx);
}

// The cores of all floating types, or those of Intel's and AMD's matrix units; those for other types and for tf32 have
// tests of their own.
std::vector<const char*> core_names(bool matrix_units) {
  std::vector<const char*> names;
  for (const GemmCore* core : all_gemm_cores().all())
    if (const std::string_view name = core->name; name != "dot" && name != "pairs" && name != "integers" &&
                                                  name != "tma_registers" && !name.starts_with("matrix_bytes"))
      if (name.starts_with("matrix") == matrix_units) names.push_back(core->name);
  return names;
}

class GemmCandidate : public ::testing::TestWithParam<const char*> {};

TEST_P(GemmCandidate, AgreesWithHostOnEdgeCases) {
  const testing::Variable forced("DLPRIM_GEMM", GetParam());
  const bool emulated = std::string(GetParam()).ends_with("mma") && !testing::device().info().nv_inline_ptx;
  const bool slow = emulated || testing::builds_slowly();
  const bool gemv = std::string(GetParam()) == "gemv",
             few_rows = gemv || std::string(GetParam()) == "thin" || std::string(GetParam()) == "skinny";
  int number = 0;
  for (const DataType type : testing::floating_types())
    for (const Case& t : edge_cases()) {
      if (std::string(GetParam()) == "mma" && !mma_type(type)) continue;
      if (std::string(GetParam()) == "wgmma" && type == DataType::float64) continue;
      if (std::string(GetParam()) == "tma" && type != DataType::bfloat16) continue;
      if (t.k > 1000 && (type != DataType::float32)) continue;
      if (few_rows && std::min(t.m, t.n) > 8) continue;  // another candidate's
      // The emulation of matrix units takes seconds to build kernels for a case: a third of them there, and of
      // gemv, which GemmOfFewRows covers.
      if (emulated && t.k > 10000) continue;
      if ((slow || (gemv && testing::device().info().cpu)) && number++ % 3) continue;
      check(t, type);
    }
}

// Vectors and matrices in either order, even and odd distances: cores for matrix units read them in pairs where they can.
class GemmWithAddend : public GemmCandidate {};

TEST_P(GemmWithAddend, OfEveryLayout) {
  const testing::Variable forced("DLPRIM_GEMM", GetParam());
  constexpr std::int64_t m = 40, n = 72;
  const Layout layouts[] = {{0, 1, 0, 0},     {0, 1, n, 1},     {0, 1, n + 1, 0},     {1, 0, 0, 0},
                            {0, 1, n, 0},     {1, 0, m, 1},     {0, 0, 1, 0},         {n, 1, m * n, 0},
                            {n, 1, m * n, 1}, {n + 1, 1, 0, 0}, {n + 2, 1, n * m, 2}, {1, m, m * n, 0},
                            {1, m + 1, 0, 0}};
  for (const bool c_transposed : {false, true})
    for (const Layout& layout : layouts)
      check({2, m, n, 64, false, true, c_transposed, 0, 0, 1, 0.5, Activation::relu}, DataType::bfloat16, {}, layout);
}

// Few enough elements for a simulated device; what a candidate cannot take here goes to the next one.
TEST_P(GemmCandidate, Small) {
  const testing::Variable forced("DLPRIM_GEMM", GetParam());
  check({2, 9, 21, 11, true, false, false, 0, 0, 1, 1, Activation::relu}, DataType::float32);
  check({1, 18, 7, 40, false, true}, DataType::bfloat16);
}

// Results of 16-bit floats in the type of their sums, which keep what rounding would lose.
TEST_P(GemmCandidate, WideResults) {
  const testing::Variable forced("DLPRIM_GEMM", GetParam());
  check({1, 18, 7, 40, false, true}, DataType::bfloat16, DataType::float32);
  check({2, 40, 72, 64, false, false, false, 0, 0, 0.5, -2, Activation::relu}, DataType::bfloat16, DataType::float32);
  check({1, 33, 24, 48, true, false, true, 1, 1}, DataType::bfloat16, DataType::float32);
  check({1, 5, 9, 3000, false, false, false, 0, 0, 1, 1}, DataType::float16, DataType::float32);
}

// Rows that pieces of 16, 8 and 4 bytes divide or not, lanes and columns past the end, splits of long sums.
class GemmOfFewRows : public GemmCandidate {};

TEST_P(GemmOfFewRows, AgreesWithHost) {
  const testing::Variable forced("DLPRIM_GEMM", GetParam());
  for (const DataType type : testing::floating_types()) {
    for (const bool transposed : {false, true}) {
      check({1, 1, 136, 328, false, transposed}, type);
      check({1, 251, 1, 1028, transposed}, type);
      check({2, 3, 66, 131, !transposed, transposed, false, 0, 0, 0.5, -2, Activation::relu, true}, type);
      check({1, 8, 72, 648, false, transposed, transposed, 0, 8}, type);
    }
    check({3, 5, 40, 264, false, false, false, 0, 0, 1, 1, Activation::gelu, false, true}, type);
    check({1, 2, 9, 30000, false, true, false, 8, 0, 1, 3, Activation::relu, true}, type);
    check({1, 2, 24, 30000, false, false, true, 0, 0, 2, 1}, type);
  }
}

// Splitting numbers in parts must not make NaN of infinities, nor lose a NaN.
TEST_P(GemmCandidate, KeepsInfinitiesAndNaNs) {
  const testing::Variable forced("DLPRIM_GEMM", GetParam());
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> rows_of_a{1, infinity, 3, 2, 5, -infinity, 1, 2, nan, 1, 1e38f, 0, 1e38f, 0, 0, 1};
  testing::DeviceVector<float> a(rows_of_a), b({1, 2, 0.5, 1}), c(std::vector<float>(4));
  gemm(queue(), TensorView(a.data(), DataType::float32, std::vector<std::int64_t>{4, 4}),
       TensorView(b.data(), DataType::float32, std::vector<std::int64_t>{4, 1}),
       TensorView(c.data(), DataType::float32, std::vector<std::int64_t>{4, 1}));
  const auto result = c.read();
  EXPECT_EQ(result[0], infinity);
  EXPECT_EQ(result[1], -infinity);
  EXPECT_TRUE(std::isnan(result[2]));
  EXPECT_FLOAT_EQ(result[3], 1e38f);
}

// tf32 keeps 10 bits of an operand, which must not happen unless it is allowed.
class GemmTf32 : public ::testing::TestWithParam<const char*> {};

TEST_P(GemmTf32, RoundsOnlyWhenAllowed) {
  const testing::Variable forced("DLPRIM_GEMM", GetParam());
  const std::int64_t size = 40, m = std::string(GetParam()) == "skinny" ? 8 : size;
  GemmProblem problem;
  auto& p = problem.p;
  problem.type = DataType::float32, problem.allow_tf32 = true;
  p.m = m, p.n = p.k = p.a_m = p.b_n = size, p.a_k = p.b_k = 1;
  const GemmCore* core = all_gemm_cores().find(GetParam());
  if (const char* reason = core->decline(testing::device(), problem, true)) GTEST_SKIP() << reason;
  const Elements a(DataType::float32, m * size, 1), b(DataType::float32, size * size, 2);
  const Elements exact(DataType::float32, m * size, 3), rounded(DataType::float32, m * size, 3);
  auto run = [&](const Elements& c, bool allow_tf32) {
    const Layout l = rows(m, size), by_columns = columns(size, size);
    GemmOptions options;
    options.allow_tf32 = allow_tf32;
    gemm(queue(), l.view(a, 1, m, size), by_columns.view(b, 1, size, size), l.view(c, 1, m, size), options);
  };
  run(exact, false);
  run(rounded, true);
  const auto x = exact.read(), y = rounded.read();
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < x.size(); i++) difference += (x[i] - y[i]) * (x[i] - y[i]), norm += x[i] * x[i];
  EXPECT_GT(difference, 1e-10 * norm);
  EXPECT_LT(difference, 1e-6 * norm);
}

INSTANTIATE_TEST_SUITE_P(All, GemmTf32, ::testing::Values("mma", "skinny", "wgmma", "tma"),
                         [](const auto& candidate) { return std::string(candidate.param); });
INSTANTIATE_TEST_SUITE_P(All, GemmWithAddend, ::testing::Values("mma", "wgmma", "tma"),
                         [](const auto& candidate) { return std::string(candidate.param); });
INSTANTIATE_TEST_SUITE_P(All, GemmCandidate, ::testing::ValuesIn(core_names(false)),
                         [](const auto& candidate) { return std::string(candidate.param); });

// Slices of k dealt out across tiles: work-groups that end a tile and begin the next, tiles of many work-groups.
class GemmStreamK : public GemmCandidate {};

TEST_P(GemmStreamK, AgreesWithHost) {
  const testing::Variable forced("DLPRIM_GEMM", GetParam()), stream("DLPRIM_GEMM_SPLIT", "stream");
  const DataType type = std::string(GetParam()).starts_with("matrix") ? DataType::bfloat16 : DataType::float32;
  check({1, 200, 140, 300, false, false, false, 1, 1, 0.5, -2, Activation::relu}, type);
  check({3, 70, 33, 95, true, true, false, 0, 0, 1, 1}, type);
  check({1, 40, 45, 3001, false, true}, type);
  if (std::string(GetParam()) == "tiled") check({1, 3, 5, 20000}, DataType::float16);
  if (std::string(GetParam()) == "mma") check({2, 64, 96, 256, false, true}, DataType::bfloat16);
}

INSTANTIATE_TEST_SUITE_P(All, GemmStreamK, ::testing::Values("tiled", "mma", "matrix_intel16"),
                         [](const auto& candidate) { return std::string(candidate.param); });

// Boxes that a tensor map describes: either direction contiguous, rows and sums that end within a box, batches, several
// tiles for a work-group, splits, every way to finish, operands that begin in the middle of a memory.
class GemmOfTensorMaps : public ::testing::TestWithParam<const char*> {};

TEST_P(GemmOfTensorMaps, AgreesWithHost) {
  const testing::Variable forced("DLPRIM_GEMM", "tma"), tile("DLPRIM_GEMM_TILE", GetParam());
  int number = 0;
  const auto check_some = [&](const Case& t, DataType type) {
    if (number++ % 4 == 0 || !testing::builds_slowly()) check(t, type);
  };
  for (const bool at : {false, true})
    for (const bool bt : {false, true}) {
      check_some({1, 136, 200, 72, at, bt}, DataType::bfloat16);
      check_some({3, 72, 264, 136, at, bt, false, 8, 8, 0.5, -2, Activation::relu, true}, DataType::float16);
    }
  check_some({1, 40, 8, 1}, DataType::bfloat16);
  check_some({2, 64, 70, 64, false, true, false, 0, 8, 1, 1, Activation::gelu, false, true}, DataType::bfloat16);
  check_some({1, 65, 33, 200, false, true, true, 0, 16}, DataType::float16);
  check_some({2, 72, 40, 75, false, false, false, 3, 1, 1, 1}, DataType::bfloat16);  // copied
  check_some({1, 72, 24, 3000, true, true, false, 0, 0, 2, 3, Activation::relu}, DataType::bfloat16);
  const testing::Variable split("DLPRIM_GEMM_SPLIT", "2");
  check_some({2, 136, 136, 328, false, true, false, 0, 0, 1, 1}, DataType::bfloat16);
}

TEST_P(GemmOfTensorMaps, CopiesRowsThatBeginAnywhere) {
  const testing::Variable forced("DLPRIM_GEMM", "tma"), tile("DLPRIM_GEMM_TILE", GetParam());
  tuning::set(testing::device().info(), "gemm.tma.misaligned", {"1e9 1e9"});
  check({1, 136, 200, 72, false, true}, DataType::bfloat16);
  check({2, 72, 136, 200, true, false, false, 8, 8, 1, 1}, DataType::bfloat16);
  tuning::forget(testing::device().info(), "gemm.tma.misaligned");
}

TEST_P(GemmOfTensorMaps, WideIndexes) {
  const testing::Variable forced("DLPRIM_GEMM", "tma"), tile("DLPRIM_GEMM_TILE", GetParam());
  const std::int64_t limit = settings.index_limit;
  settings.index_limit = 100;
  check({2, 72, 136, 72, false, true}, DataType::bfloat16);
  settings.index_limit = limit;
}

INSTANTIATE_TEST_SUITE_P(All, GemmOfTensorMaps, ::testing::Values("64x128x64x64x64x2", "128x128x64x128x64x2"),
                         [](const auto& tile) { return std::string(tile.param); });

// More tiles than units, which two groups of four warps take in turns on Hopper.
TEST(Gemm, TilesInTurns) {
  const testing::Variable forced("DLPRIM_GEMM", "tma");
  if (testing::device().info().nv_compute_capability != 90) GTEST_SKIP() << "only for Hopper";
  for (const char* shape : {"128x128x32x128x128x6", "128x192x32x128x192x4"}) {
    const testing::Variable tile("DLPRIM_GEMM_TILE", shape);
    check({700, 8, 16, 40, false, true, false, 0, 0, 1, 0, Activation::none, false, false, true}, DataType::float32);
    check({70, 100, 136, 72, false, true, false, 0, 0, 1, 1, Activation::none, true, false, true}, DataType::float32);
  }
  for (const char* shape : {"128x128x64x128x128x6", "128x192x64x128x192x4"}) {
    const testing::Variable tile("DLPRIM_GEMM_TILE", shape);
    check({700, 8, 16, 72, false, true}, DataType::bfloat16);
    check({70, 100, 136, 136, true, false, false, 0, 0, 1, 1, Activation::relu, true}, DataType::float16);
    check({140, 100, 70, 72, false, true, false, 0, 0, 1, 1, Activation::gelu}, DataType::bfloat16);
    const testing::Variable split("DLPRIM_GEMM_SPLIT", "2");
    check({70, 40, 136, 328, false, true, false, 0, 0, 1, 1}, DataType::bfloat16);
  }
}

// Boxes of which a tile uses a part, where rows are contiguous.
TEST(Gemm, TilesBetweenPowersOfTwo) {
  const testing::Variable forced("DLPRIM_GEMM", "tma"), tile("DLPRIM_GEMM_TILE", "64x96x64x64x96x2");
  check({1, 72, 200, 136, false, true}, DataType::bfloat16);
  check({1, 136, 264, 72, true, false, false, 0, 0, 1, 1, Activation::gelu, true}, DataType::float16);
}

// As cuTensorMapEncodeTiled of NVIDIA's driver writes it, for dimensions of columns, rows and steps through memory.
TEST(Gemm, TensorMapsAreThoseOfTheDriver) {
  const MatrixInMemory matrix{4096, 2048, 8192, 2, 128};
  EXPECT_EQ(tensor_map(matrix).words,
            (std::array<std::uint32_t, 32>{0, 0, 0x46530, 0x200, 0x10000, 1, 0, 0, 0xfff, 0x7ff, 0xfffffff, 0xffff, 0,
                                           0x3f000000, 0x7f, 0, 0x4000, 0, 0x400}));
  const MatrixInMemory long_rows{4096, 2048, (std::int64_t(1) << 40) - 16, 4, 128};
  const auto words = tensor_map(long_rows).words;
  EXPECT_EQ(words[2], 0x463b0u);
  EXPECT_EQ(words[3], 0xffffffffu);
  EXPECT_EQ(words[7], 0xfu);
  EXPECT_EQ(words[13], 0x1f000000u);
  EXPECT_TRUE(can_be_mapped(matrix));
  EXPECT_FALSE(can_be_mapped({4096, 2048, 8200, 2, 128}));
  EXPECT_FALSE(can_be_mapped({4096, 2048, 0, 2, 128}));
  EXPECT_FALSE(can_be_mapped({4096, 2048, -8192, 2, 128}));
}

// Operands that have to be copied, more matrices than a launch has work-groups along its third dimension.
TEST(Gemm, TensorMapsDeclineWhatCannotBeCopied) {
  GemmProblem problem;
  problem.type = DataType::bfloat16, problem.batches = 65536;
  auto& p = problem.p;
  p.m = p.n = 264, p.k = 260, p.a_m = 260, p.a_k = 1, p.b_n = 264, p.b_k = 1, p.a_batch = 264 * 260;
  const GemmCore& core = *all_gemm_cores().find("tma");
  const auto reason = [&] {
    const char* text = core.decline(testing::device(), problem, true);
    return std::string(text ? text : "");
  };
  EXPECT_EQ(reason(), "too many matrices to be copied");
  problem.batches = 65535;
  EXPECT_NE(reason(), "too many matrices to be copied");
  problem.batches = 65536, p.a_batch = 0;  // one matrix for all
  EXPECT_NE(reason(), "too many matrices to be copied");
  p.a_batch = 264 * 264, p.a_m = 264;  // rows of whole chunks
  EXPECT_NE(reason(), "too many matrices to be copied");
}

// Units of Intel and AMD: their layouts, emulated by sub-groups where the device has no such unit. Products of every
// tile's edge, operands along k or not, in pieces of 16 bytes or less, split sums.
class GemmOnMatrixUnits : public GemmCandidate {};

TEST_P(GemmOnMatrixUnits, AgreesWithHost) {
  GemmProblem problem;
  problem.type = DataType::bfloat16, problem.p.k = 1;
  const GemmCore* core = all_gemm_cores().find(GetParam());
  if (const char* reason = core->decline(testing::device(), problem, true)) GTEST_SKIP() << reason;
  const testing::Variable forced("DLPRIM_GEMM", GetParam());
  check({1, 33, 31, 65, false, false, false, 1, 1, 0.5, -2, Activation::relu}, DataType::bfloat16);
  check({2, 64, 48, 72, false, true}, DataType::float16);
  check({1, 40, 64, 40, true, false, false, 0, 0, 1, 1, Activation::gelu, true}, DataType::bfloat16);
  check({1, 16, 24, 100, true, true, true, 4}, DataType::bfloat16);
  check({1, 1, 1, 1}, DataType::float16);
  check({1, 20, 18, 3000}, DataType::bfloat16);
  check({2, 33, 31, 65, false, true, false, 1, 1, 0.5, -2}, DataType::bfloat16, DataType::float32);
}

INSTANTIATE_TEST_SUITE_P(All, GemmOnMatrixUnits, ::testing::ValuesIn(core_names(true)),
                         [](const auto& candidate) { return std::string(candidate.param); });
INSTANTIATE_TEST_SUITE_P(All, GemmOfFewRows, ::testing::Values("thin", "gemv"),
                         [](const auto& candidate) { return std::string(candidate.param); });

// Rows that fill tiles or not, on either side; columns past the end; k shorter than a step, and in splits.
TEST(Gemm, FewRowsOnMatrixUnits) {
  GemmProblem problem;
  problem.type = DataType::bfloat16;
  auto& p = problem.p;
  p.m = 8, p.n = 64, p.k = p.a_m = p.b_n = 64, p.a_k = p.b_k = 1;
  const GemmCore* core = all_gemm_cores().find("skinny");
  if (const char* reason = core->decline(testing::device(), problem, true)) GTEST_SKIP() << reason;
  p.b_n = 68;
  EXPECT_NE(core->decline(testing::device(), problem, true), nullptr) << "pieces are not aligned";
  const testing::Variable forced("DLPRIM_GEMM", "skinny");
  for (const DataType type : {DataType::bfloat16, DataType::float16, DataType::float32}) {
    check({1, 8, 72, 648, false, true}, type), check({1, 13, 24, 264, false, true}, type);
    check({1, 200, 19, 40, false, true, true, 8, 8, 0.5, -2, Activation::relu, true}, type);
    if (testing::builds_slowly()) return;
    check({2, 3, 33, 8, false, true, false, 0, 0, 1, 1, Activation::gelu}, type);
    check({1, 32, 130, 4096, false, true, false, 16}, type);
    check({3, 17, 16, 1032, false, true, false, 0, 8, 1, 0, Activation::none, false, true}, type);
  }
}

TEST(Gemm, MeasuresTilesOnRequest) {
  static int runs = 0;
  GemmProblem problem;
  problem.p.m = 1000 + std::int64_t(std::random_device()() % 1000000), problem.p.n = 77, problem.p.k = 500;
  auto choose = [&] {
    runs = 0;
    const TileTable tiles = read_tiles(testing::device().info(), "tiled.float32", "tiled");
    auto run = [](Queue&, const GemmProblem&, const TileChoice& choice) {
      runs++;
      std::this_thread::sleep_for(std::chrono::milliseconds(choice.shape.bm == 64 && choice.splits == 1 ? 1 : 3));
    };
    return choose_tile(queue(), *all_gemm_cores().find("tiled"), problem, tiles, run);
  };
  const TileChoice estimated = choose();
  EXPECT_EQ(runs, 0) << "nothing is measured without being asked for";
  EXPECT_EQ(choose().shape.bm, estimated.shape.bm);
  {
    const testing::Setting measuring(settings.benchmark);
    const TileChoice measured = choose();
    EXPECT_GT(runs, 0);
    EXPECT_EQ(std::pair(int(measured.shape.bm), measured.splits), std::pair(64, std::int64_t(1)));
    choose();
    EXPECT_EQ(runs, 0) << "what was measured is remembered";
  }
  EXPECT_EQ(choose().shape.bm, 64);
  EXPECT_EQ(runs, 0);
}

TEST(Gemm, Integers) {
  for (const char* candidate : {"reference", "gemv", "integers"}) {
    const testing::Variable forced("DLPRIM_GEMM", candidate);
    for (const DataType type : {DataType::int64, DataType::int32, DataType::int16, DataType::int8, DataType::uint8}) {
      if (size_of(type) > 1) {
        check({1, 65, 64, 7}, type);
        check({3, 33, 100, 40, true, true, true, 3, 1}, type);
      }
      check({2, 13, 17, 3, true}, type);
      check({1, 4, 5, 6, false, true, false, 1, 1, 2, 3}, type);
    }
    check({1, 4, 16, 800}, DataType::int32);
  }
}

// As quotient() of gemm/operands.clh does it.
TEST(Gemm, DivisionByMultiplication) {
  const std::int64_t largest = (std::int64_t(1) << 31) - 1;
  using List = std::initializer_list<std::int64_t>;
  for (const std::int64_t by : List{1, 2, 3, 5, 7, 8, 9, 13, 56, 111, 641, 1024, 65535, 65537, 1 << 30, largest})
    for (const std::int64_t near : List{0, by, 7 * by, 1000 * by, largest / by * by, largest})
      for (std::int64_t x = near - 2; x <= near + 2; x++) {
        if (x < 0 || x > largest) continue;
        const Divisor<std::int32_t> d = std::int32_t(by);
        const std::uint32_t magic = std::uint32_t(d.magic), high = std::uint32_t(std::uint64_t(x) * magic >> 32);
        ASSERT_EQ((high + std::uint32_t(x)) >> d.shift, x / by) << x << " / " << by;
      }
}

// Words along k or not, whole or not, sizes at the tile's edges; what only other cores take, too.
TEST(Gemm, BytesWithInt32Results) {
  for (const char* candidate : {"dot", "floats", "byte_dot", "matrix_bytes8", "matrix_bytes16", "gemv", "reference"}) {
    const testing::Variable forced("DLPRIM_GEMM", candidate);
    for (const DataType type : {DataType::int8, DataType::uint8}) {
      check({1, 64, 65, 32, false, true}, type, DataType::int32);
      check({2, 63, 130, 41, true, false, false, 1, 3, 2, -1}, type, DataType::int32);
      check({1, 5, 70, 700, false, true, true, 4}, type, DataType::int32);
      check({1, 3, 4, 1}, type, DataType::int32);
      check({1, 33, 20, 7, true, true}, type);
    }
    check({1, 2, 3, 40000}, DataType::int8, DataType::int32);
    check({1, 2, 3, 0, false, false, false, 0, 0, 1, 3}, DataType::int8, DataType::int32);
  }
}

// Sums longer than float32 is exact for, of the largest products.
TEST(Gemm, LongSumsOfBytesAreExact) {
  const std::int64_t m = 9, k = 2500, n = 10;
  const auto check_filled = [&](auto filled, DataType type) {
    const std::vector<decltype(filled)> a(std::size_t(m * k), filled), b(std::size_t(k * n), filled);
    testing::DeviceVector<decltype(filled)> da(a), db(b);
    testing::DeviceVector<std::int32_t> c(std::size_t(m * n));
    gemm(testing::queue(), {da.data(), type, {m, k}}, {db.data(), type, {k, n}}, {c.data(), DataType::int32, {m, n}});
    EXPECT_EQ(c.read(), std::vector<std::int32_t>(std::size_t(m * n), std::int32_t(k * filled * filled)));
  };
  for (const char* candidate : {"floats", "byte_dot"}) {
    const testing::Variable forced("DLPRIM_GEMM", candidate);
    check_filled(std::int8_t(-128), DataType::int8);
    check_filled(std::int8_t(127), DataType::int8);
    check_filled(std::uint8_t(255), DataType::uint8);
  }
}

// On a device of Intel that lists the extension, with the sub-groups that the core is for, and on no other.
TEST(Gemm, BytesOnMatrixUnitsWhereTheyAre) {
  GemmProblem problem;
  problem.type = DataType::int8, problem.p.m = problem.p.n = problem.p.k = 64;
  DeviceInfo info = testing::device().info();
  info.gpu = true, info.cpu = false, info.vendor = Vendor::intel, info.warp = 16;
  info.max_work_group = 512, info.local_memory = 65536;
  info.extensions = "cl_intel_subgroups cl_intel_required_subgroup_size";
  auto takes = [&](const char* name) {
    const Device& device = *new Device(0, testing::device().id(), info);  // devices are never destroyed
    return all_gemm_cores().find(name)->decline(device, problem, false) == nullptr;
  };
  EXPECT_FALSE(takes("matrix_bytes16"));
  info.extensions += " cl_intel_subgroup_matrix_multiply_accumulate";
  EXPECT_TRUE(takes("matrix_bytes16"));
  EXPECT_FALSE(takes("matrix_bytes8"));
  info.warp = 8;
  EXPECT_TRUE(takes("matrix_bytes8"));
  problem.p.k = longest_of_bytes + 1;
  EXPECT_FALSE(takes("matrix_bytes8"));
}

TEST(Gemm, IntegersInSplitSums) {
  const testing::Variable forced("DLPRIM_GEMM", "gemv");
  for (const DataType type : {DataType::int64, DataType::int32}) check({1, 2, 9, 30000, false, true}, type);
}

void check_complex(std::int64_t k) {
  const std::int64_t m = 3, n = 40;
  using Number = std::complex<float>;
  auto numbers = [](std::int64_t size, unsigned seed) {
    const auto parts = testing::random_floats(std::size_t(2 * size), seed);
    std::vector<Number> values;
    for (std::size_t i = 0; i < parts.size(); i += 2) values.emplace_back(parts[i], parts[i + 1]);
    return values;
  };
  const auto a = numbers(m * k, 1), b = numbers(k * n, 2);
  const testing::DeviceVector<Number> da(a), db(b), dc(std::size_t(m * n));
  for (const char* candidate : {"reference", "gemv", "pairs"})
    for (const bool transposed : {false, true}) {
      const testing::Variable forced("DLPRIM_GEMM", candidate);
      const std::int64_t row = transposed ? 1 : n, column = transposed ? k : 1;
      gemm(queue(), TensorView(da.data(), DataType::complex64, std::vector<std::int64_t>{m, k}),
           TensorView(db.data(), DataType::complex64, std::vector<std::int64_t>{k, n},
                      std::vector<std::int64_t>{row, column}),
           TensorView(dc.data(), DataType::complex64, std::vector<std::int64_t>{m, n}));
      const auto c = dc.read();
      for (std::int64_t i = 0; i < m; i++)
        for (std::int64_t j = 0; j < n; j++) {
          std::complex<double> sum = 0;
          for (std::int64_t l = 0; l < k; l++)
            sum += std::complex<double>(a[std::size_t(i * k + l)] * b[std::size_t(l * row + j * column)]);
          ASSERT_LT(std::abs(std::complex<double>(c[std::size_t(i * n + j)]) - sum), 1e-4 + 1e-7 * double(k))
              << candidate << " " << i << " " << j;
        }
    }
}

TEST(Gemm, ComplexNumbers) { check_complex(70); }

TEST(Gemm, ComplexNumbersInSplitSums) { check_complex(30000); }

TEST(Gemm, RefusesMismatchedOperands) {
  const Elements memory(DataType::float32, 100, 1);
  const TensorView a(memory.data(), DataType::float32, {3, 4}), b(memory.data(), DataType::float32, {5, 4});
  EXPECT_THROW(gemm(queue(), a, b, TensorView(memory.data(), DataType::float32, {3, 4})), ValidationError);
  const TensorView h(memory.data(), DataType::float16, {4, 4});
  EXPECT_THROW(gemm(queue(), a, h, TensorView(memory.data(), DataType::float32, {3, 4})), ValidationError);
}

}  // namespace
}  // namespace dlprim
