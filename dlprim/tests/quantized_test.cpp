// SPDX-License-Identifier: MIT
#include <dlprim/primitives/copy.hpp>
#include <dlprim/primitives/quantized.hpp>
#include <gtest/gtest.h>

#include "setting.hpp"
#include "tensors.hpp"

namespace dlprim {
namespace {

using testing::DeviceTensor;
using testing::queue;
using Values = std::vector<double>;

struct Case {
  WeightFormat format;
  ZeroPoints zeros;
  std::int64_t n, k, group, tiles;
};

// Weights as numbers and as a device holds them.
struct Matrix {
  Values numbers;
  std::vector<std::unique_ptr<DeviceTensor>> tensors;
  PackedWeights packed;
  const TensorView& keep(DataType type, std::vector<std::int64_t> sizes, const Values& values) {
    tensors.push_back(std::make_unique<DeviceTensor>(type, std::move(sizes), values));
    return tensors.back()->view();
  }
};

std::int64_t bits_of(WeightFormat format) {
  return format == WeightFormat::int8 || format == WeightFormat::table8 ? 8 : 4;
}

Values stored_numbers(const Case& c, std::mt19937& engine) {
  Values q(std::size_t(c.n * c.k));
  for (double& v : q)
    v = double(engine() % (bits_of(c.format) == 8 ? 256 : 16)) - (c.format == WeightFormat::int8 ? 128 : 0);
  return q;
}

// As matrix_of stores them.
Values unpacked_numbers(const Case& c) {
  std::mt19937 engine(7);
  return stored_numbers(c, engine);
}

// The bytes that hold the numbers; the first of two in the high bits but for int4.
Values bytes_of(const Case& c, const Values& q) {
  if (bits_of(c.format) == 8) return q;
  Values bytes((q.size() + 1) / 2);
  for (std::size_t i = 0; i < q.size(); i++)
    bytes[i / 2] += (i % 2 == 0) == (c.format == WeightFormat::int4) ? q[i] : 16 * q[i];
  return bytes;
}

Matrix matrix_of(const Case& c, DataType type) {
  std::mt19937 engine(7);
  Matrix m;
  const Values q = stored_numbers(c, engine);
  const bool table = c.format == WeightFormat::table4 || c.format == WeightFormat::table8;
  const std::int64_t groups = (c.k + c.group - 1) / c.group,
                     scales = table ? (c.n * c.k + c.group - 1) / c.group : c.n * groups;
  Values scale(std::size_t(scales), 0), zero(scale.size(), 0), entries = testing::random_values(256, -1, 1, 3);
  const DataType scale_type = table ? DataType::float32 : type;
  for (double& s : scale) s = testing::rounded(scale_type, 0.01 + double(engine() % 64) / 256);
  for (double& z : zero) z = double(engine() % 8) - (c.zeros == ZeroPoints::added ? 4 : 0);
  m.packed = {c.format, c.n, c.k};
  m.packed.group = c.group, m.packed.zero_points = c.zeros, m.packed.tiles = c.tiles;
  m.packed.middle = c.zeros == ZeroPoints::added ? 8 : 0;
  m.packed.data = m.keep(c.format == WeightFormat::int8 ? DataType::int8 : DataType::uint8,
                         {std::int64_t(bytes_of(c, q).size())}, bytes_of(c, q))
                      .data;
  if (c.format == WeightFormat::int4_tiles) {
    const BufferRef rows = m.packed.data;
    m.packed.data = m.keep(DataType::int32, {c.n * c.k / 8}, Values(std::size_t(c.n * c.k / 8))).data;
    interleave_int4(queue(), m.packed.data, rows, c.n, c.k, c.tiles);
  }
  m.packed.scales = m.keep(scale_type, table ? std::vector{std::int64_t(1), scales} : std::vector{c.n, groups}, scale);
  if (c.zeros != ZeroPoints::none)
    m.packed.zeros = m.keep(c.zeros == ZeroPoints::added ? type : DataType::int8, {c.n, groups}, zero);
  if (table) {
    entries.resize(c.format == WeightFormat::table4 ? 16 : 256);
    for (double& e : entries) e = float(e);
    m.packed.table = m.keep(DataType::float32, {std::int64_t(entries.size())}, entries);
  }
  for (std::int64_t i = 0; i < c.n * c.k; i++) {
    const std::size_t g = std::size_t(table ? i / c.group : i / c.k * groups + i % c.k / c.group);
    const double number = q[std::size_t(i)];
    const double value = table ? entries[std::size_t(number)] : number - m.packed.middle;
    m.numbers.push_back(scale[g] * (value - (c.zeros == ZeroPoints::subtracted ? zero[g] : 0)) +
                        (c.zeros == ZeroPoints::added ? zero[g] : 0));
  }
  return m;
}

constexpr auto none = ZeroPoints::none, subtracted = ZeroPoints::subtracted, added = ZeroPoints::added;
const Case cases[] = {
    {WeightFormat::int8, none, 37, 96, 96, 0},
    {WeightFormat::int8, none, 5, 13, 13, 0},  // rows that no vector divides
    {WeightFormat::int8, subtracted, 64, 128, 32, 0},
    {WeightFormat::int4, none, 33, 64, 64, 0},
    {WeightFormat::int8, none, 70, 192, 32, 0},
    {WeightFormat::int8, none, 9, 2112, 2112, 0},
    {WeightFormat::int4, none, 75, 1088, 32, 0},
    {WeightFormat::int4, none, 12, 640, 320, 0},
    {WeightFormat::int4, subtracted, 130, 256, 32, 0},
    {WeightFormat::int4, subtracted, 6, 48, 16, 0},
    {WeightFormat::int4, added, 17, 1024, 128, 0},
    {WeightFormat::int4_tiles, added, 8, 32, 32, 2},
    {WeightFormat::int4_tiles, added, 72, 128, 64, 4},
    {WeightFormat::int4_tiles, added, 40, 512, 32, 8},
    {WeightFormat::int4_tiles, added, 136, 1024, 256, 8},
    {WeightFormat::table4, none, 50, 256, 64, 0},
    {WeightFormat::table4, none, 7, 33, 64, 0},  // scales of two rows, an odd number of weights
    {WeightFormat::table8, none, 9, 100, 64, 0},
};

TEST(Quantized, Unpack) {
  for (const DataType type : {DataType::float32, DataType::float16, DataType::bfloat16})
    for (const Case& c : cases) {
      SCOPED_TRACE(std::string(name(type)) + " " + std::to_string(int(c.format)) + " k " + std::to_string(c.k));
      const Matrix w = matrix_of(c, type);
      DeviceTensor out(type, {c.n, c.k});
      unpack(queue(), w.packed, out);
      testing::expect_close(out.read(), w.numbers, testing::tolerance(type));
    }
}

void check_product(const Case& c, DataType type, std::int64_t m, bool biased) {
  SCOPED_TRACE(std::string(name(type)) + " format " + std::to_string(int(c.format)) + " m " + std::to_string(m) +
               " k " + std::to_string(c.k));
  const Matrix w = matrix_of(c, type);
  Values x = testing::random_values(std::size_t(m * c.k)), expected(std::size_t(m * c.n));
  Values bias = testing::random_values(std::size_t(c.n), -1, 1, 9);
  for (Values* values : {&x, &bias})
    for (double& v : *values) v = testing::rounded(type, v);
  DeviceTensor factors(type, {m, c.k}, x), added_to(type, {c.n}, bias), out(type, {m, c.n});
  packed_product(queue(), factors, w.packed, out, biased ? added_to.view() : TensorView());
  double largest = 1;
  for (std::int64_t i = 0; i < m; i++)
    for (std::int64_t j = 0; j < c.n; j++) {
      double sum = biased ? bias[std::size_t(j)] : 0, magnitude = 0;
      for (std::int64_t l = 0; l < c.k; l++) {
        const double product = x[std::size_t(i * c.k + l)] * w.numbers[std::size_t(j * c.k + l)];
        sum += product, magnitude += std::fabs(product);
      }
      expected[std::size_t(i * c.n + j)] = sum, largest = std::max(largest, magnitude);
    }
  Values actual = out.read();
  for (Values* values : {&actual, &expected})
    for (double& v : *values) v /= largest;
  testing::expect_close(actual, expected, testing::tolerance(type));
}

TEST(Quantized, Product) {
  for (const DataType type : {DataType::float32, DataType::float16, DataType::bfloat16})
    for (const Case& c : cases)
      for (const std::int64_t m : {1, 3, 11}) check_product(c, type, m, m == 3);
}

// Rows of several slabs with a last one that is not whole, more rows than a work-item takes, each number of rows of x.
TEST(Quantized, ProductOfLongRows) {
  const Case long_ones[] = {
      {WeightFormat::int4, none, 70, 2080, 32, 0},  {WeightFormat::int4, added, 131, 1120, 160, 0},
      {WeightFormat::int8, none, 9, 1056, 32, 0},   {WeightFormat::int8, none, 600, 1088, 64, 0},
      {WeightFormat::int4, none, 530, 2112, 32, 0}, {WeightFormat::int8, subtracted, 5, 1088, 1088, 0}};
  int number = 0;
  for (const Case& c : long_ones)
    for (const std::int64_t m : {1, 2, 4, 5, 8})
      if (testing::takes(number++)) check_product(c, m % 2 ? DataType::float32 : DataType::bfloat16, m, m == 5);
}

// Blocks of x of all ranges, scales of float16 down to its least, numbers of 4 bits from -8 on, as GGUF files have.
TEST(Quantized, BlocksOfAllRanges) {
  const Case c{WeightFormat::int4, none, 21, 256, 32, 0};
  Matrix w = matrix_of(c, DataType::float16);
  w.packed.middle = 8;
  std::vector<Values> scales(2, Values(std::size_t(c.n * 8)));
  for (std::size_t i = 0; i < scales[0].size(); i++)
    scales[0][i] = scales[1][i] =
        testing::rounded(DataType::float16, std::ldexp(1 + double(i % 5) / 8, int(i % 20) - 20));
  const Values q = unpacked_numbers(c);
  w.packed.scales = w.keep(DataType::float16, {c.n, 8}, scales[0]);
  Values x = testing::random_values(std::size_t(c.k));
  const double ranges[] = {1, 0, 1e-36, 1e25, 1e-5, 3e4, 1, 1e-20};
  for (std::size_t i = 0; i < x.size(); i++) x[i] = testing::rounded(DataType::float32, x[i] * ranges[i / 32]);
  const auto product = [&] {
    DeviceTensor factors(DataType::float32, {1, c.k}, x), out(DataType::float32, {1, c.n});
    packed_product(queue(), factors, w.packed, out);
    return out.read();
  };
  for (const bool huge : {true, false}) {
    if (!huge) std::fill(x.begin() + 96, x.begin() + 128, 0);
    const Values results = product();
    for (std::int64_t i = 0; i < c.n; i++) {
      double sum = 0, magnitude = 0;
      for (std::int64_t l = 0; l < c.k; l++) {
        const double p = x[std::size_t(l)] * (q[std::size_t(i * c.k + l)] - 8) * scales[1][std::size_t(i * 8 + l / 32)];
        sum += p, magnitude += std::fabs(p);
      }
      EXPECT_NEAR(results[std::size_t(i)], sum, 2e-5 * magnitude) << i;
    }
  }
  for (const double bad : {double(INFINITY), double(NAN)}) {
    x[70] = bad;
    for (const double result : product()) EXPECT_FALSE(std::isfinite(result));
  }
}

// Scales that lie group by group.
TEST(Quantized, ScalesOfOtherStrides) {
  const Case c{WeightFormat::int4, subtracted, 12, 128, 32, 0};
  const Matrix w = matrix_of(c, DataType::float32);
  const Values x = testing::random_values(std::size_t(c.k));
  DeviceTensor factors(DataType::float32, {1, c.k}, x), out(DataType::float32, {1, c.n}),
      other(DataType::float32, {1, c.n});
  packed_product(queue(), factors, w.packed, out);
  PackedWeights transposed = w.packed;
  std::vector<std::unique_ptr<DeviceTensor>> kept;
  for (TensorView* view : {&transposed.scales, &transposed.zeros}) {
    kept.push_back(
        std::make_unique<DeviceTensor>(view->dtype, std::vector<std::int64_t>{4, c.n}, Values(std::size_t(4 * c.n))));
    TensorView to = kept.back()->view();
    std::swap(to.sizes[0], to.sizes[1]), std::swap(to.strides[0], to.strides[1]);
    copy(queue(), to, *view);
    *view = to;
  }
  packed_product(queue(), factors, transposed, other);
  testing::expect_close(other.read(), out.read(), 1e-6);
}

TEST(Quantized, ProductAsGpusComputeIt) {
  const testing::Setting forms(settings.gpu_forms);
  for (const Case& c : cases)
    for (const std::int64_t m : {1, 2, 8}) check_product(c, DataType::float32, m, m == 2);
}

// Sizes of pieces, groups within a step and beyond it, rows past the last tile, all tiles of rows of x.
TEST(Quantized, ProductByMatrixUnits) {
  const testing::Setting forms(settings.gpu_forms);
  const Case more[] = {
      {WeightFormat::int8, none, 37, 64, 64, 0},
      {WeightFormat::int8, none, 130, 2304, 2304, 0},
      {WeightFormat::int4, subtracted, 47, 192, 64, 0},
      {WeightFormat::int4, added, 40, 4352, 128, 0},
      {WeightFormat::int4_tiles, added, 136, 1024, 128, 8},
      {WeightFormat::int4_tiles, added, 24, 4096, 64, 2},
      {WeightFormat::table4, none, 50, 384, 128, 0},
  };
  const auto check_case = [](const Case& c) {
    check_product(c, DataType::float16, 19, false);
    check_product(c, DataType::bfloat16, c.n % 2 ? 1 : 8, true);
  };
  for (const Case& c : cases) check_case(c);
  for (const Case& c : more) check_case(c);
  check_product(more[0], DataType::bfloat16, 32, false);
}

// One or two rows of x whose weights have groups of 32: each lane of four reads one.
TEST(Quantized, GroupsOf32ByMatrixUnits) {
  const testing::Setting forms(settings.gpu_forms);
  for (const Case& c :
       {Case{WeightFormat::int4, subtracted, 130, 256, 32, 0}, Case{WeightFormat::int4, added, 47, 4224, 32, 0},
        Case{WeightFormat::int4, none, 16, 128, 32, 0}})
    for (const std::int64_t m : {1, 2, 3})
      for (const DataType type : {DataType::float16, DataType::bfloat16}) check_product(c, type, m, m == 2);
}

TEST(Quantized, WeightsAreUnpackedPartByPart) {
  check_product({WeightFormat::table4, none, 128, 1 << 18, 64, 0}, DataType::float32, 9, true);
}

TEST(Quantized, Blocks) {
  const Values table{-1,     -0.5,  -0.25,  0,    0.125,  0.25,  0.375,  0.5,
                     0.5625, 0.625, 0.6875, 0.75, 0.8125, 0.875, 0.9375, 1};
  DeviceTensor entries(DataType::float32, {16}, table);
  Values x = testing::random_values(71, -3, 3);
  for (double& v : x) v = float(v);
  DeviceTensor values(DataType::float32, {71}, x), scales(DataType::float32, {3}), bytes(DataType::uint8, {36});
  quantize_blocks(queue(), bytes.view().data, scales, values, entries, {}, 32);
  const Values stored = bytes.read(), scale = scales.read();
  for (std::size_t i = 0; i < x.size(); i++) {
    double largest = 0, best = 9, error;
    for (std::size_t j = i / 32 * 32; j < std::min<std::size_t>(71, i / 32 * 32 + 32); j++)
      largest = std::max(largest, std::fabs(x[j]));
    EXPECT_EQ(scale[i / 32], largest);
    for (const double entry : table) best = std::min(best, std::fabs(x[i] / largest - entry));
    error = std::fabs(x[i] / largest - table[std::size_t(int(stored[i / 2]) >> (i % 2 ? 0 : 4) & 15)]);
    EXPECT_NEAR(error, best, 1e-6) << i;
  }
}

TEST(Quantized, RefusesWhatDoesNotFit) {
  Matrix w = matrix_of(cases[0], DataType::float32);
  DeviceTensor x(DataType::float32, {1, 95}), out(DataType::float32, {1, 37});
  EXPECT_THROW(packed_product(queue(), x, w.packed, out), ValidationError);
  w.packed.group = 7;
  EXPECT_THROW(unpack(queue(), w.packed, out), ValidationError);
  EXPECT_THROW(interleave_int4(queue(), w.packed.data, w.packed.data, 8, 40, 2), ValidationError);
}

}  // namespace
}  // namespace dlprim
