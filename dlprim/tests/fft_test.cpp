// SPDX-License-Identifier: MIT
#include <dlprim/primitives/fft.hpp>
#include <dlprim/runtime/settings.hpp>

#include <complex>

#include "tensors.hpp"

namespace dlprim {
namespace {

using namespace testing;
using Complex = std::complex<double>;
using Numbers = std::vector<Complex>;

DataType complex_of(DataType real) { return real == DataType::float64 ? DataType::complex128 : DataType::complex64; }

/// A tensor of complex numbers, kept as pairs of real ones.
struct ComplexTensor {
  DeviceTensor pairs;
  TensorView view;
  static std::vector<std::int64_t> with_pairs(std::vector<std::int64_t> sizes) {
    sizes.push_back(2);
    return sizes;
  }
  ComplexTensor(DataType real, const std::vector<std::int64_t>& sizes)
      : pairs(real, with_pairs(sizes)), view(pairs.view().data, complex_of(real), sizes) {}
  void write(const Numbers& numbers) {
    std::vector<double> values;
    for (const Complex& z : numbers) values.push_back(z.real()), values.push_back(z.imag());
    pairs.write(values);
  }
  Numbers read() const {
    const std::vector<double> values = pairs.read();
    Numbers numbers(values.size() / 2);
    for (std::size_t i = 0; i < numbers.size(); i++) numbers[i] = {values[2 * i], values[2 * i + 1]};
    return numbers;
  }
};

/// Numbers that float32 holds exactly.
Numbers random_numbers(std::size_t count, unsigned seed = 1) {
  const std::vector<float> parts = random_floats(2 * count, seed);
  Numbers numbers(count);
  for (std::size_t i = 0; i < count; i++) numbers[i] = {parts[2 * i], parts[2 * i + 1]};
  return numbers;
}

/// Number k of the transform of n numbers x[0], x[stride] ..., by its definition.
Complex transformed(const Complex* x, std::int64_t n, std::int64_t stride, std::int64_t k) {
  const long double turn = 2 * std::acos(-1.0L);
  std::complex<long double> sum = 0;
  for (std::int64_t j = 0; j < n; j++) {
    const long double angle = turn * (std::uint64_t(j) * std::uint64_t(k) % std::uint64_t(n)) / n;
    const std::complex<long double> number(x[j * stride].real(), x[j * stride].imag());
    sum += number * std::complex<long double>(std::cos(angle), -std::sin(angle));
  }
  return Complex(double(sum.real()), double(sum.imag()));
}

/// Positions to compare: all of short lines, some of long ones.
std::vector<std::int64_t> places(std::int64_t count, std::int64_t n) {
  std::vector<std::int64_t> chosen;
  const std::int64_t most = std::max<std::int64_t>(4, 400000 / n);
  for (std::int64_t k = 0; k < count; k++)
    if (count <= most || k < 2 || k + 2 >= count || (k * 7919) % count < most) chosen.push_back(k);
  if (std::int64_t(chosen.size()) > 2 * most) chosen.resize(std::size_t(2 * most));
  return chosen;
}

double bound(DataType real, std::int64_t n) {
  return (real == DataType::float64 ? 1e-15 : 5e-7) * (2 + std::log2(double(n))) * std::sqrt(double(n));
}

/// Of a failing test, the first numbers are shown.
void expect_number(Complex actual, Complex expected, double error, std::int64_t k) {
  if (std::abs(actual - expected) <= error || ::testing::Test::HasFailure()) return;
  ADD_FAILURE() << "number " << k << ": expected " << expected << ", got " << actual << ", allowed " << error;
}

// [batch, n, inner] along the middle dimension, there and, unless only `forward` is wanted, back.
void compare_complex(DataType real, std::int64_t batch, std::int64_t n, std::int64_t inner, bool forward = false) {
  SCOPED_TRACE(::testing::Message() << batch << "x" << n << "x" << inner << " " << name(real));
  ComplexTensor x(real, {batch, n, inner}), y(real, {batch, n, inner});
  const Numbers numbers = random_numbers(std::size_t(batch * n * inner), unsigned(n));
  x.write(numbers);
  const int dims[] = {1};
  fft(queue(), y.view, x.view, dims, FftDirection::forward);
  const Numbers result = y.read();
  for (const std::int64_t line : {std::int64_t(0), batch * inner - 1}) {
    const std::int64_t first = line / inner * n * inner + line % inner;
    for (const std::int64_t k : places(n, n))
      expect_number(result[std::size_t(first + k * inner)], transformed(&numbers[std::size_t(first)], n, inner, k),
                    bound(real, n), k);
  }
  if (forward) return;
  fft(queue(), y.view, y.view, dims, FftDirection::inverse, 1 / double(n));
  const Numbers back = y.read();
  for (std::size_t i = 0; i < numbers.size(); i++)
    expect_number(back[i], numbers[i], 2 * bound(real, n) / std::sqrt(double(n)), std::int64_t(i));
}

// [batch, n, inner] of real numbers to half of the complex ones, to all of them, and back.
void compare_real(DataType real, std::int64_t batch, std::int64_t n, std::int64_t inner) {
  SCOPED_TRACE(::testing::Message() << batch << "x" << n << "x" << inner << " " << name(real));
  const std::int64_t half = n / 2 + 1;
  const std::vector<float> floats = random_floats(std::size_t(batch * n * inner), unsigned(n));
  const std::vector<double> values(floats.begin(), floats.end());
  const DeviceTensor x(real, {batch, n, inner}, values);
  const Numbers numbers(values.begin(), values.end());
  ComplexTensor y(real, {batch, half, inner}), all(real, {batch, n, inner});
  const int dims[] = {1};
  fft(queue(), y.view, x, dims, FftDirection::forward);
  fft(queue(), all.view, x, dims, FftDirection::forward, 2);
  const Numbers result = y.read(), doubled = all.read();
  for (const std::int64_t line : {std::int64_t(0), batch * inner - 1}) {
    const std::int64_t outer = line / inner, i = line % inner;
    for (const std::int64_t k : places(n, n)) {
      const Complex expected = transformed(&numbers[std::size_t(outer * n * inner + i)], n, inner, k);
      if (k < half) expect_number(result[std::size_t((outer * half + k) * inner + i)], expected, bound(real, n), k);
      expect_number(doubled[std::size_t((outer * n + k) * inner + i)], 2. * expected, 2 * bound(real, n), k);
    }
  }
  // Imaginary parts that symmetry makes zero are exactly that, and are not read.
  for (std::int64_t i = 0; i < inner && n % 2 == 0; i++) {
    EXPECT_EQ(result[std::size_t((half - 1) * inner + i)].imag(), 0) << i;
    EXPECT_EQ(doubled[std::size_t((half - 1) * inner + i)].imag(), 0) << i;
  }
  Numbers spoiled = result;
  for (std::int64_t outer = 0; outer < batch; outer++)
    for (std::int64_t i = 0; i < inner; i++) {
      spoiled[std::size_t(outer * half * inner + i)] += Complex(0, 3);
      if (n % 2 == 0) spoiled[std::size_t((outer * half + half - 1) * inner + i)] += Complex(0, 3);
    }
  y.write(spoiled);
  const DeviceTensor back(real, {batch, n, inner});
  fft(queue(), back, y.view, dims, FftDirection::inverse, 1 / double(n));
  expect_close(back.read(), values, 2 * bound(real, n) / std::sqrt(double(n)));
}

std::vector<DataType> precisions() {
  if (!supports(DataType::float64) || builds_slowly()) return {DataType::float32};
  return {DataType::float32, DataType::float64};
}

TEST(Fft, Small) {
  for (std::int64_t n : {1, 6, 17, 60}) compare_complex(DataType::float32, 2, n, 3);
  for (std::int64_t n : {1, 2, 15, 34}) compare_real(DataType::float32, 3, n, 1);
}

TEST(Fft, EveryLengthToSixtyFour) {
  for (std::int64_t n = 1; n <= 64; n++)  // primes and products of them are enough where building is slow
    if (takes(int(n)) || n <= 16) compare_complex(n % 4 == 3 ? precisions().back() : DataType::float32, 37, n, 1, true);
}

TEST(Fft, LengthsThatGroupsHold) {
  for (const DataType real : precisions())
    for (std::int64_t n : {100, 127, 128, 343, 1000, 1021, 1331, 2197, 4096}) compare_complex(real, 3, n, 1, n % 2);
}

TEST(Fft, LongLengths) {
  for (const DataType real : precisions())
    for (std::int64_t n : {5000, 8192, 10007, 65536, 92378}) compare_complex(real, 2, n, 1, real == DataType::float64);
  compare_complex(DataType::float32, 1, 1 << 20, 1);
  compare_complex(DataType::float32, 1, 250007, 1);
}

TEST(Fft, Columns) {
  for (std::int64_t n : {30, 97, 4099}) compare_complex(DataType::float32, 2, n, 5);
  for (std::int64_t n : {3, 64, 1024, 20000}) compare_complex(DataType::float32, 1, n, 33);
}

TEST(Fft, RealNumbers) {
  for (const DataType real : precisions())
    for (std::int64_t n : {1, 2, 3, 4, 6, 10, 16, 34, 127, 1000, 4096})
      if (real == DataType::float32 || n % 2) compare_real(real, 3, n, 1);
  for (std::int64_t n : {5, 10, 254, 1000, 4098}) compare_real(DataType::float32, 2, n, 9);
  for (std::int64_t n : {20014, 99999, 1 << 20}) compare_real(DataType::float32, 2, n, 1);
}

TEST(Fft, Float64) {
  if (!supports(DataType::float64)) GTEST_SKIP() << "the device has no float64";
  for (std::int64_t n : {17, 60}) compare_complex(DataType::float64, 2, n, 3);
  compare_real(DataType::float64, 2, 34, 1);
}

TEST(Fft, WideIndices) {
  const std::int64_t limit = settings.index_limit;
  settings.index_limit = 100;
  compare_complex(DataType::float32, 2, 60, 3, true);
  compare_real(DataType::float32, 2, 34, 3);
  settings.index_limit = limit;
}

TEST(Fft, SeveralDimensionsOfStridedTensors) {
  // A tensor [4, 6, 5] that lies as [6, 5, 4], along dims 2 and 0, against two transforms of one dimension.
  ComplexTensor x(DataType::float32, {6, 5, 4}), y(DataType::float32, {4, 6, 5}), z(DataType::float32, {4, 6, 5});
  x.write(random_numbers(120));
  const std::int64_t sizes[] = {4, 6, 5}, strides[] = {1, 20, 4};
  const TensorView view(x.view.data, DataType::complex64, sizes, strides);
  const int both[] = {2, 0}, first[] = {2}, second[] = {0};
  fft(queue(), y.view, view, both, FftDirection::inverse, 0.5);
  fft(queue(), z.view, view, first, FftDirection::inverse);
  fft(queue(), z.view, z.view, second, FftDirection::inverse, 0.5);
  const Numbers together = y.read(), apart = z.read();
  for (std::size_t i = 0; i < together.size(); i++) expect_number(together[i], apart[i], 1e-5, std::int64_t(i));
}

TEST(Fft, RefusesWhatDoesNotFit) {
  const ComplexTensor c(DataType::float32, {4, 6}), half(DataType::float32, {4, 4});
  const DeviceTensor r(DataType::float32, {4, 6}), wide(DataType::float64, {4, 6}), whole(DataType::int32, {4, 6});
  const int last[] = {1}, twice[] = {1, 1}, beyond[] = {2};
  const auto forward = FftDirection::forward, inverse = FftDirection::inverse;
  EXPECT_THROW(fft(queue(), r, r, last, forward), ValidationError);
  EXPECT_THROW(fft(queue(), c.view, wide, last, forward), ValidationError);
  EXPECT_THROW(fft(queue(), c.view, whole, last, forward), ValidationError);
  EXPECT_THROW(fft(queue(), c.view, c.view, {}, forward), ValidationError);
  EXPECT_THROW(fft(queue(), c.view, c.view, twice, forward), ValidationError);
  EXPECT_THROW(fft(queue(), c.view, c.view, beyond, forward), ValidationError);
  EXPECT_THROW(fft(queue(), half.view, c.view, last, forward), ValidationError);
  EXPECT_THROW(fft(queue(), r, c.view, last, inverse), ValidationError);
  EXPECT_THROW(fft(queue(), half.view, r, last, inverse), ValidationError);
  EXPECT_THROW(fft(queue(), r, half.view, last, forward), ValidationError);
}

}  // namespace
}  // namespace dlprim
