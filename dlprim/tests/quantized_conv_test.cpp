// SPDX-License-Identifier: MIT
// Convolutions of bytes by the CPU's dot products against exact sums on the host.
#include <dlprim/primitives/quantized_conv.hpp>

#include <algorithm>
#include <random>

#include "conv_case.hpp"

namespace dlprim {
namespace {

using namespace testing::conv;

bool serves() { return has_quantized_conv(testing::device()); }

// Bytes of all values on the device, with their numbers on the host.
struct Bytes {
  std::vector<std::int64_t> numbers;
  DataType type;
  Workspace memory;
  Bytes(DataType type, std::int64_t size, unsigned seed, std::int64_t least = -128)
      : numbers(std::size_t(size)), type(type), memory(testing::queue(), std::size_t(size)) {
    std::minstd_rand random(seed);
    std::vector<std::uint8_t> bytes(numbers.size());
    const std::int64_t low = type == DataType::int8 ? least : 0;
    for (std::size_t i = 0; i < bytes.size(); i++) {
      numbers[i] = low + std::int64_t(random()) % ((type == DataType::int8 ? 128 : 256) - low);
      bytes[i] = std::uint8_t(numbers[i]);
    }
    testing::queue().write(memory.data(), bytes.data(), bytes.size(), true);
  }
};

struct Types {
  DataType x, y;
};

// What one result is to be, by the sum that belongs to it.
double expected(std::int64_t sum, float scale, const QuantizedConv& q, DataType type) {
  const double real = double(float(sum) * scale);
  if (type == DataType::int32) return double(sum);
  if (type == DataType::float32) return real;
  const double low = type == DataType::int8 ? -128 : 0;
  return std::clamp(std::nearbyint(real) + double(q.y_zero), low, low + 255);
}

void check(const Case& t, const Types& types, bool biased, std::optional<Workspace>* kept = nullptr) {
  if (!has_quantized_conv(testing::device(), t.w, t.options.groups)) FAIL() << t.label << " is not taken";
  const Sizes y = output_sizes(t);
  const Bytes x(types.x, numel(t.x), 1), w(DataType::int8, numel(t.w), 2);
  const testing::Elements result(types.y, std::size_t(numel(y)), 3);
  std::vector<float> scales(std::size_t(t.w[0]));
  std::vector<std::int32_t> bias(scales.size());
  const double range = 60 * std::sqrt(double(numel(t.w) / t.w[0])) * 128;
  for (std::size_t i = 0; i < scales.size(); i++)
    scales[i] = float((1 + double(i % 7) / 8) * 128 / range), bias[i] = std::int32_t(i * 977 % 40000) - 20000;
  const Workspace scale_memory(testing::queue(), scales.size() * 4), bias_memory(testing::queue(), scales.size() * 4);
  testing::queue().write(scale_memory.data(), scales.data(), scales.size() * 4, true);
  testing::queue().write(bias_memory.data(), bias.data(), bias.size() * 4, true);
  QuantizedConv q;
  q.x_zero = types.x == DataType::int8 ? -3 : 119, q.y_zero = types.y == DataType::int8 ? 5 : 130;
  if (types.y != DataType::int32) q.scale = TensorView(scale_memory.data(), DataType::float32, {t.w[0]});
  if (biased) q.bias = TensorView(bias_memory.data(), DataType::int32, {t.w[0]});
  const TensorView xv(x.memory.data(), types.x, t.x, strides(t.x, t.x_last));
  const TensorView wv(w.memory.data(), DataType::int8, t.w, strides(t.w, t.w_last));
  quantized_conv(testing::queue(), xv, wv, view(result, y, true), t.options, q, kept);

  std::vector<std::int64_t> sums(std::size_t(numel(y)));
  const std::int64_t positions = numel(y) / (y[0] * y[1]);
  for (std::size_t i = 0; i < sums.size(); i++)
    sums[i] = biased ? bias[std::size_t(std::int64_t(i) / positions % y[1])] : 0;
  const Sizes sx = strides(t.x, t.x_last), sw = strides(t.w, t.w_last), sy = strides(y, true);
  products(t, y, [&](std::int64_t xi, std::int64_t wi, std::int64_t yi) {
    sums[std::size_t(yi)] +=
        (x.numbers[std::size_t(offset(xi, t.x, sx))] - q.x_zero) * w.numbers[std::size_t(offset(wi, t.w, sw))];
  });
  const std::vector<double> values = result.read();
  int wrong = 0;
  for (std::size_t i = 0; i < sums.size(); i++) {
    const float scale = scales[std::size_t(std::int64_t(i) / positions % y[1])];
    const double wanted = expected(sums[i], scale, q, types.y);
    const double got = values[std::size_t(offset(std::int64_t(i), y, sy))];
    if (got != wanted && wrong++ < 3)
      ADD_FAILURE() << t.label << ": " << got << " instead of " << wanted << " at " << i;
  }
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {"one tap", {2, 64, 9, 7}, {40, 64, 1, 1}, {}, {}, true},
      {"windows", {1, 32, 11, 13}, {48, 32, 3, 3}, {{1, 1, 1}, {1, 1, 0}}, {}, true},
      {"rows of weights", {2, 20, 12, 9}, {33, 20, 3, 3}, {{2, 2, 1}, {1, 1, 0}}, {}, true, true},
      {"images in rows", {2, 24, 10, 10}, {17, 24, 3, 2}, {{1, 2, 1}, {0, 1, 0}, {2, 1, 1}}},
      {"odd channels", {1, 19, 8, 8}, {5, 19, 3, 3}, {{1, 1, 1}, {2, 2, 0}, {2, 2, 1}}, {}, true},
      {"colours", {2, 3, 30, 29}, {64, 3, 7, 7}, {{2, 2, 1}, {3, 3, 0}}},
      {"colours side by side", {1, 3, 12, 14}, {24, 3, 3, 3}, {{2, 2, 1}, {0, 0, 0}}, {1, 1}, true},
      {"eight channels", {1, 8, 9, 16}, {16, 8, 5, 4}, {{1, 3, 1}, {2, 2, 0}}, {2, 1}, true},
      {"few channels apart", {1, 6, 9, 16}, {16, 6, 3, 3}, {{1, 1, 1}, {2, 2, 0}, {2, 2, 1}}},
      {"one dimension", {2, 36, 50}, {70, 36, 5}, {{2, 1, 1}, {2, 0, 0}}, {}, true},
      {"few of one dimension", {2, 2, 50}, {70, 2, 9}, {{3, 1, 1}, {4, 0, 0}}},
      {"volumes", {1, 12, 5, 6, 7}, {20, 12, 2, 3, 3}, {{1, 2, 1}, {1, 1, 1}}, {}, true},
      {"points", {1, 128, 70}, {200, 128, 1}, {}, {}, true},
      {"groups of 8", {2, 40, 9, 7}, {40, 8, 3, 3}, {{2, 1, 1}, {1, 1, 0}, {1, 1, 1}, 5}, {}, true},
      {"groups of 4", {1, 24, 9, 7}, {24, 4, 3, 3}, {{1, 1, 1}, {1, 1, 0}, {1, 1, 1}, 6}, {}, true, true},
      {"groups of 8 to 4 rows", {1, 32, 6, 7}, {16, 8, 2, 3}, {{1, 1, 1}, {1, 1, 0}, {1, 2, 1}, 4}},
      {"groups of 4 to 8 rows", {1, 16, 6, 7}, {32, 4, 1, 1}, {{1, 1, 1}, {0, 0, 0}, {1, 1, 1}, 4}, {}, true},
      {"groups of 24", {2, 72, 9, 7}, {72, 24, 3, 3}, {{1, 2, 1}, {1, 1, 0}, {1, 1, 1}, 3}, {}, true, true},
      {"groups of 12 to 20 rows", {1, 36, 6, 7}, {60, 12, 3, 3}, {{1, 1, 1}, {2, 1, 0}, {1, 1, 1}, 3}},
      {"two groups", {1, 128, 5, 5}, {224, 64, 3, 3}, {{1, 1, 1}, {1, 1, 0}, {1, 1, 1}, 2}, {}, true},
      {"groups of a line", {2, 32, 30}, {48, 16, 7}, {{2, 1, 1}, {3, 0, 0}, {1, 1, 1}, 2}, {}, true},
      {"groups of volumes", {1, 16, 4, 5, 6}, {16, 8, 2, 3, 3}, {{1, 1, 1}, {1, 1, 1}, {1, 1, 1}, 2}, {}, true},
      {"depthwise", {2, 40, 9, 11}, {40, 1, 3, 3}, {{1, 1, 1}, {1, 1, 0}, {1, 1, 1}, 40}, {}, true},
      {"depthwise apart", {1, 33, 12, 13}, {33, 1, 5, 5}, {{2, 2, 1}, {2, 2, 0}, {1, 1, 1}, 33}},
      {"depthwise dilated", {1, 16, 12, 13}, {16, 1, 3, 2}, {{1, 1, 1}, {2, 1, 0}, {2, 3, 1}, 16}, {1, 2}, true},
      {"depthwise of 64", {2, 64, 9, 11}, {64, 1, 3, 3}, {{1, 1, 1}, {1, 1, 0}, {1, 1, 1}, 64}, {}, true},
      {"depthwise of many", {1, 150, 12, 13}, {150, 1, 5, 5}, {{2, 2, 1}, {2, 2, 0}, {1, 1, 1}, 150}},
      {"depthwise of 9 rows", {1, 80, 15, 9}, {80, 1, 9, 2}, {{1, 1, 1}, {4, 1, 0}, {1, 3, 1}, 80}, {2, 3}, true},
      {"depthwise of 4 rows", {1, 70, 12, 23}, {70, 1, 4, 1}, {{3, 1, 1}, {3, 0, 0}, {2, 1, 1}, 70}, {0, 0}, true},
      {"depthwise far", {1, 66, 5, 90}, {66, 1, 1, 3}, {{1, 1, 1}, {0, 30, 0}, {1, 33, 1}, 66}, {}, true},
      {"depthwise far of 16", {1, 16, 5, 200}, {16, 1, 2, 3}, {{1, 70, 1}, {0, 0, 0}, {1, 33, 1}, 16}, {}, true},
      {"depthwise line", {2, 130, 40}, {130, 1, 7}, {{2, 1, 1}, {3, 0, 0}, {1, 1, 1}, 130}, {}, true},
  };
  return all;
}

TEST(QuantizedConv, IsExact) {
  if (!serves()) GTEST_SKIP() << "the CPU or its driver has no dot products of bytes";
  constexpr Types all[] = {{DataType::uint8, DataType::uint8},
                           {DataType::int8, DataType::int8},
                           {DataType::uint8, DataType::int8},
                           {DataType::int8, DataType::float32}};
  std::size_t next = 0;
  for (const Case& t : cases())
    for (int i = 0; i < 2; i++) {  // in turns: each is a kernel to build
      const Types& types = all[next++ % 4];
      check(t, types, types.y != DataType::int8);
    }
}

TEST(QuantizedConv, GivesSums) {
  if (!serves()) GTEST_SKIP() << "the CPU or its driver has no dot products of bytes";
  for (const Case& t : cases())
    if (t.w[1] > 1) {
      const DataType x = t.x_last ? DataType::uint8 : DataType::int8;
      check(t, {x, DataType::int32}, t.x_last);
    }
}

TEST(QuantizedConv, KeepsWeights) {
  if (!serves()) GTEST_SKIP() << "the CPU or its driver has no dot products of bytes";
  for (const Case& t : cases()) {
    std::optional<Workspace> kept;
    if (t.x_last && t.options.groups == 1) continue;
    for (int i = 0; i < 2; i++) check(t, {DataType::uint8, DataType::uint8}, true, &kept);
  }
}

TEST(QuantizedConv, TakesGroupsOfQuads) {
  if (!serves()) GTEST_SKIP() << "the CPU or its driver has no dot products of bytes";
  const auto takes = [](Sizes w, std::int64_t groups) { return has_quantized_conv(testing::device(), w, groups); };
  EXPECT_TRUE(takes({104, 8, 3, 3}, 13));
  EXPECT_FALSE(takes({104, 8, 3, 3}, 0));
  EXPECT_FALSE(takes({104, 6, 3, 3}, 13));    // no quads
  EXPECT_FALSE(takes({103, 8, 3, 3}, 13));    // no rows for each group
  EXPECT_FALSE(takes({26, 8, 3, 3}, 13));     // groups of two rows that do not fill vectors
  EXPECT_FALSE(takes({128, 2, 3, 3}, 64));
}

TEST(QuantizedConv, RefusesOtherArguments) {
  const Workspace memory(testing::queue(), 4096);
  const auto bytes = [&](DataType type, Sizes sizes) { return TensorView(memory.data(), type, sizes); };
  const TensorView x = bytes(DataType::uint8, {1, 4, 2, 2}), w = bytes(DataType::int8, {8, 4, 1, 1}),
                   y(memory.data(), DataType::uint8, Sizes{1, 8, 2, 2}, Sizes{32, 1, 16, 8});
  QuantizedConv q;
  q.scale = bytes(DataType::float32, {8});
  const auto refused = [&](const TensorView& x, const TensorView& w, const TensorView& y, const QuantizedConv& q) {
    EXPECT_THROW(quantized_conv(testing::queue(), x, w, y, {}, q), ValidationError);
  };
  refused(bytes(DataType::float32, {1, 4, 2, 2}), w, y, q);
  refused(x, bytes(DataType::uint8, {8, 4, 1, 1}), y, q);
  refused(x, bytes(DataType::int8, {8, 5, 1, 1}), y, q);
  refused(x, w, bytes(DataType::uint8, {1, 8, 2, 2}), q);
  QuantizedConv other = q;
  other.scale = bytes(DataType::float32, {7});
  refused(x, w, y, other);
  other = q, other.x_zero = 256;
  refused(x, w, y, other);
  other = q, other.y_zero = -1;
  refused(x, w, y, other);
  other = q, other.bias = q.scale;
  refused(x, w, y, other);
}

}  // namespace
}  // namespace dlprim
