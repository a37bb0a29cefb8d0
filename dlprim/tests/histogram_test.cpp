// SPDX-License-Identifier: MIT
#include <dlprim/primitives/histogram.hpp>
#include <dlprim/runtime/settings.hpp>

#include "setting.hpp"
#include "tensors.hpp"

namespace dlprim {
namespace {

using namespace testing;

// Of n values; low and high are exact in every type.
void compare(DataType type, std::int64_t n, std::int64_t bins, double low, double high) {
  SCOPED_TRACE(::testing::Message() << name(type) << " " << n << " in " << bins);
  const DeviceTensor values(type, {n}, random_values(std::size_t(n), 0, 120));
  const DeviceTensor counts(DataType::int64, {bins}, std::vector<double>(std::size_t(bins), 0));
  count_values(queue(), counts, values, low, high);
  std::vector<double> expected(std::size_t(bins), 0);
  for (const double v : values.read()) {
    if (!(v >= low && v <= high)) continue;
    const double scaled = rounded(type, rounded(type, v - low) * double(bins));
    const double place =
        is_floating(type) ? rounded(type, scaled / (high - low)) : std::floor((v - low) * double(bins) / (high - low));
    expected[std::min(std::size_t(bins) - 1, std::size_t(place))]++;
  }
  expect_close(counts.read(), expected, 0);
}

void counts_values() {
  if (!can_count_bins(queue().device(), 1)) GTEST_SKIP() << "no 64-bit atomics";
  for (const DataType type :
       {DataType::float32, DataType::float64, DataType::bfloat16, DataType::int64, DataType::uint8})
    for (const std::int64_t n : {1, 1000, 70001})
      for (const std::int64_t bins : {1, 10, 100, 500}) {
        if (!supports(type)) continue;
        compare(type, n, bins, 0, 128);
        compare(type, n, bins, 8, 40);
      }
}

TEST(Histogram, CountsValues) { counts_values(); }

TEST(Histogram, CountsValuesInTheFormForGpus) {
  const Setting forced(settings.gpu_forms);
  counts_values();
}

// Products with the number of bins take more than 64 bits.
TEST(Histogram, CountsLargeIntegers) {
  if (!can_count_bins(queue().device(), 1)) GTEST_SKIP() << "no 64-bit atomics";
  for (const double most : {0x1p62, 0x1p63}) {
    const DeviceTensor values(DataType::int64, {4}, {-most, -most / 2, 0, most / 2});
    const DeviceTensor counts(DataType::int64, {4}, {0, 0, 0, 0});
    count_values(queue(), counts, values, -most, most);
    expect_close(counts.read(), {1, 1, 1, 1}, 0);
  }
}

void counts_bins() {
  if (!can_count_bins(queue().device(), 1)) GTEST_SKIP() << "no 64-bit atomics";
  for (const std::int64_t bins : {1, 60, 5000}) {
    const std::int64_t n = 40000;
    std::vector<double> numbers(static_cast<std::size_t>(n)), expected(std::size_t(bins), 2);
    for (std::int64_t i = 0; i < n; i++) {
      const std::int64_t number = i * i % (bins + 9) - 4;
      numbers[std::size_t(i)] = double(number);
      if (number >= 0 && number < bins) expected[std::size_t(number)]++;
    }
    const DeviceTensor in(DataType::int64, {n}, numbers);
    const DeviceTensor counts(DataType::int64, {bins}, std::vector<double>(std::size_t(bins), 2));
    count_bins(queue(), counts, in);
    expect_close(counts.read(), expected, 0);
  }
}

TEST(Histogram, CountsBinsBesideOthers) { counts_bins(); }

TEST(Histogram, CountsBinsInTheFormForGpus) {
  const Setting forced(settings.gpu_forms);
  counts_bins();
}

}  // namespace
}  // namespace dlprim
