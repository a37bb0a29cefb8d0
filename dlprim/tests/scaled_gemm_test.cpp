// SPDX-License-Identifier: MIT
// Products of 8-bit floats with scales: by the core for Hopper's matrix units, emulated where there are none, and by way
// of bfloat16.
#include <dlprim/primitives/scaled_gemm.hpp>
#include <dlprim/runtime/profile.hpp>

#include <algorithm>
#include <cmath>

#include "floats.hpp"
#include "gemm/core.hpp"

namespace dlprim {
namespace {

using testing::Elements;
using testing::queue;
using testing::Variable;

struct Case {
  std::int64_t m, n, k;
  SmallFloat a_kind = SmallFloat::e4m3fn, b_kind = SmallFloat::e4m3fn;
  DataType result = DataType::bfloat16;
  bool lines = false, fast_sums = false;
  std::optional<DataType> bias = {};
  bool across_k = false, by_columns = false;  // B is contiguous along n; C along m
};

using Sizes = std::vector<std::int64_t>;

// Numbers that 8-bit floats hold: bytes of them, and what they stand for.
struct Bytes {
  Elements bytes;
  std::vector<double> numbers;
  Bytes(std::int64_t count, SmallFloat kind, unsigned seed) : bytes(DataType::uint8, std::size_t(count), seed) {
    const Elements floats(DataType::float32, std::size_t(count), seed);
    const TensorView wide{floats.data(), DataType::float32, Sizes{count}};
    const TensorView narrow{bytes.data(), DataType::uint8, Sizes{count}};
    convert(queue(), narrow, kind, wide, {});
    convert(queue(), wide, {}, narrow, kind);
    numbers = floats.read();
  }
  double at(std::int64_t i) const { return numbers[std::size_t(i)]; }
};

void check(const Case& t) {
  SCOPED_TRACE(::testing::Message() << t.m << " x " << t.n << " x " << t.k << " to " << name(t.result));
  const Bytes a(t.m * t.k, t.a_kind, 1), b(t.k * t.n, t.b_kind, 2);
  const Elements rows(DataType::float32, std::size_t(t.m), 3), columns(DataType::float32, std::size_t(t.n), 4);
  const Elements bias(t.bias.value_or(DataType::float32), std::size_t(t.n), 5), c(t.result, std::size_t(t.m * t.n), 6);
  ScaledGemmOptions options;
  options.a_scale = rows.data(), options.b_scale = columns.data(), options.lines = t.lines;
  options.fast_sums = t.fast_sums;
  if (t.bias) options.bias = {bias.data(), bias.type(), Sizes{t.n}};
  const auto b_at = [&](std::int64_t l, std::int64_t j) { return t.across_k ? l * t.n + j : j * t.k + l; };
  scaled_gemm(queue(), {a.bytes.data(), DataType::uint8, Sizes{t.m, t.k}}, t.a_kind,
              {b.bytes.data(), DataType::uint8, Sizes{t.k, t.n}, t.across_k ? Sizes{t.n, 1} : Sizes{1, t.k}}, t.b_kind,
              {c.data(), t.result, Sizes{t.m, t.n}, t.by_columns ? Sizes{1, t.m} : Sizes{t.n, 1}}, options);
  const std::vector<double> got = c.read();
  double largest = 0, error = 0;
  for (std::int64_t i = 0; i < t.m; i++)
    for (std::int64_t j = 0; j < t.n; j++) {
      double sum = 0;
      for (std::int64_t l = 0; l < t.k; l++) sum += a.at(i * t.k + l) * b.at(b_at(l, j));
      sum *= rows.host(std::size_t(t.lines ? i : 0)) * columns.host(std::size_t(t.lines ? j : 0));
      if (t.bias) sum += bias.host(std::size_t(j));
      largest = std::max(largest, std::abs(sum));
      error = std::max(error, std::abs(sum - got[std::size_t(t.by_columns ? j * t.m + i : i * t.n + j)]));
    }
  EXPECT_LE(error, largest * (testing::epsilon(t.result) + (t.fast_sums ? 1e-3 : 2e-4)));
}

void check_all() {
  const DataType f16 = DataType::float16, bf16 = DataType::bfloat16, f32 = DataType::float32;
  const SmallFloat e5m2 = SmallFloat::e5m2, e4m3 = SmallFloat::e4m3fn;
  check({72, 80, 144});
  check({65, 136, 272, e5m2, e4m3, f16, true});
  check({130, 72, 400, e4m3, e5m2, f32, true, true});
  check({72, 80, 144, e4m3, e4m3, bf16, true, false, bf16});
  check({72, 80, 144, e4m3, e4m3, bf16, false, true, f32});
  check({40, 64, 96, e4m3, e4m3, f16, true, false, {}, true});
  check({48, 64, 96, e4m3, e5m2, bf16, true, false, {}, false, true});
  check({3, 5, 34, e4m3, e4m3, f32, true});
  check({4, 6, 0});
}

TEST(ScaledGemm, AgreesWithHost) {
  check_all();
  check({20, 24, 33, SmallFloat::e4m3fnuz, SmallFloat::e5m2fnuz, DataType::float32, true});
}

class ScaledGemmOfTensorMaps : public ::testing::TestWithParam<const char*> {};

TEST_P(ScaledGemmOfTensorMaps, AgreesWithHost) {
  const Variable forced("DLPRIM_GEMM", "tma_scaled"), tile("DLPRIM_GEMM_TILE", GetParam());
  check_all();
  const Variable split("DLPRIM_GEMM_SPLIT", "2");
  check({72, 80, 528, SmallFloat::e4m3fn, SmallFloat::e4m3fn, DataType::bfloat16, true, false, DataType::bfloat16});
  check({72, 81, 528, SmallFloat::e5m2, SmallFloat::e4m3fn, DataType::float16, true});
}

INSTANTIATE_TEST_SUITE_P(All, ScaledGemmOfTensorMaps, ::testing::Values("64x64x128x64x64x2", "128x128x128x64x128x2"),
                         [](const auto& tile) { return std::string(tile.param); });

TEST(ScaledGemm, WritesBytes) {
  const std::int64_t n = 16;
  const Bytes a(n * n, SmallFloat::e4m3fn, 1), b(n * n, SmallFloat::e5m2, 2);
  const Elements scale(DataType::float32, 1, 3), c(DataType::uint8, std::size_t(n * n), 4);
  const auto matrix = [&](const Elements& of) { return TensorView(of.data(), of.type(), Sizes{n, n}); };
  ScaledGemmOptions options;
  options.a_scale = options.b_scale = options.c_scale = scale.data();
  options.c_kind = SmallFloat::e4m3fn;
  scaled_gemm(queue(), matrix(a.bytes), SmallFloat::e4m3fn, matrix(b.bytes), SmallFloat::e5m2, matrix(c), options);
  const Elements wide(DataType::float32, std::size_t(n * n), 5);
  convert(queue(), matrix(wide), {}, matrix(c), SmallFloat::e4m3fn);
  const std::vector<double> got = wide.read();
  for (std::int64_t i = 0; i < n * n; i++) {
    double sum = 0;
    for (std::int64_t l = 0; l < n; l++) sum += a.at(i / n * n + l) * b.at(l * n + i % n);
    sum *= std::pow(scale.host(0), 3);
    EXPECT_NEAR(got[std::size_t(i)], sum, std::abs(sum) / 15 + 0.001);
  }
}

// The matrix unit serves factors whose conversions limit numbers, too: the same bytes.
TEST(ScaledGemm, ReadsSaturatingBytesAlike) {
  const Variable forced("DLPRIM_GEMM", "tma_scaled");
  const Bytes a(16 * 32, SmallFloat::e4m3fn, 1), b(16 * 32, SmallFloat::e4m3fn, 2);
  const Elements one(DataType::float32, 1, 3), c(DataType::float32, 16 * 16, 4);
  const auto product = [&](SmallFloat kind) {
    const ScaledGemmOptions options{.a_scale = one.data(), .b_scale = one.data()};
    const auto first = Profiler::start();
    scaled_gemm(queue(), {a.bytes.data(), DataType::uint8, Sizes{16, 32}}, kind,
                {b.bytes.data(), DataType::uint8, Sizes{32, 16}, Sizes{1, 32}}, kind,
                {c.data(), DataType::float32, Sizes{16, 16}}, options);
    std::vector<std::string> kernels;
    for (const ProfiledCommand& command : Profiler::stop(first)) kernels.push_back(command.name);
    return std::pair(kernels, c.read());
  };
  product(SmallFloat::e4m3fn);  // builds the kernels
  const auto [kernels, expected] = product(SmallFloat::e4m3fn);
  const DeviceInfo& info = queue().device().info();
  const bool emulates = info.max_work_group >= 512 && info.local_memory >= 49152;  // rusticl has too little of it
  EXPECT_EQ(std::ranges::count(kernels, "gemm_tma"), emulates ? 1 : 0) << ::testing::PrintToString(kernels);
  EXPECT_EQ(product(SmallFloat::e4m3fn_saturating), std::pair(kernels, expected));
}

// What is not a number or too large is so in the result.
TEST(ScaledGemm, KeepsWhatIsNotFinite) {
  const Elements a(DataType::uint8, 32, 1), b(DataType::uint8, 32, 2), one(DataType::float32, 1, 3);
  const Elements c(DataType::float32, 1, 4);
  const auto product = [&](std::uint8_t x, std::uint8_t y, SmallFloat kind) {
    std::vector<std::uint8_t> left(32, 0x38), right(32, 0x38);  // 1 of e4m3
    left[5] = x, right[5] = y;
    queue().write(a.data(), left.data(), 32, true), queue().write(b.data(), right.data(), 32, true);
    const ScaledGemmOptions options{.a_scale = one.data(), .b_scale = one.data()};
    scaled_gemm(queue(), {a.data(), DataType::uint8, Sizes{1, 32}}, SmallFloat::e4m3fn,
                {b.data(), DataType::uint8, Sizes{32, 1}}, kind, {c.data(), DataType::float32, Sizes{1, 1}}, options);
    return c.read()[0];
  };
  for (const char* core : {"", "tma_scaled"}) {
    const Variable forced("DLPRIM_GEMM", core);
    EXPECT_TRUE(std::isnan(product(0x7f, 0x38, SmallFloat::e4m3fn)));
    EXPECT_TRUE(std::isnan(product(0xff, 0x38, SmallFloat::e4m3fn)));
    EXPECT_TRUE(std::isinf(product(0x38, 0x7c, SmallFloat::e5m2)));
    EXPECT_TRUE(std::isnan(product(0x00, 0x7c, SmallFloat::e5m2)));
  }
}

TEST(ScaledGemm, RejectsWhatDoesNotMatch) {
  const Elements x(DataType::uint8, 64, 1), wide(DataType::float32, 64, 2);
  const auto matrix = [&](const Elements& of, Sizes sizes) { return TensorView(of.data(), of.type(), sizes); };
  const SmallFloat kind = SmallFloat::e4m3fn;
  const ScaledGemmOptions options{.a_scale = wide.data(), .b_scale = wide.data()};
  EXPECT_THROW(scaled_gemm(queue(), matrix(x, {8, 8}), kind, matrix(x, {4, 8}), kind, matrix(wide, {8, 8}), options),
               ValidationError);
  EXPECT_THROW(scaled_gemm(queue(), matrix(wide, {8, 8}), kind, matrix(x, {8, 8}), kind, matrix(wide, {8, 8}), options),
               ValidationError);
  EXPECT_THROW(scaled_gemm(queue(), matrix(x, {8, 8}), kind, matrix(x, {8, 8}), kind, matrix(x, {8, 8}), options),
               ValidationError);
}

}  // namespace
}  // namespace dlprim
