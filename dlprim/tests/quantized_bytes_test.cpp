// SPDX-License-Identifier: MIT
// Bytes made of numbers, looked up in tables, and multiplied by those of their channels, against the host.
#include <dlprim/primitives/byte_table.hpp>
#include <dlprim/primitives/pool.hpp>
#include <dlprim/primitives/requantize.hpp>

#include <algorithm>

#include "conv_case.hpp"

namespace dlprim {
namespace {

using testing::Elements;

bool is_cpu() { return testing::device().info().cpu; }

double saturated(double v, double zero, DataType type) {
  const double low = type == DataType::int8 ? -128 : 0;
  return std::clamp(std::nearbyint(v) + zero, low, low + 255);
}

void expect(const Elements& y, const std::vector<double>& wanted) {
  const auto got = y.read();
  for (std::size_t i = 0; i < wanted.size(); i++) ASSERT_EQ(got[i], wanted[i]) << "element " << i;
}

TEST(QuantizedBytes, QuotientsAreRounded) {
  if (!is_cpu()) GTEST_SKIP() << "for CPUs";
  for (const std::int64_t count : {1, 15, 16, 17, 5000, 40003})
    for (const DataType type : {DataType::uint8, DataType::int8}) {
      const Elements x(DataType::float32, std::size_t(count), 1), y(type, std::size_t(count), 2);
      const TensorView in[] = {TensorView(x.data(), DataType::float32, {count})};
      Requantize options{.scale = 1.f / 128, .zero = type == DataType::int8 ? -7.f : 77.f};  // ties are many
      requantize(testing::queue(), in, TensorView(y.data(), type, {count}), options);
      std::vector<double> wanted;
      for (std::int64_t i = 0; i < count; i++)
        wanted.push_back(saturated(x.host(std::size_t(i)) / options.scale, options.zero, type));
      expect(y, wanted);
    }
}

TEST(QuantizedBytes, ScaleAndZeroPointOfTheDevice) {
  if (!is_cpu()) GTEST_SKIP() << "for CPUs";
  const std::int64_t count = 300;
  const Elements x(DataType::float32, 300, 1), y(DataType::uint8, 300, 2);
  const Workspace scale(testing::queue(), 4), zero(testing::queue(), 4);
  const float s = 0.03125f;
  const std::uint8_t z = 130;
  testing::queue().write(scale.data(), &s, 4, true);
  testing::queue().write(zero.data(), &z, 1, true);
  const TensorView in[] = {TensorView(x.data(), DataType::float32, {count})};
  requantize(testing::queue(), in, TensorView(y.data(), DataType::uint8, {count}),
             {.scale_memory = scale.data(), .zero_memory = zero.data()});
  std::vector<double> wanted;
  for (std::size_t i = 0; i < 300; i++) wanted.push_back(saturated(x.host(i) / s, z, DataType::uint8));
  expect(y, wanted);
}

TEST(QuantizedBytes, SumsOfTwo) {
  if (!is_cpu()) GTEST_SKIP() << "for CPUs";
  const Elements a(DataType::uint8, 1003, 1), b(DataType::int8, 1003, 2), y(DataType::uint8, 1003, 3);
  const TensorView in[] = {TensorView(a.data(), DataType::uint8, {17, 59}),
                           TensorView(b.data(), DataType::int8, {17, 59})};
  const Requantize options{.factors = {0.5f, -2}, .offset = 3.25f, .zero = 9};
  requantize(testing::queue(), in, TensorView(y.data(), DataType::uint8, {17, 59}), options);
  std::vector<double> wanted;
  for (std::size_t i = 0; i < 1003; i++)
    wanted.push_back(saturated(a.host(i) * 0.5 - 2 * b.host(i) + 3.25, 9, DataType::uint8));
  expect(y, wanted);
}

TEST(QuantizedBytes, SumsWithOneRow) {
  if (!is_cpu()) GTEST_SKIP() << "for CPUs";
  for (const std::int64_t rows : {1, 400})
    for (const std::int64_t columns : {1, 16, 59}) {
      const auto count = std::size_t(rows * columns);
      const Elements a(DataType::uint8, count, 1), b(DataType::uint8, std::size_t(columns), 2),
          y(DataType::int8, count, 3);
      const TensorView in[] = {TensorView(a.data(), DataType::uint8, {rows, columns}),
                               TensorView(b.data(), DataType::uint8, {columns})};
      requantize(testing::queue(), in, TensorView(y.data(), DataType::int8, {rows, columns}), {.factors = {2, 0.25f}});
      std::vector<double> wanted;
      for (std::size_t i = 0; i < count; i++)
        wanted.push_back(saturated(2 * a.host(i) + 0.25 * b.host(i % std::size_t(columns)), 0, DataType::int8));
      expect(y, wanted);
    }
}

TEST(QuantizedBytes, EntriesOfTables) {
  for (const std::int64_t count : {1, 9, 64, 70001}) {
    std::vector<std::uint8_t> entries(256), bytes(std::size_t(count), 0);
    for (std::size_t i = 0; i < 256; i++) entries[i] = std::uint8_t(i * 37 + 11);
    for (std::size_t i = 0; i < bytes.size(); i++) bytes[i] = std::uint8_t(i * 131 + i / 256);
    const Workspace x(testing::queue(), bytes.size()), table(testing::queue(), 256);
    testing::queue().write(x.data(), bytes.data(), bytes.size(), true);
    testing::queue().write(table.data(), entries.data(), 256, true);
    const Elements y(DataType::uint8, bytes.size(), 1);
    look_up_bytes(testing::queue(), TensorView(x.data(), DataType::int8, {count}),
                  TensorView(table.data(), DataType::uint8, {256}), TensorView(y.data(), DataType::uint8, {count}));
    std::vector<double> wanted;
    for (const std::uint8_t byte : bytes) wanted.push_back(entries[byte]);
    expect(y, wanted);
  }
}

TEST(QuantizedBytes, ChannelsAreGated) {
  if (!is_cpu()) GTEST_SKIP() << "for CPUs";
  const std::int64_t n = 3, c = 37, h = 5, w = 4;
  const Elements x(DataType::uint8, std::size_t(n * c * h * w), 1), gate(DataType::int8, std::size_t(n * c), 2);
  const Elements y(DataType::int8, std::size_t(n * c * h * w), 3);
  const testing::conv::Sizes sizes{n, c, h, w}, strides = testing::conv::strides(sizes, true);
  const TensorView xv(x.data(), DataType::uint8, sizes, strides), yv(y.data(), DataType::int8, sizes, strides);
  const TensorView gv(gate.data(), DataType::int8, {n, c, 1, 1});
  gate_bytes(testing::queue(), xv, gv, yv, {{3, 1}, 0.75f, -4});
  std::vector<double> wanted;
  for (std::int64_t i = 0; i < n * c * h * w; i++) {
    const double g = gate.host(std::size_t(i / (c * h * w) * c + i % c)) - 1;
    wanted.push_back(saturated((x.host(std::size_t(i)) - 3) * g * 0.75, -4, DataType::int8));
  }
  expect(y, wanted);
}

TEST(QuantizedBytes, LargestOfWindows) {
  for (const DataType type : {DataType::uint8, DataType::int8}) {
    const testing::conv::Sizes in{2, 35, 9, 8}, out{2, 35, 5, 3};
    const Elements x(type, 2 * 35 * 72, 1), y(type, 2 * 35 * 15, 2), rows(type, 2 * 35 * 15, 3);
    PoolWindow window;
    window.kernel = {1, 3, 2}, window.stride = {1, 2, 3}, window.pad = {0, 1, 1}, window.dilation = {1, 1, 2};
    const TensorView xv(x.data(), type, in, testing::conv::strides(in, true));
    const TensorView yv(y.data(), type, out, testing::conv::strides(out, true)), rv(rows.data(), type, out);
    max_pool(testing::queue(), xv, yv, {}, window);
    max_pool(testing::queue(), xv, rv, {}, window);  // another kernel's
    const auto last = y.read(), row = rows.read();
    for (std::int64_t i = 0; i < 2 * 35 * 15; i++)
      ASSERT_EQ(last[std::size_t(testing::conv::offset(i, out, testing::conv::strides(out, true)))],
                row[std::size_t(i)]);
  }
}

TEST(QuantizedBytes, RefuseOtherArguments) {
  const Workspace memory(testing::queue(), 4096);
  const TensorView x(memory.data(), DataType::float32, {16}), y(memory.data(), DataType::uint8, {16});
  const TensorView wide(memory.data(), DataType::int32, {16}), longer(memory.data(), DataType::uint8, {17});
  EXPECT_THROW(requantize(testing::queue(), {&wide, 1}, y, {}), ValidationError);
  EXPECT_THROW(requantize(testing::queue(), {&longer, 1}, y, {}), ValidationError);
  EXPECT_THROW(requantize(testing::queue(), {&x, 1}, x, {}), ValidationError);
  EXPECT_THROW(look_up_bytes(testing::queue(), y, longer, y), ValidationError);
  EXPECT_THROW(look_up_bytes(testing::queue(), x, longer, y), ValidationError);
  EXPECT_THROW(gate_bytes(testing::queue(), y, y, y, {}), ValidationError);
}

}  // namespace
}  // namespace dlprim
