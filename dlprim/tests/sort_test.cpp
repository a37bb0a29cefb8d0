// SPDX-License-Identifier: MIT
#include <dlprim/primitives/compact.hpp>
#include <dlprim/primitives/sort.hpp>
#include <dlprim/runtime/settings.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <optional>

#include "floats.hpp"
#include "setting.hpp"
#include "tensors.hpp"

namespace dlprim {
namespace {

using testing::DeviceVector;
using testing::queue;

bool less(float a, float b) { return a < b || (std::isnan(b) && !std::isnan(a)); }

class SortCandidate : public ::testing::TestWithParam<const char*> {
 protected:
  // Work-groups of many, above all with shuffles made of barriers, take CPUs' compilers seconds a program.
  bool slow_to_build() const {
    const std::string name = GetParam();
    return (name == "radix" || name == "sweep") && queue().device().info().cpu;
  }
};
INSTANTIATE_TEST_SUITE_P(All, SortCandidate, ::testing::Values("merge", "parts", "radix", "short", "sweep"));

TEST_P(SortCandidate, IsStableAtEdgesOfRunsAndTiles) {
  const testing::Variable forced("DLPRIM_SORT", GetParam());
  std::vector<std::int64_t> sizes{1, 2, 15, 16, 17, 33, 100, 1000, 4095, 4096, 4097, 9001};
  if (slow_to_build()) sizes = {1, 33, 1000, 4096, 9001};
  for (const std::int64_t n : sizes)
    for (const bool descending : {false, true}) {
      std::mt19937 engine{unsigned(n)};
      std::vector<float> host(std::size_t(3 * n));
      for (float& value : host) value = engine() % 11 == 0 ? std::nanf("") : float(engine() % 17) - 8;
      DeviceVector<float> keys(host);
      DeviceVector<std::int64_t> order(host.size());
      sort_order(queue(), {keys.data(), DataType::float32, {3, n}}, {order.data(), DataType::int64, {3, n}},
                 descending);
      const auto result = order.read();
      for (std::int64_t row = 0; row < 3; row++) {
        const float* x = host.data() + row * n;
        std::vector<std::int64_t> expected(static_cast<std::size_t>(n));
        std::iota(expected.begin(), expected.end(), 0);
        std::stable_sort(expected.begin(), expected.end(),
                         [&](auto a, auto b) { return descending ? less(x[b], x[a]) : less(x[a], x[b]); });
        ASSERT_TRUE(std::equal(expected.begin(), expected.end(), result.begin() + row * n)) << n << " " << descending;
      }
    }
}

// The k first, as sorting finds them, among few values and many equal ones, NaN and both zeros.
TEST_P(SortCandidate, SelectsPlacesOfTheFirst) {
  const testing::Variable forced("DLPRIM_SORT", GetParam());
  for (const DataType type : {DataType::float32, DataType::float64, DataType::bfloat16, DataType::float16,
                              DataType::int64, DataType::int32, DataType::int16, DataType::uint8})
    for (const std::int64_t n : {64, 255, 1000, 5000})
      for (const std::int64_t k : {std::int64_t(1), std::int64_t(7), n / 4})
        for (const bool descending : {false, true}) {
          if (!testing::supports(type)) continue;
          const bool one_of_two = descending ? type == DataType::float32 : type == DataType::int64;
          if (slow_to_build() && (!one_of_two || (n != 64 && n != 5000))) continue;
          std::mt19937 engine{unsigned(n + k)};
          std::vector<double> values(std::size_t(3 * n));
          for (std::size_t i = 0; i < values.size(); i++) {
            const bool few = i < std::size_t(n);  // the first row
            values[i] = few ? engine() % 3 : engine() % 97;
            if (is_signed(type) || is_floating(type)) values[i] -= few ? 1 : 48;
            if (!is_floating(type)) continue;
            values[i] = engine() % 31 == 0 ? std::nan("") : engine() % 2 ? values[i] / 8 : -values[i];
          }
          const testing::DeviceTensor keys(type, {3, n}, values);
          DeviceVector<std::int64_t> places(std::size_t(3 * k)), order(std::size_t(3 * n));
          ASSERT_TRUE(select_places(queue(), keys, {places.data(), DataType::int64, {3, k}}, descending));
          sort_order(queue(), keys, {order.data(), DataType::int64, {3, n}}, descending);
          const auto result = places.read();
          auto sorted = order.read();
          for (std::int64_t row = 0; row < 3; row++) {
            std::sort(sorted.begin() + row * n, sorted.begin() + row * n + k);
            ASSERT_TRUE(std::equal(result.begin() + row * k, result.begin() + row * k + k, sorted.begin() + row * n))
                << name(type) << " " << n << " " << k << " " << descending << " row " << row;
          }
        }
}

// By a heap on CPUs; few values, and rows that get better towards their end.
TEST(SelectPlaces, FewOfTheRow) {
  for (const std::int64_t n : {64, 1003, 20000})
    for (const std::int64_t k : {1, 3, 16, 250})
      for (const bool descending : {false, true}) {
        if (4 * k > n) continue;
        std::mt19937 engine{unsigned(n + k)};
        std::vector<float> host(std::size_t(3 * n));
        for (std::int64_t i = 0; i < 3 * n; i++)
          host[std::size_t(i)] = i < n ? float(engine() % 5) : i < 2 * n ? float(i / 7) : float(-i);
        host[5] = std::nanf("");
        DeviceVector<float> keys(host);
        const TensorView rows{keys.data(), DataType::float32, {3, n}};
        DeviceVector<std::int64_t> places(std::size_t(3 * k)), order(host.size());
        if (!select_places(queue(), rows, {places.data(), DataType::int64, {3, k}}, descending)) continue;
        sort_order(queue(), rows, {order.data(), DataType::int64, {3, n}}, descending);
        auto sorted = order.read();
        const auto result = places.read();
        for (std::int64_t row = 0; row < 3; row++) {
          std::sort(sorted.begin() + row * n, sorted.begin() + row * n + k);
          ASSERT_TRUE(std::equal(result.begin() + row * k, result.begin() + (row + 1) * k, sorted.begin() + row * n))
              << n << " " << k << " " << descending << " row " << row;
        }
      }
}

// Whole ranges of every type: one tile and several.
TEST_P(SortCandidate, OrdersEveryType) {
  const testing::Variable forced("DLPRIM_SORT", GetParam());
  for (const DataType type : {DataType::float64, DataType::bfloat16, DataType::int64, DataType::int8, DataType::uint32})
    for (const std::int64_t n : {300, 5000}) {
      if (!testing::supports(type)) continue;
      if (slow_to_build() && (n == 300) != (type == DataType::int8)) continue;
      const bool real = is_floating(type);
      const double top = real ? 6e4 : std::ldexp(1, int(8 * size_of(type)) - is_signed(type));
      std::vector<double> values = testing::random_values(std::size_t(n), is_signed(type) || real ? -top : 0, top);
      for (double& v : values)
        v = testing::rounded(type, real ? v : std::min(std::floor(v), top - std::max(1.0, top / 4096)));
      const testing::DeviceTensor keys(type, {1, n}, values);
      DeviceVector<std::int64_t> order(values.size());
      for (const bool descending : {false, true}) {
        sort_order(queue(), keys, {order.data(), DataType::int64, {1, n}}, descending);
        std::vector<std::int64_t> expected(values.size());
        std::iota(expected.begin(), expected.end(), 0);
        std::stable_sort(expected.begin(), expected.end(), [&](auto a, auto b) {
          return values[std::size_t(descending ? b : a)] < values[std::size_t(descending ? a : b)];
        });
        ASSERT_EQ(order.read(), expected) << name(type) << " " << n << " " << descending;
      }
    }
}

// The elements themselves: all bits of NaN and both zeros.
TEST_P(SortCandidate, WritesTheSortedElements) {
  const testing::Variable forced("DLPRIM_SORT", GetParam());
  for (const std::int64_t n : {100, 4096, 9001})
    for (const bool descending : {false, true}) {
      std::vector<float> host(std::size_t(2 * n));
      std::mt19937 engine{unsigned(n)};
      for (float& value : host)
        value = engine() % 9 == 0 ? std::nanf("7") : engine() % 3 == 0 ? -0.0f : float(engine() % 5);
      if (n == 100) std::fill(host.begin(), host.begin() + n, 1.5f);  // no digit differs
      DeviceVector<float> keys(host), sorted(host.size());
      DeviceVector<std::int64_t> order(host.size());
      sort_order(queue(), {keys.data(), DataType::float32, {2, n}}, {order.data(), DataType::int64, {2, n}}, descending,
                 {sorted.data(), DataType::float32, {2, n}});
      const auto places = order.read();
      const auto result = sorted.read();
      for (std::size_t i = 0; i < host.size(); i++)
        ASSERT_EQ(std::bit_cast<std::uint32_t>(result[i]),
                  std::bit_cast<std::uint32_t>(host[std::size_t(places[i]) + i / std::size_t(n) * std::size_t(n)]))
            << n << " " << descending << " " << i;
    }
}

// A pass whose digit is the same in a whole row leaves that row alone, the others not.
TEST_P(SortCandidate, RowsWhoseDigitsDiffer) {
  const testing::Variable forced("DLPRIM_SORT", GetParam());
  const std::int64_t n = 5000, rows = 4;
  std::vector<std::int64_t> host(std::size_t(rows * n));
  std::mt19937 engine{3};
  for (std::int64_t i = 0; i < rows * n; i++) {
    const std::int64_t row = i / n, few = std::int64_t(engine() % 200);
    host[std::size_t(i)] = row == 0 ? 7 : row == 1 ? few << 16 : row == 2 ? -few : few << 40 | (engine() % 5);
  }
  DeviceVector<std::int64_t> keys(host), order(host.size());
  sort_order(queue(), {keys.data(), DataType::int64, {rows, n}}, {order.data(), DataType::int64, {rows, n}}, false);
  const auto result = order.read();
  for (std::int64_t row = 0; row < rows; row++) {
    const std::int64_t* x = host.data() + row * n;
    std::vector<std::int64_t> expected(static_cast<std::size_t>(n));
    std::iota(expected.begin(), expected.end(), 0);
    std::stable_sort(expected.begin(), expected.end(), [&](auto a, auto b) { return x[a] < x[b]; });
    ASSERT_TRUE(std::equal(expected.begin(), expected.end(), result.begin() + row * n)) << row;
  }
}

TEST(Sort, RowsInLexicographicOrder) {
  const std::vector<std::int64_t> host{2, 1, 1, 9, 2, 0, 1, 9};
  DeviceVector<std::int64_t> keys(host), order(4);
  DeviceVector<std::uint8_t> heads(4);
  const TensorView k{keys.data(), DataType::int64, {4, 2}}, o{order.data(), DataType::int64, {4}};
  sort_rows(queue(), k, o);
  EXPECT_EQ(order.read(), (std::vector<std::int64_t>{1, 3, 2, 0}));
  run_heads(queue(), k, o, {heads.data(), DataType::boolean, {4}});
  EXPECT_EQ(heads.read(), (std::vector<std::uint8_t>{1, 0, 1, 1}));
}

class Modes : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Forms, Modes, ::testing::Values(false, true),
                         [](const auto& form) { return form.param ? "OfGpus" : "OfTheDevice"; });

// The last of the most frequent elements, and the smallest of several; all NaN are one. Rows: few values, many, one.
TEST_P(Modes, OfSmallAndLongRows) {
  std::optional<testing::Setting> forced;
  if (GetParam()) forced.emplace(settings.gpu_forms);
  const std::pair<DataType, std::int64_t> cases[] = {
      {DataType::float32, 1},     {DataType::float32, 100}, {DataType::float32, 4096}, {DataType::float32, 4097},
      {DataType::float32, 70001}, {DataType::int64, 1000},  {DataType::int64, 9001},   {DataType::uint8, 4000},
      {DataType::bfloat16, 300},  {DataType::float64, 70}};
  for (const auto& [type, n] : cases) {
    if (!testing::supports(type)) continue;
    constexpr std::int64_t rows = 4;
    std::mt19937 engine{unsigned(n)};
    std::vector<double> host(std::size_t(rows * n));
    for (std::int64_t i = 0; i < rows * n; i++) {
      double& value = host[std::size_t(i)];
      value = i < n ? double(engine() % 5) : i < 2 * n ? double((i * 7) % n % 250) : i < 3 * n ? 3 : double(i % 40);
      if (!is_floating(type)) continue;
      if (engine() % (i < n ? 3 : 60) == 0) value = std::nan("");
      else if (value == 0 && engine() % 2) value = -0.0;
    }
    const testing::DeviceTensor keys(type, {rows, n}, host), values(type, {rows}), places(DataType::int64, {rows});
    select_mode(queue(), keys, values, places);
    const auto found = values.read(), at = places.read();
    const auto rounded = keys.read();
    for (std::int64_t row = 0; row < rows; row++) {
      const double* x = rounded.data() + row * n;
      std::vector<std::int64_t> order(static_cast<std::size_t>(n));
      std::iota(order.begin(), order.end(), 0);
      const auto before = [&](auto a, auto b) { return x[a] < x[b] || (std::isnan(x[b]) && !std::isnan(x[a])); };
      std::stable_sort(order.begin(), order.end(), before);
      std::int64_t best = 0, length = 0, expected = 0;
      for (std::size_t i = 0; i < order.size(); i++) {
        length = i > 0 && !before(order[i - 1], order[i]) ? length + 1 : 1;
        if (length > best) best = length, expected = order[i];
      }
      ASSERT_EQ(std::int64_t(at[std::size_t(row)]), expected) << name(type) << " " << n << " row " << row;
      ASSERT_EQ(std::bit_cast<std::uint64_t>(found[std::size_t(row)]), std::bit_cast<std::uint64_t>(x[expected]));
    }
  }
}

// The first element equal to the one that sorting puts at the rank, in rows of one part and of several, of few values
// and of many, without NaN, with some, and of nothing else.
class RankSelection : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Forms, RankSelection, ::testing::Values(false, true),
                         [](const auto& form) { return form.param ? "OfGpus" : "OfTheDevice"; });

TEST_P(RankSelection, FindsTheFirstOfEqualElements) {
  if (GetParam() && queue().device().info().max_work_group < 256) GTEST_SKIP() << "needs work-groups of 256";
  std::optional<testing::Setting> forms;
  if (GetParam()) forms.emplace(settings.gpu_forms);
  for (const DataType type : {DataType::float32, DataType::float64, DataType::bfloat16, DataType::float16,
                              DataType::int64, DataType::int16, DataType::uint8})
    for (const std::int64_t n : {1, 2, 100, 1001, 70000}) {
      const bool real = is_floating(type);
      if (!testing::supports(type) || (GetParam() && size_of(type) != 4 && type != DataType::int64)) continue;
      const std::int64_t rows = 4;
      std::mt19937 engine{unsigned(n)};
      std::vector<double> values(std::size_t(rows * n));
      for (std::int64_t i = 0; i < rows * n; i++) {
        const std::int64_t row = i / n;
        double value = row == 0 ? engine() % 3 : engine() % 101;
        if (row == 1 && real) value = value / 8 - 6;
        if (real && (row == 3 || (row == 2 && engine() % 3 == 0))) value = std::nan("");
        values[std::size_t(i)] = value;
      }
      const testing::DeviceTensor keys(type, {rows, n}, values);
      for (const Rank rank : {Rank::kth, Rank::median, Rank::nanmedian}) {
        const std::int64_t k = rank == Rank::kth ? n / 3 : 0;
        DeviceVector<std::int64_t> places(static_cast<std::size_t>(rows));
        select_rank(queue(), keys, {places.data(), DataType::int64, {rows}}, rank, k);
        const auto result = places.read();
        for (std::int64_t row = 0; row < rows; row++) {
          const double* x = values.data() + row * n;
          auto before = [](double a, double b) { return a < b || (std::isnan(b) && !std::isnan(a)); };
          std::vector<double> sorted(x, x + n);
          std::sort(sorted.begin(), sorted.end(), before);
          const std::int64_t numbers = n - std::count_if(x, x + n, [](double v) { return std::isnan(v); });
          std::int64_t at = k;
          if (rank == Rank::median) at = numbers < n ? numbers : (n - 1) / 2;
          if (rank == Rank::nanmedian) at = numbers ? (numbers - 1) / 2 : 0;
          const double wanted = sorted[std::size_t(at)];
          const double* first =
              std::find_if(x, x + n, [&](double v) { return v == wanted || (std::isnan(v) && std::isnan(wanted)); });
          EXPECT_EQ(result[std::size_t(row)], first - x)
              << name(type) << " " << n << " " << int(rank) << " row " << row;
        }
      }
    }
}

TEST(Sort, RanksOutsideOfTheRow) {
  DeviceVector<float> keys(8);
  DeviceVector<std::int64_t> places(2);
  for (const std::int64_t k : {std::int64_t(-1), std::int64_t(4)})
    EXPECT_THROW(select_rank(queue(), {keys.data(), DataType::float32, {2, 4}}, {places.data(), DataType::int64, {2}},
                             Rank::kth, k),
                 ValidationError);
}

TEST(Sort, Searches) {
  DeviceVector<std::int32_t> sorted(std::vector<std::int32_t>{1, 3, 3, 5}),
      values(std::vector<std::int32_t>{0, 3, 4, 9});
  DeviceVector<std::int64_t> out(4);
  for (const bool right : {false, true}) {
    search_sorted(queue(), {out.data(), DataType::int64, {4}}, {sorted.data(), DataType::int32, {1, 4}},
                  {values.data(), DataType::int32, {1, 4}}, {}, right);
    EXPECT_EQ(out.read(), right ? (std::vector<std::int64_t>{0, 3, 3, 4}) : (std::vector<std::int64_t>{0, 1, 3, 4}));
  }
}

// By local memory on GPUs: rows that fit, rows of which every so many elements are kept, several work-groups a row.
TEST(Sort, SearchesByLocalMemory) {
  const testing::Setting forced(settings.gpu_forms);
  for (const std::int64_t n : {1, 2, 1000, 4096, 4097, 70001})
    for (const std::int64_t rows : {1, 3})
      for (const bool right : {false, true}) {
        const std::int64_t count = 20011;
        std::mt19937 engine{unsigned(n)};
        std::vector<float> keys(std::size_t(rows * n)), wanted(std::size_t(rows * count));
        for (float& key : keys) key = float(engine() % 5000);
        for (std::int64_t row = 0; row < rows; row++) std::sort(keys.begin() + row * n, keys.begin() + (row + 1) * n);
        if (n > 2) keys[std::size_t(n - 1)] = std::nanf("");
        for (float& value : wanted) value = engine() % 50 == 0 ? std::nanf("") : float(engine() % 5002) - 1;
        DeviceVector<float> sorted(keys), values(wanted);
        DeviceVector<std::int32_t> out(wanted.size());
        search_sorted(queue(), {out.data(), DataType::int32, {rows, count}},
                      {sorted.data(), DataType::float32, {rows, n}}, {values.data(), DataType::float32, {rows, count}},
                      {}, right);
        const auto found = out.read();
        for (std::size_t i = 0; i < wanted.size(); i++) {
          const auto begin = keys.begin() + std::ptrdiff_t(i / std::size_t(count)) * n;
          const auto at = right ? std::upper_bound(begin, begin + n, wanted[i], less)
                                : std::lower_bound(begin, begin + n, wanted[i], less);
          ASSERT_EQ(found[i], at - begin) << n << " " << rows << " " << right << " " << wanted[i];
        }
      }
}

// Without their order.
TEST_P(SortCandidate, WritesOnlyTheSortedElements) {
  const testing::Variable forced("DLPRIM_SORT", GetParam());
  for (const std::int64_t n : {100, 9001}) {
    std::vector<std::int32_t> host(std::size_t(2 * n));
    std::mt19937 engine{unsigned(n)};
    for (auto& value : host) value = std::int32_t(engine());
    DeviceVector<std::int32_t> keys(host), sorted(host.size());
    sort_order(queue(), {keys.data(), DataType::int32, {2, n}}, {}, false, {sorted.data(), DataType::int32, {2, n}});
    for (const std::int64_t row : {0, 1}) std::sort(host.begin() + row * n, host.begin() + (row + 1) * n);
    EXPECT_EQ(sorted.read(), host) << n;
  }
}

TEST(Sort, HeadsOfSortedKeysAndTheirRuns) {
  for (const std::int64_t n : {1, 7, 4100, 10000})
    for (const std::int64_t skip : {0, 1}) {
      std::vector<std::int32_t> host(std::size_t(n + skip));
      for (std::int64_t i = 0; i < n; i++) host[std::size_t(i + skip)] = std::int32_t(i * i / (3 * n));
      DeviceVector<std::int32_t> keys(host);
      std::vector<std::int64_t> reversed(static_cast<std::size_t>(n)), expected(reversed.size());
      std::vector<std::uint8_t> marks(reversed.size());
      for (std::int64_t i = 0, kind = 0; i < n; i++) {
        marks[std::size_t(i)] = i == 0 || host[std::size_t(i + skip)] != host[std::size_t(i + skip - 1)];
        kind += i > 0 && marks[std::size_t(i)];
        reversed[std::size_t(i)] = n - 1 - i, expected[std::size_t(i)] = kind;
      }
      DeviceVector<std::uint8_t> heads(marks.size());
      DeviceVector<std::int64_t> places(reversed), runs(reversed.size());
      TensorView view{keys.data(), DataType::int32, {n, 1}};
      view.data.offset += std::size_t(skip) * 4;
      const TensorView mask{heads.data(), DataType::boolean, {n}}, out{runs.data(), DataType::int64, {n}};
      run_heads(queue(), view, {}, mask);
      ASSERT_EQ(heads.read(), marks) << n;
      Compaction compaction(queue(), mask);
      compaction.runs(out);
      EXPECT_EQ(runs.read(), expected) << n;
      compaction.runs(out, {places.data(), DataType::int64, {n}});
      std::reverse(expected.begin(), expected.end());
      EXPECT_EQ(runs.read(), expected) << n;
    }
}

// By parts of the rows on GPUs: few values, so that equal ones lie in many parts.
TEST(SelectPlaces, OfLongRows) {
  const testing::Variable forced("DLPRIM_SORT", "radix");
  for (const std::int64_t n : {50257, 200003})
    for (const std::int64_t k : {1, 50}) {
      std::mt19937 engine{unsigned(n + k)};
      std::vector<float> host(std::size_t(2 * n));
      for (std::int64_t i = 0; i < 2 * n; i++) host[std::size_t(i)] = i < n ? float(engine() % 9) : float(engine());
      DeviceVector<float> keys(host);
      const TensorView rows{keys.data(), DataType::float32, {2, n}};
      DeviceVector<std::int64_t> places(std::size_t(2 * k)), order(host.size());
      if (!select_places(queue(), rows, {places.data(), DataType::int64, {2, k}}, true)) continue;  // sorting is faster
      sort_order(queue(), rows, {order.data(), DataType::int64, {2, n}}, true);
      auto sorted = order.read();
      const auto result = places.read();
      for (std::int64_t row = 0; row < 2; row++) {
        std::sort(sorted.begin() + row * n, sorted.begin() + row * n + k);
        ASSERT_TRUE(std::equal(result.begin() + row * k, result.begin() + (row + 1) * k, sorted.begin() + row * n))
            << n << " " << k << " row " << row;
      }
    }
}

// Two of 256 values are not zero: what is equal to the last one taken is more than local memory has room for, or less.
TEST(SelectPlaces, AmongManyEqual) {
  const testing::Variable forced("DLPRIM_SORT", "radix");
  const std::int64_t n = 10000, k = 40;
  for (const int zeros : {2, 9000}) {
    std::vector<std::int32_t> host(static_cast<std::size_t>(n));
    for (std::int64_t i = 0; i < n; i++) host[std::size_t(i)] = i < n - zeros ? int(3 + i % 3) : 0;
    DeviceVector<std::int32_t> keys(host);
    DeviceVector<std::int64_t> places(k);
    ASSERT_TRUE(select_places(queue(), {keys.data(), DataType::int32, {1, n}}, {places.data(), DataType::int64, {1, k}},
                              false));
    std::vector<std::int64_t> expected;
    for (std::int64_t i = 0; zeros == 2 && i < 3 * (k - 2); i += 3) expected.push_back(i);
    for (std::int64_t i = n - zeros; std::int64_t(expected.size()) < k; i++) expected.push_back(i);
    EXPECT_EQ(places.read(), expected) << zeros;
  }
}

TEST(Compact, NumbersSelectsAndScatters) {
  for (const std::int64_t n : {0, 1, 2047, 2048, 4096, 5000, 300000}) {
    std::vector<std::uint8_t> host(static_cast<std::size_t>(n));
    std::mt19937 engine(1);
    for (auto& m : host) m = n == 4096 || engine() % 3 == 0;
    std::vector<std::int64_t> expected;
    for (std::int64_t i = 0; i < n; i++)
      if (host[std::size_t(i)]) expected.push_back(i);
    DeviceVector<std::uint8_t> mask(host);
    Compaction compaction(queue(), {mask.data(), DataType::boolean, {n}});
    const std::int64_t count = compaction.count();
    const auto size = static_cast<std::size_t>(count), all = static_cast<std::size_t>(n);
    ASSERT_EQ(size, expected.size());
    if (count == 0) continue;
    DeviceVector<std::int64_t> at(size), ranks(all);
    compaction.coordinates({at.data(), DataType::int64, {count, 1}}, count);
    ASSERT_EQ(at.read(), expected);
    compaction.ranks({ranks.data(), DataType::int64, {n}});
    ASSERT_EQ(ranks.read().back(), count);
    const auto values = testing::random_floats(std::size_t(n));
    DeviceVector<float> source(values), out(size), back(std::vector<float>(all, 7));
    compaction.select({out.data(), DataType::float32, {count}}, {source.data(), DataType::float32, {n}});
    compaction.scatter({back.data(), DataType::float32, {n}}, {out.data(), DataType::float32, {count}});
    const auto result = back.read();
    for (std::size_t i = 0; i < result.size(); i++) ASSERT_EQ(result[i], host[i] ? values[i] : 7);
  }
}

// Elements that are no bytes, and bytes that do not begin where vectors may.
TEST(Compact, MasksOfAnyKind) {
  const std::int64_t n = 9000;
  std::vector<double> values(static_cast<std::size_t>(n));
  std::mt19937 engine(2);
  for (auto& v : values) v = engine() % 5 ? 0 : double(engine() % 100) + 1;
  for (const DataType type : {DataType::float32, DataType::int64, DataType::uint8})
    for (const std::int64_t skip : {0, 3}) {
      const testing::DeviceTensor mask(type, {n}, values);
      TensorView view = mask;
      view.data.offset += std::size_t(skip) * size_of(type), view.sizes[0] = n - skip;
      Compaction compaction(queue(), view);
      std::vector<std::int64_t> expected;
      for (std::int64_t i = skip; i < n; i++)
        if (values[std::size_t(i)] != 0) expected.push_back(i - skip);
      ASSERT_EQ(compaction.count(), std::int64_t(expected.size())) << name(type) << " " << skip;
      DeviceVector<std::int64_t> at(expected.size());
      compaction.coordinates({at.data(), DataType::int64, {std::int64_t(expected.size()), 1}}, view.numel());
      EXPECT_EQ(at.read(), expected) << name(type) << " " << skip;
    }
}

}  // namespace
}  // namespace dlprim
