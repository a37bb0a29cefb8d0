// SPDX-License-Identifier: MIT
#include <dlprim/primitives/random.hpp>
#include <dlprim/runtime/launch.hpp>

#include <algorithm>
#include <numeric>

#include "tensors.hpp"

namespace dlprim::testing {

namespace {
struct Moments {
  double mean = 0, variance = 0, low = INFINITY, high = -INFINITY;
};
Moments moments(const std::vector<double>& values) {
  Moments m;
  for (double v : values) m.mean += v / double(values.size()), m.low = std::min(m.low, v), m.high = std::max(m.high, v);
  for (double v : values) m.variance += (v - m.mean) * (v - m.mean) / double(values.size());
  return m;
}
std::vector<DataType> floating() {
  std::vector<DataType> types{DataType::float32, DataType::float16, DataType::bfloat16};
  if (supports(DataType::float64)) types.push_back(DataType::float64);
  return types;
}
constexpr std::int64_t count = 100003;
}  // namespace

// The three known answers of the Random123 distribution for philox4x32 with 10 rounds.
TEST(Random, PhiloxKnownAnswers) {
  struct Case {
    std::uint32_t counter[4], key[2], expected[4];
  };
  const Case cases[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  auto kernel = queue().device().programs().build(KernelSource::from_text(
      "#include \"lib/types.clh\"\n#include \"lib/philox.clh\"\n"
      "__kernel void known(GLOBAL(uint, out), uint4 c, uint2 k) { vstore4(philox4x32(c, k), 0, POINTER(uint, out)); }",
      "known"));
  for (const Case& c : cases) {
    DeviceTensor out(DataType::uint32, {4});
    cl_uint4 counter{{c.counter[0], c.counter[1], c.counter[2], c.counter[3]}};
    cl_uint2 key{{c.key[0], c.key[1]}};
    launch(queue(), *kernel, NDRange(1), out.view().data, counter, key);
    EXPECT_EQ(out.read(), std::vector<double>(c.expected, c.expected + 4));
  }
}

TEST(Random, MomentsOfDistributions) {
  struct Case {
    Distribution distribution;
    double a, b, mean, variance;
  };
  const Case cases[] = {
      {Distribution::uniform, -1, 3, 1, 16.0 / 12}, {Distribution::normal, 0.5, 2, 0.5, 4},
      {Distribution::exponential, 2, 0, 0.5, 0.25}, {Distribution::geometric, 0.25, 0, 4, 12},
      {Distribution::bernoulli, 0.3, 0, 0.3, 0.21}, {Distribution::log_normal, 0, 0.25, 1.0317, 0.0687},
  };
  for (const Case& c : cases)
    for (DataType type : floating()) {
      DeviceTensor out(type, {count});
      random_fill(queue(), out, c.distribution, c.a, c.b, {42, 7});
      const Moments m = moments(out.read());
      EXPECT_NEAR(m.mean, c.mean, 0.03 * std::max(1.0, std::sqrt(c.variance))) << int(c.distribution) << name(type);
      EXPECT_NEAR(m.variance, c.variance, 0.05 * std::max(0.2, c.variance)) << int(c.distribution) << name(type);
    }
}

TEST(Random, UniformStaysBelowItsBound) {
  for (DataType type : floating()) {
    DeviceTensor out(type, {1 << 20});
    random_fill(queue(), out, Distribution::uniform, 0, 1, {1, 0});
    const Moments m = moments(out.read());
    EXPECT_GE(m.low, 0) << name(type);
    EXPECT_LT(m.high, 1) << name(type);
  }
}

TEST(Random, EqualStatesGiveEqualNumbersAndOthersDiffer) {
  auto draw = [](PhiloxState state) {
    DeviceTensor out(DataType::float32, {1001});
    random_fill(queue(), out, Distribution::normal, 0, 1, state);
    return out.read();
  };
  EXPECT_EQ(draw({5, 9}), draw({5, 9}));
  EXPECT_NE(draw({5, 9}), draw({5, 10}));
  EXPECT_NE(draw({5, 9}), draw({6, 9}));
}

TEST(Random, IntegersCoverTheirRange) {
  for (DataType type : {DataType::int64, DataType::int32, DataType::int16, DataType::int8, DataType::uint8,
                        DataType::float32, DataType::boolean}) {
    DeviceTensor out(type, {count});
    const std::uint64_t range = type == DataType::boolean ? 2 : 11;
    const std::int64_t base = type == DataType::uint8 || type == DataType::boolean ? 0 : -5;
    random_integers(queue(), out, range, base, {3, 1});
    const Moments m = moments(out.read());
    EXPECT_EQ(m.low, double(base)) << name(type);
    EXPECT_EQ(m.high, double(base) + double(range) - 1) << name(type);
    EXPECT_NEAR(m.mean, double(base) + double(range - 1) / 2, 0.05) << name(type);
  }
  DeviceTensor wide(DataType::int64, {count});
  random_integers(queue(), wide, 0, 0, {3, 1});
  EXPECT_NEAR(moments(wide.read()).mean / 0x1p63, 0, 0.02);
}

TEST(Random, ParametersPerElement) {
  std::vector<double> p(count);
  for (std::int64_t i = 0; i < count; i++) p[std::size_t(i)] = i % 2 ? 0.75 : 0;
  DeviceTensor probability(DataType::float32, {count}, p), flags(DataType::boolean, {count});
  random_bernoulli(queue(), flags, probability, {11, 0});
  const auto drawn = flags.read();
  EXPECT_NEAR(moments(drawn).mean, 0.375, 0.01);
  for (std::size_t i = 0; i < drawn.size(); i += 2) ASSERT_EQ(drawn[i], 0);

  DeviceTensor out(DataType::float32, {count});
  for (double rate : {0.5, 4.0, 40.0}) {
    DeviceTensor a(DataType::float32, {count}, std::vector<double>(count, rate));
    random_gamma(queue(), out, a, {1, 2});
    EXPECT_NEAR(moments(out.read()).mean, rate, 0.03 * rate);
    EXPECT_NEAR(moments(out.read()).variance, rate, 0.06 * rate);
    random_poisson(queue(), out, a, {1, 3});
    EXPECT_NEAR(moments(out.read()).mean, rate, 0.03 * rate);
    EXPECT_NEAR(moments(out.read()).variance, rate, 0.06 * rate);
  }
  for (double n : {1.0, 8.0, 200.0})
    for (double chance : {0.1, 0.8}) {
      DeviceTensor a(DataType::float32, {count}, std::vector<double>(count, n));
      DeviceTensor b(DataType::float32, {count}, std::vector<double>(count, chance));
      random_binomial(queue(), out, a, b, {1, 4});
      const Moments m = moments(out.read());
      EXPECT_NEAR(m.mean, n * chance, 0.02 * n * chance) << n << " " << chance;
      EXPECT_NEAR(m.variance, n * chance * (1 - chance), 0.05 * n * chance * (1 - chance)) << n << " " << chance;
      EXPECT_LE(m.high, n);
    }
}

// No sample lies there; looking for one must end.
TEST(Random, ParametersOfNoDistribution) {
  const double nan = std::nan(""), infinite = std::numeric_limits<double>::infinity();
  DeviceTensor a(DataType::float32, {4}, {nan, -1, -infinite, infinite}), out(DataType::float32, {4});
  DeviceTensor half(DataType::float32, {4}, std::vector<double>(4, 0.5));
  for (auto* draw : {&random_gamma, &random_poisson}) {
    draw(queue(), out, a, {1, 2});
    const auto drawn = out.read();
    for (std::size_t i = 0; i < 3; i++) EXPECT_TRUE(std::isnan(drawn[i])) << i;
    EXPECT_EQ(drawn[3], infinite);
  }
  random_binomial(queue(), out, a, half, {1, 4});
  const auto drawn = out.read();
  EXPECT_EQ(drawn[1], 0);
  for (const std::size_t i : {0, 2, 3}) EXPECT_TRUE(std::isnan(drawn[i])) << i;
}

TEST(Random, PermutationsHoldEveryNumberOnce) {
  for (std::int64_t n : {1, 2, 3, 4, 5, 17, 256, 1000, 65537}) {
    DeviceTensor out(DataType::int64, {n});
    random_permutation(queue(), out, {123, 4});
    auto values = out.read();
    if (n > 100) EXPECT_FALSE(std::is_sorted(values.begin(), values.end()));
    std::sort(values.begin(), values.end());
    for (std::int64_t i = 0; i < n; i++) ASSERT_EQ(values[std::size_t(i)], double(i)) << n;
  }
}

// All 6 orders of three elements come up equally often.
TEST(Random, SmallPermutationsAreUniform) {
  std::vector<int> seen(27);
  for (std::uint64_t offset = 0; offset < 1200; offset++) {
    DeviceTensor out(DataType::int64, {3});
    random_permutation(queue(), out, {7, offset});
    const auto v = out.read();
    seen[std::size_t(v[0] * 9 + v[1] * 3 + v[2])]++;
  }
  int orders = 0;
  for (int times : seen) {
    if (times == 0) continue;
    orders++;
    EXPECT_NEAR(times, 200, 60);
  }
  EXPECT_EQ(orders, 6);
}

TEST(Random, CategoriesFollowTheirWeights) {
  DeviceTensor cumulative(DataType::float32, {2, 4}, {0, 1, 1, 4, 2, 2, 2, 2}), out(DataType::int64, {2, 50000});
  random_categorical(queue(), cumulative, out, {9, 9});
  const auto drawn = out.read();
  double ones = 0;
  for (std::size_t i = 0; i < 50000; i++) {
    ASSERT_TRUE(drawn[i] == 1 || drawn[i] == 3);
    ones += drawn[i] == 1;
    ASSERT_EQ(drawn[50000 + i], 0);
  }
  EXPECT_NEAR(ones / 50000, 0.25, 0.01);
}

TEST(Random, DropoutScalesWhatItKeeps) {
  for (DataType type : floating()) {
    DeviceTensor in(type, {count}, std::vector<double>(count, 3)), out(type, {count}), mask(DataType::boolean, {count});
    dropout(queue(), in, out, mask, 0.25, {8, 1});
    const auto kept = mask.read(), values = out.read();
    EXPECT_NEAR(moments(kept).mean, 0.75, 0.01);
    for (std::size_t i = 0; i < kept.size(); i++) ASSERT_NEAR(values[i], kept[i] ? 4 : 0, 1e-6);
  }
}

TEST(Random, RefusesWhatItCannotFill) {
  DeviceTensor out(DataType::float32, {4, 4}), mask(DataType::boolean, {3});
  EXPECT_THROW(random_fill(queue(), out.view().narrowed(1, 0, 2), Distribution::uniform, 0, 1, {}), ValidationError);
  EXPECT_THROW(dropout(queue(), out, out, mask, 0.5, {}), ValidationError);
}

}  // namespace dlprim::testing
