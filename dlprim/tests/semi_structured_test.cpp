// SPDX-License-Identifier: MIT
#include <dlprim/primitives/semi_structured.hpp>

#include <algorithm>

#include "tensors.hpp"

namespace dlprim {
namespace {

using namespace testing;

using Values = std::vector<double>;

// Two of four at the most, one of two of float32.
Values sparse_values(std::int64_t rows, std::int64_t columns, bool halves) {
  Values values(std::size_t(rows * columns), 0.0);
  const auto numbers = random_floats(values.size(), 5);
  for (std::size_t i = 0; i < values.size(); i++) {
    const std::size_t four = i / 4, place = i % 4;
    const bool kept = halves ? place % 2 == four % 2 : place == four % 4 || place == (four / 4 + 1) % 4;
    if (kept) values[i] = std::round(numbers[i] * 50);
  }
  return values;
}

void there_and_back(DataType type, std::int64_t rows, std::int64_t columns, int word_bytes, bool interleaved) {
  SCOPED_TRACE(::testing::Message() << name(type) << " " << word_bytes << " " << interleaved);
  const Values values = sparse_values(rows, columns, type == DataType::float32);
  const DeviceTensor dense(type, {rows, columns}, values), kept(type, {rows, columns / 2}), out(type, {rows, columns}),
      words(DataType::uint8, {rows * columns / (type == DataType::float32 ? 4 : 8)});
  TwoOfFour matrix{type, rows, columns, kept.view().data, words.view().data, word_bytes, interleaved};
  compress(queue(), matrix, dense);
  expand(queue(), matrix, out);
  EXPECT_EQ(out.read(), values);
}

TEST(SemiStructured, SmallMatricesThereAndBack) {
  there_and_back(DataType::float16, 5, 48, 2, false);
  there_and_back(DataType::int8, 5, 48, 2, false);
  there_and_back(DataType::bfloat16, 32, 32, 2, true);
  there_and_back(DataType::float32, 32, 32, 2, true);
  there_and_back(DataType::int8, 16, 64, 4, true);
}

TEST(SemiStructured, SmallMasks) {
  const std::int64_t rows = 16, columns = 32;
  const auto numbers = random_floats(std::size_t(rows * columns), 7, 1, 2);
  const DeviceTensor dense(DataType::float16, {rows, columns}, Values(numbers.begin(), numbers.end())),
      masks(DataType::uint8, {rows / 8, columns / 8, 4, 2}), out(DataType::float16, {rows, columns}),
      kept(DataType::float16, {rows, columns / 2}), words(DataType::uint8, {rows * columns / 8});
  const TileMask mask{masks.view().data, columns / 8 * 8, 8};
  choose_tiles(queue(), dense, mask, false);
  apply_mask(queue(), out, dense, mask);
  const Values before = dense.read(), pruned = out.read();
  for (std::int64_t i = 0; i < rows; i += 4)
    for (std::int64_t j = 0; j < columns; j += 4) {
      int in_row[4] = {}, in_column[4] = {};
      double most = 0, most_kept = 0;
      for (std::int64_t k = 0; k < 16; k++) {
        const auto at = std::size_t((i + k / 4) * columns + j + k % 4);
        in_row[k / 4] += pruned[at] != 0, in_column[k % 4] += pruned[at] != 0;
        most = std::max(most, before[at]), most_kept = std::max(most_kept, pruned[at]);
      }
      EXPECT_LE(*std::max_element(in_row, in_row + 4), 2);
      EXPECT_LE(*std::max_element(in_column, in_column + 4), 2);
      EXPECT_EQ(most, most_kept);
    }
  const TwoOfFour matrix{DataType::float16, rows, columns, kept.view().data, words.view().data};
  compress(queue(), matrix, dense, &mask);
  expand(queue(), matrix, out);
  EXPECT_EQ(out.read(), pruned);
}

TEST(SemiStructured, WrongSizesAreNamed) {
  const DeviceTensor dense(DataType::float16, {4, 24});
  EXPECT_THROW(compress(queue(), {DataType::float16, 4, 24, dense.view().data, dense.view().data}, dense),
               ValidationError);
}

}  // namespace
}  // namespace dlprim
