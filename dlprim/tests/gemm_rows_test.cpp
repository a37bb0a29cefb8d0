// SPDX-License-Identifier: MIT
// Products by the core tma whose results have rows that the copy engine cannot store: they begin at multiples of 2, 4 or
// 8 bytes, at no multiple of anything, or end within what a warp stores.
#include "gemm/core.hpp"
#include "gemm_case.hpp"
#include "setting.hpp"

namespace dlprim {
namespace {

using namespace testing::products;
using testing::Variable;

// Some of the table's tiles; without Hopper's matrix units those that can be formed elsewhere.
std::vector<std::string> tiles(DataType type) {
  if (!testing::has_hopper_units() && type == DataType::float32) return {"64x128x32x64x64x2"};
  if (!testing::has_hopper_units()) return {"64x96x64x64x96x2", "128x128x64x128x64x2"};
  std::vector<std::string> all;
  const char* table = type == DataType::float32 ? "tma.tf32" : "tma.16bit";
  const std::vector<TileShape> known = read_tiles(testing::device().info(), table, "tma").shapes;
  for (std::size_t i = 0; i < known.size(); i += 5) {
    const std::string text = text_of(known[i]);
    all.push_back(text.substr(0, text.rfind('x')));  // the table's own, as many of them on a unit as it says
  }
  return all;
}

void check_rows(DataType type, std::optional<DataType> result = {}) {
  const Variable forced("DLPRIM_GEMM", "tma");
  int number = 0;
  for (const std::string& text : tiles(type)) {
    SCOPED_TRACE(text);
    const Variable tile("DLPRIM_GEMM_TILE", text.c_str());
    const auto run = [&](Case t) {
      t.b_transposed = t.allow_tf32 = true;
      if (number++ % 3 == 0 || !testing::builds_slowly()) check(t, type, result);
    };
    if (testing::has_hopper_units()) run({1, 2000, 2051, 72});  // several tiles for a work-group
    run({1, 136, 201, 72});
    run({3, 72, 265, 40, false, true, false, 0, 0, 0.5, -2, Activation::relu, true});
    run({2, 64, 70, 64, false, true, false, 0, 0, 1, 1, Activation::gelu});
    run({2, 130, 66, 72, false, true, false, 8, 8});
    run({1, 70, 130, 72, false, true, false, 8, 1});
    run({1, 40, 1, 72}), run({1, 1, 3, 72}), run({1, 65, 2, 8});
    const Variable split("DLPRIM_GEMM_SPLIT", "2");
    run({2, 136, 131, 328, false, true, false, 0, 0, 1, 1});
  }
}

TEST(GemmRows, HalvesBeginAnywhere) { check_rows(DataType::float16); }
TEST(GemmRows, BFloat16BeginsAnywhere) { check_rows(DataType::bfloat16); }
TEST(GemmRows, FloatsBeginAnywhere) { check_rows(DataType::float32); }
TEST(GemmRows, FloatsOfHalvesBeginAnywhere) { check_rows(DataType::bfloat16, DataType::float32); }

TEST(GemmRows, WideIndexes) {
  const Variable forced("DLPRIM_GEMM", "tma"), tile("DLPRIM_GEMM_TILE", tiles(DataType::bfloat16)[0].c_str());
  const std::int64_t limit = settings.index_limit;
  settings.index_limit = 100;
  check({2, 72, 137, 72, false, true}, DataType::bfloat16);
  settings.index_limit = limit;
}

}  // namespace
}  // namespace dlprim
