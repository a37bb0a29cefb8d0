// SPDX-License-Identifier: MIT
#include <dlprim/primitives/scan.hpp>
#include <dlprim/runtime/settings.hpp>

#include "setting.hpp"
#include "tensors.hpp"

namespace dlprim {
namespace {

using namespace testing;

double merge(ScanId id, double a, double b) {
  switch (id) {
    case ScanId::sum: return a + b;
    case ScanId::prod: return a * b;
    case ScanId::logsumexp:
      return a == -INFINITY || (std::isinf(b) && a == b) ? b : std::max(a, b) + std::log1p(std::exp(-std::fabs(a - b)));
    case ScanId::max: return std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b);
    default: return std::isnan(a) || std::isnan(b) ? NAN : std::min(a, b);
  }
}

void compare(ScanId id, std::int64_t outer, std::int64_t length, std::int64_t inner, DataType type, double tolerance,
             std::vector<double> values = {}) {
  SCOPED_TRACE(::testing::Message() << int(id) << ": " << outer << "x" << length << "x" << inner << " " << name(type));
  const std::size_t count = std::size_t(outer * length * inner);
  const std::vector<std::int64_t> sizes = {outer, length, inner};
  if (values.empty()) {
    values = random_values(count, id == ScanId::prod ? 0.99 : -3, id == ScanId::prod ? 1.01 : 3);
    if (count > 40 && id >= ScanId::max && is_floating(type)) values[count - count / 8] = NAN;
  }
  const DeviceTensor x(type, sizes, values);
  values = x.read();
  DeviceTensor y(type, sizes), where(DataType::int64, sizes);
  const bool chooses = id >= ScanId::max;
  scan(queue(), id, y, x, 1, chooses ? where.view() : TensorView());
  std::vector<double> expected(count), places(count);
  for (std::int64_t o = 0; o < outer; o++)
    for (std::int64_t i = 0; i < inner; i++) {
      double total = 0, place = 0;
      for (std::int64_t r = 0; r < length; r++) {
        const std::size_t at = std::size_t((o * length + r) * inner + i);
        total = r ? merge(id, total, values[at]) : values[at];
        if (std::isnan(values[at]) || values[at] == total) place = double(r);
        expected[at] = total, places[at] = place;
      }
    }
  expect_close(y.read(), expected, tolerance);
  if (chooses) expect_close(where.read(), places, 0);
}

TEST(Scan, EveryKindAndShape) {
  const std::int64_t shapes[][3] = {{1, 1, 1},      {3, 5, 1},     {1, 257, 1}, {7, 1030, 1},
                                    {1, 100003, 1}, {3, 50004, 1}, {2, 3, 40},  {3, 1025, 3},
                                    {1, 70001, 2},  {0, 3, 1},     {2, 0, 3}};
  for (ScanId id : {ScanId::sum, ScanId::prod, ScanId::logsumexp, ScanId::max, ScanId::min})
    for (const auto& s : shapes)
      compare(id, s[0], s[1], s[2], DataType::float32, id < ScanId::max ? (s[1] > 10000 ? 1e-3 : 1e-4) : 0);
}

// Whatever sweeps on GPUs, and enough tiles for totals of blocks of them.
TEST(Scan, LongRowsInOneSweep) {
  const Setting forced(settings.gpu_forms);
  for (ScanId id : {ScanId::sum, ScanId::prod, ScanId::logsumexp}) compare(id, 1, 200003, 1, DataType::float32, 2e-3);
  compare(ScanId::sum, 2, 100004, 1, DataType::int32, 0);
  compare(ScanId::sum, 3, 50001, 1, DataType::int64, 0);
}

// Equal values, of which the last counts, the identities among them, and NaN, of which the last counts, too.
std::vector<double> with_ties(std::int64_t rows, std::int64_t length, DataType type, ScanId id) {
  std::mt19937 engine(4);
  std::vector<double> values(std::size_t(rows * length));
  const double least = is_floating(type) ? -INFINITY : is_signed(type) ? -128 : 0;
  const double worst = id == ScanId::max ? least : is_floating(type) ? INFINITY : 127;
  for (std::size_t i = 0; i < values.size(); i++) {
    const std::int64_t row = std::int64_t(i) / length, place = std::int64_t(i) % length;
    const double some = double(engine() % 100) * (is_signed(type) || is_floating(type) ? -1 : 1);
    values[i] = row == 1 || place < length / 3 ? worst : engine() % 7 == 0 ? worst : std::floor(some / 30);
    if (is_floating(type) && row != 2 && place > length - length / 4 && engine() % 50 == 0) values[i] = NAN;
  }
  return values;
}

TEST(Scan, PositionsOfExtremesInOneSweep) {
  const Setting forced(settings.gpu_forms);
  for (const DataType type : {DataType::float32, DataType::int64, DataType::int8, DataType::float64})
    for (const ScanId id : {ScanId::max, ScanId::min}) {
      if (!supports(type) || (type == DataType::float64 && id == ScanId::min)) continue;
      for (const auto& [rows, length] : {std::pair(1, 170001), std::pair(2, 40000), std::pair(4, 5003)})
        compare(id, rows, length, 1, type, 0, with_ties(rows, length, type, id));
    }
  for (const auto& [rows, length] : {std::pair(5, 1024), std::pair(3, 1999), std::pair(3, 8192)})
    compare(ScanId::max, rows, length, 1, DataType::bfloat16, 0,
            with_ties(rows, length, DataType::bfloat16, ScanId::max));
}

// Pairs of floats: whole rows, columns, short rows, and enough to be swept.
TEST(Scan, LogarithmsOfSumsInPairs) {
  const Setting forced(settings.gpu_forms);
  for (const auto& [rows, length, inner] :
       {std::tuple(1, 100003, 1), {3, 5000, 1}, {2, 1030, 1}, {4, 70, 1}, {2, 300, 5}})
    compare(ScanId::logsumexp, rows, length, inner, DataType::float32, 1e-6);
  std::vector<double> values(3000, 0);
  compare(ScanId::logsumexp, 1, 3000, 1, DataType::float32, 1e-6, values);
  values[0] = values[1] = -INFINITY, values[5] = 80, values[6] = -90, values[40] = -INFINITY, values[700] = 1000;
  compare(ScanId::logsumexp, 1, 3000, 1, DataType::float32, 1e-6, values);
  values[1500] = values[1501] = INFINITY, values[1502] = -INFINITY;
  compare(ScanId::logsumexp, 1, 3000, 1, DataType::float32, 1e-6, values);
  values[2500] = NAN;
  compare(ScanId::logsumexp, 1, 3000, 1, DataType::float32, 1e-6, values);
  const DeviceTensor x(DataType::float32, {2}, {0, -20}), y(DataType::float32, {2});
  scan(queue(), ScanId::logsumexp, y, x, 0);
  EXPECT_NEAR(y.read()[1], std::log1p(std::exp(-20.0)), 1e-15);  // what one float beside 1 would lose
}

TEST(Scan, EveryDtype) {
  for (int t = 0; t < int(DataType::boolean); t++) {
    const DataType type = DataType(t);
    if (!supports(type) || (!is_floating(type) && !is_signed(type))) continue;
    compare(ScanId::sum, 4, 11, 1, type, is_floating(type) ? tolerance(type) * 2 : 0);
    compare(ScanId::max, 4, 60, 3, type, 0);
  }
}

TEST(Scan, RefusesWhatDoesNotFit) {
  const DeviceTensor x(DataType::float32, {2, 3}), i(DataType::int32, {2, 3});
  EXPECT_THROW(scan(queue(), ScanId::sum, x, x, 2), ValidationError);
  EXPECT_THROW(scan(queue(), ScanId::sum, i, x, 1), ValidationError);
  EXPECT_THROW(scan(queue(), ScanId::max, x, x, 1, i), ValidationError);
}

}  // namespace
}  // namespace dlprim
