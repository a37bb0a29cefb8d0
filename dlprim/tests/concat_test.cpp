// SPDX-License-Identifier: MIT
#include <dlprim/primitives/concat.hpp>
#include <dlprim/primitives/range.hpp>

#include "testing.hpp"

namespace dlprim {
namespace {

using testing::DeviceVector;
using testing::queue;

// 11 inputs of the widths given by `width(k)`, joined along the middle of three dimensions.
void joins(std::int64_t inner, std::int64_t (*width)(int), std::int64_t rows = 3) {
  std::vector<DeviceVector<float>> memory;
  std::vector<std::vector<float>> host;
  std::vector<TensorView> inputs;
  std::int64_t total = 0;
  for (int k = 0; k < 11; k++) {
    const std::int64_t w = width(k);
    host.push_back(testing::random_floats(std::size_t(rows * w * inner), unsigned(k + 1)));
    memory.emplace_back(host.back());
    inputs.push_back({memory.back().data(), DataType::float32, {rows, w, inner}});
    total += w;
  }
  DeviceVector<float> out(std::size_t(rows * total * inner));
  concat(queue(), {out.data(), DataType::float32, {rows, total, inner}}, inputs, 1);
  std::vector<float> expected;
  for (std::int64_t row = 0; row < rows; row++)
    for (int k = 0; k < 11; k++) {
      const auto begin = host[std::size_t(k)].begin() + row * width(k) * inner;
      expected.insert(expected.end(), begin, begin + width(k) * inner);
    }
  EXPECT_EQ(out.read(), expected);
}

TEST(Concat, JoinsDenseTensors) {
  joins(1, [](int k) { return std::int64_t(k % 3); });
  joins(4, [](int k) { return std::int64_t(k + 1); });
  joins(3, [](int k) { return std::int64_t(5 * k); });
  joins(3, [](int k) { return std::int64_t(900 + k); });  // CPUs copy these one by one
  for (const std::int64_t inner : {1, 3, 4}) joins(inner, [](int k) { return std::int64_t(1 + k % 3 * 200); }, 1);
}

TEST(Concat, ConvertsAndTakesStrides) {
  DeviceVector<std::int32_t> a(std::vector<std::int32_t>{1, 2, 3, 4});
  DeviceVector<float> b(std::vector<float>{5, 6}), out(6);
  const std::int64_t sizes[] = {2, 2}, strides[] = {1, 2};
  const TensorView inputs[] = {{a.data(), DataType::int32, std::span(sizes), std::span(strides)},
                               {b.data(), DataType::float32, {2, 1}}};
  concat(queue(), {out.data(), DataType::float32, {2, 3}}, inputs, 1);
  EXPECT_EQ(out.read(), (std::vector<float>{1, 3, 5, 2, 4, 6}));
}

TEST(Concat, RefusesOtherShapes) {
  DeviceVector<float> a(4), out(4);
  const TensorView inputs[] = {{a.data(), DataType::float32, {2, 1}}};
  EXPECT_THROW(concat(queue(), {out.data(), DataType::float32, {2, 2}}, inputs, 1), ValidationError);
}

TEST(Range, SequencesAndSpacing) {
  DeviceVector<std::int64_t> whole(5);
  sequence(queue(), {whole.data(), DataType::int64, {5}}, std::int64_t(1) << 60, -3);
  const auto w = whole.read();
  EXPECT_EQ(w[4], (std::int64_t(1) << 60) - 12);
  DeviceVector<float> real(5);
  spaced(queue(), {real.data(), DataType::float32, {5}}, -1, 1);
  EXPECT_EQ(real.read(), (std::vector<float>{-1, -0.5, 0, 0.5, 1}));
  spaced(queue(), {real.data(), DataType::float32, {3}}, 0, 2, 10.0);
  EXPECT_NEAR(real.read()[1], 10, 1e-5);
}

TEST(Range, Triangles) {
  for (const bool lower : {false, true})
    for (std::int64_t diagonal = -4; diagonal <= 5; diagonal++) {
      const std::vector<float> host = testing::random_floats(2 * 3 * 4, 1, 1, 2);
      DeviceVector<float> in(host), out(24);
      triangle(queue(), {out.data(), DataType::float32, {2, 3, 4}}, {in.data(), DataType::float32, {2, 3, 4}}, diagonal,
               lower);
      const auto result = out.read();
      std::vector<std::int64_t> rows, columns;
      for (std::int64_t i = 0; i < 24; i++) {
        const std::int64_t row = i / 4 % 3, column = i % 4;
        const bool inside = lower ? column <= row + diagonal : column >= row + diagonal;
        ASSERT_EQ(result[std::size_t(i)], inside ? host[std::size_t(i)] : 0) << diagonal;
        if (inside && i < 12) rows.push_back(row), columns.push_back(column);
      }
      DeviceVector<std::int64_t> indices(2 * rows.size());
      const std::int64_t count = std::int64_t(rows.size());
      triangle_indices(queue(), {indices.data(), DataType::int64, {2, count}}, 3, 4, diagonal, lower);
      rows.insert(rows.end(), columns.begin(), columns.end());
      ASSERT_EQ(indices.read(), rows) << diagonal << lower;
    }
}

}  // namespace
}  // namespace dlprim
