// SPDX-License-Identifier: MIT
#include <dlprim/primitives/sparse.hpp>

#include <numeric>

#include "testing.hpp"

namespace dlprim {
namespace {

using testing::DeviceVector;
using testing::queue;

struct Rows {
  std::vector<std::int64_t> starts{0}, columns;
  std::vector<float> values;
};

// Row i has lengths[i] entries.
Rows random_rows(const std::vector<int>& lengths, std::int64_t inner) {
  Rows rows;
  for (const int length : lengths) rows.starts.push_back(rows.starts.back() + length);
  for (std::int64_t e = 0; e < rows.starts.back(); e++) rows.columns.push_back((e * 7919 + 13) % inner);
  rows.values = testing::random_floats(std::size_t(rows.starts.back()), 3);
  return rows;
}

template <class Index>
std::vector<Index> as(const std::vector<std::int64_t>& values) {
  return std::vector<Index>(values.begin(), values.end());
}

template <class Index>
void product(const std::vector<int>& lengths, std::int64_t width, bool transposed, DataType index) {
  const std::int64_t inner = 50, height = std::int64_t(lengths.size());
  const Rows rows = random_rows(lengths, inner);
  const auto x = testing::random_floats(std::size_t(inner * width)),
             old = testing::random_floats(std::size_t(height * width), 5);
  DeviceVector<Index> starts(as<Index>(rows.starts)), columns(as<Index>(rows.columns));
  DeviceVector<float> values(rows.values), dense(x), base(old), out(std::size_t(height * width));
  const std::int64_t entries = std::int64_t(rows.columns.size());
  const SparseRows matrix{{starts.data(), index, {height + 1}},
                          {columns.data(), index, {entries}},
                          {values.data(), DataType::float32, {entries}},
                          inner};
  const std::vector<std::int64_t> sizes{inner, width}, strides{transposed ? 1 : width, transposed ? inner : 1};
  const TensorView result{out.data(), DataType::float32, {height, width}};
  sparse_product(queue(), matrix, TensorView(dense.data(), DataType::float32, sizes, strides),
                 {base.data(), DataType::float32, {height, width}}, result, 2.0, 0.5);
  const auto got = out.read();
  for (std::int64_t i = 0; i < height; i++)
    for (std::int64_t j = 0; j < width; j++) {
      double sum = 0;
      for (auto e = std::size_t(rows.starts[std::size_t(i)]); e < std::size_t(rows.starts[std::size_t(i) + 1]); e++)
        sum += double(rows.values[e]) * x[std::size_t(rows.columns[e] * strides[0] + j * strides[1])];
      const double expected = 2 * sum + 0.5 * old[std::size_t(i * width + j)];
      ASSERT_NEAR(got[std::size_t(i * width + j)], expected, 2e-4) << i << ' ' << j << ' ' << width;
    }
  sparse_product(queue(), matrix, TensorView(dense.data(), DataType::float32, sizes, strides),
                 {base.data(), DataType::float32, {height, width}}, result, 2.0, 0.5);
  EXPECT_EQ(out.read(), got);
}

TEST(Sparse, SmallProducts) {
  for (const std::int64_t width : {1, 3, 4, 64, 200})
    for (const bool transposed : {false, true}) {
      product<std::int64_t>({3, 0, 1, 40, 7, 5, 2}, width, transposed, DataType::int64);
      product<std::int32_t>({0, 0, 20}, width, transposed, DataType::int32);
    }
}

TEST(Sparse, LongRowsAmongShortOnes) {
  for (const std::int64_t width : {1, 64})
    product<std::int64_t>({3, 5000, 0, 1, 700, 511, 512}, width, false, DataType::int64);
}

TEST(Sparse, SmallSampledProduct) {
  for (const std::int64_t inner : {0, 1, 5, 8, 100}) {
    const auto a = testing::random_floats(std::size_t(3 * inner)),
               b = testing::random_floats(std::size_t(4 * inner), 2);
    DeviceVector<float> left(a), right(b), out(std::vector<float>{1, 2, 3, 4, 5});
    DeviceVector<std::int64_t> rows(std::vector<std::int64_t>{0, 0, 1, 2, 2}),
        columns(std::vector<std::int64_t>{1, 3, 0, 2, 3});
    const std::vector<std::int64_t> sizes{inner, 4}, strides{1, inner};
    const TensorView view{out.data(), DataType::float32, {5}};
    sampled_product(queue(), {rows.data(), DataType::int64, {5}}, {columns.data(), DataType::int64, {5}},
                    {left.data(), DataType::float32, {3, inner}},
                    TensorView(right.data(), DataType::float32, sizes, strides), view, view, 3.0, 1.0);
    const auto got = out.read(), i = std::vector<float>{0, 0, 1, 2, 2}, j = std::vector<float>{1, 3, 0, 2, 3};
    for (std::size_t e = 0; e < 5; e++) {
      double sum = 0;
      for (std::int64_t k = 0; k < inner; k++)
        sum += double(a[std::size_t(std::int64_t(i[e]) * inner + k)]) * b[std::size_t(std::int64_t(j[e]) * inner + k)];
      EXPECT_NEAR(got[e], 3 * sum + double(e + 1), 1e-4) << inner;
    }
  }
}

TEST(Sparse, SmallReportsOfIndicesOutOfRange) {
  for (const bool bad_start : {false, true}) {
    DeviceVector<std::int64_t> starts(std::vector<std::int64_t>{0, bad_start ? 1000000 : 1, 2}),
        columns(std::vector<std::int64_t>{0, bad_start ? 1 : 1 << 30});
    DeviceVector<float> values(std::vector<float>{1, 1}), dense(std::vector<float>{1, 2}), out(2);
    sparse_product(queue(),
                   {{starts.data(), DataType::int64, {3}},
                    {columns.data(), DataType::int64, {2}},
                    {values.data(), DataType::float32, {2}},
                    2},
                   {dense.data(), DataType::float32, {2, 1}}, {}, {out.data(), DataType::float32, {2, 1}}, 1.0, 0.0);
    EXPECT_THROW(queue().finish(), IndexError);
  }
  DeviceVector<std::int32_t> rows(std::vector<std::int32_t>{5}), columns(std::vector<std::int32_t>{0});
  DeviceVector<float> left(std::vector<float>{1}), out(1);
  sampled_product(queue(), {rows.data(), DataType::int32, {1}}, {columns.data(), DataType::int32, {1}},
                  {left.data(), DataType::float32, {1, 1}}, {left.data(), DataType::float32, {1, 1}}, {},
                  {out.data(), DataType::float32, {1}}, 1.0, 0.0);
  EXPECT_THROW(queue().finish(), IndexError);
}

TEST(Sparse, SmallRefusals) {
  DeviceVector<float> x(4);
  const TensorView view{x.data(), DataType::float32, {2, 2}};
  EXPECT_THROW(sparse_product(queue(), {view, view, view, 2}, view, {}, view, 1.0, 0.0), ValidationError);
  EXPECT_THROW(sampled_product(queue(), view, view, view, view, {}, view, 1.0, 0.0), ValidationError);
}

template <class Index>
void triangular_solve(std::int64_t n, std::int64_t k, bool upper, bool unit, DataType index) {
  Rows rows;  // every third position, and the diagonal
  for (std::int64_t i = 0; i < n; i++) {
    for (std::int64_t j = 0; j < n; j++)
      if (i == j || (i + 2 * j) % 3 == 0) {
        rows.columns.push_back(j);
        rows.values.push_back(i == j ? 2 + 0.1f * float(i % 5) : 0.3f / float(1 + (i + j) % 7));
      }
    rows.starts.push_back(std::int64_t(rows.columns.size()));
  }
  const auto b = testing::random_floats(std::size_t(n * k));
  DeviceVector<Index> starts(as<Index>(rows.starts)), columns(as<Index>(rows.columns));
  DeviceVector<float> values(rows.values), x(b);
  const SparseRows matrix{{starts.data(), index, {n + 1}},
                          {columns.data(), index, {std::int64_t(rows.columns.size())}},
                          {values.data(), DataType::float32, {std::int64_t(rows.columns.size())}},
                          n};
  sparse_triangular_solve(queue(), matrix, {x.data(), DataType::float32, {n, k}}, upper, unit);
  const auto got = x.read();
  for (std::int64_t i = 0; i < n; i++)
    for (std::int64_t c = 0; c < k; c++) {
      double sum = unit ? got[std::size_t(i * k + c)] : 0;
      for (auto e = std::size_t(rows.starts[std::size_t(i)]); e < std::size_t(rows.starts[std::size_t(i) + 1]); e++) {
        const std::int64_t j = rows.columns[e];
        if (upper ? j > i : j < i) sum += double(rows.values[e]) * got[std::size_t(j * k + c)];
        if (j == i && !unit) sum += double(rows.values[e]) * got[std::size_t(i * k + c)];
      }
      ASSERT_NEAR(sum, b[std::size_t(i * k + c)], 1e-4) << i << ' ' << c << ' ' << n << upper << unit;
    }
}

TEST(Sparse, SmallTriangularSolve) {
  for (int form = 0; form < 4; form++) {
    triangular_solve<std::int64_t>(20, 1, form & 1, form & 2, DataType::int64);
    triangular_solve<std::int32_t>(9, 40, form & 1, form & 2, DataType::int32);
  }
}

}  // namespace
}  // namespace dlprim
