// SPDX-License-Identifier: MIT
// Functions of elementwise operators: their accuracy, where they have edges, and rows of every length in the form for
// CPUs that lets neighbouring work-items share a row.
#include <dlprim/primitives/pointwise_code.hpp>

#include <limits>

#include "tensors.hpp"

namespace dlprim::testing {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
using Function = double (*)(double, double);

std::vector<double> run(const char* row, const std::vector<double>& x, const std::vector<double>& y) {
  const std::int64_t n = std::int64_t(x.size());
  DeviceTensor a(DataType::float32, {n}, x), b(DataType::float32, {n}, y.empty() ? x : y),
      result(DataType::float32, {n});
  if (y.empty()) pointwise(queue(), *find_pointwise(row), std::vector<TensorView>{result}, std::vector<TensorView>{a});
  else pointwise(queue(), *find_pointwise(row), std::vector<TensorView>{result}, std::vector<TensorView>{a, b});
  return result.read();
}

// Of float32, in units of the last place; values that only one of both has count as infinitely many.
double error_of(double value, double expected) {
  if (std::isnan(expected)) return std::isnan(value) ? 0 : infinity;
  const float nearest = float(expected);
  if (std::isinf(nearest) || std::isnan(value) || std::isinf(value)) return value == double(nearest) ? 0 : infinity;
  if (value == 0 && expected == 0) return std::signbit(value) == std::signbit(expected) ? 0 : infinity;
  const float size = std::fabs(nearest);
  return std::fabs(value - expected) / double(std::nextafter(size, std::numeric_limits<float>::infinity()) - size);
}

std::vector<double> floats(std::initializer_list<double> edges, double low, double high, int count) {
  std::vector<double> values(edges);
  for (int i = 0; i < count; i++) values.push_back(low + (high - low) * (i + 0.5) / count);
  for (double& v : values) v = double(float(v));
  return values;
}

void expect_accurate(const char* row, Function exact, const std::vector<double>& x, const std::vector<double>& y,
                     double limit) {
  const auto result = run(row, x, y);
  for (std::size_t i = 0; i < x.size(); i++) {
    const double second = y.empty() ? 0 : y[i];
    ASSERT_LE(error_of(result[i], exact(x[i], second)), limit)
        << row << " of " << x[i] << " and " << second << " is " << result[i];
  }
}

const auto edges = {0.0, -0.0, 1.0, -1.0, infinity, -infinity, double(NAN), 1e-40, -1e-45, 3e38, -3e38, 0.5};

TEST(PointwiseMath, ArcTangentOfTwo) {
  std::vector<double> x, y;
  for (const double a : floats(edges, -40, 40, 60))
    for (const double b : floats(edges, -3, 5, 60)) x.push_back(a), y.push_back(b);
  expect_accurate("atan2", [](double a, double b) { return std::atan2(a, b); }, x, y, 6);  // what OpenCL grants
}

TEST(PointwiseMath, Remainder) {
  std::vector<double> x, y;
  for (const double a : floats(edges, -4000, 4000, 61))
    for (const double b : floats({1e-3, 1e-38, 3e-45, 7e20}, -3, 5, 60)) x.push_back(a), y.push_back(b);
  expect_accurate("fmod", [](double a, double b) { return std::fmod(a, b); }, x, y, 0);
}

TEST(PointwiseMath, LogarithmOfGamma) {
  const DeviceInfo& device = queue().device().info();
  if (!device.cpu || !device.fp64) GTEST_SKIP() << "the driver's own function";
  const auto gamma = [](double a, double) { return std::lgamma(a); };
  expect_accurate("lgamma", gamma,
                  floats({0.0, -0.0, 1.0, 2.0, -1.0, -7.0, 1e-40, -1e-40, 3e38, 4e36, infinity, double(NAN),
                          1 + 0x1p-23, 2 - 0x1p-23, 7.9999995, 8.0},
                         -20, 60, 5000),
                  {}, 1);
}

TEST(PointwiseMath, InverseOfTheErrorFunction) {
  const auto x = floats({0.25, 1 - 0x1p-24, -1 + 0x1p-24, 1e-3, 0.9998274}, -1, 1, 2000);
  const auto y = run("erfinv", x, {});
  for (std::size_t i = 0; i < x.size(); i++)  // erfc has the digits that erf lacks near 1
    ASSERT_NEAR(std::erfc(std::fabs(y[i])) / (1 - std::fabs(x[i])), 1, 4e-6) << x[i];
  EXPECT_EQ(run("erfinv", {1, -1}, {}), (std::vector<double>{infinity, -infinity}));
}

TEST(PointwiseMath, RowsOfEveryLength) {
  for (const std::int64_t width : {1, 15, 16, 17, 100, 40000})
    for (const std::int64_t step : {1, -1, 2}) {
      const std::int64_t rows = 3, pitch = 2 * width + 1;
      DeviceTensor x(DataType::float32, {rows, pitch}, random_values(std::size_t(rows * pitch)));
      DeviceTensor y(DataType::float32, {rows, width});
      BufferRef data = TensorView(x).data;
      if (step < 0) data.offset += std::size_t(width - 1) * sizeof(float);
      const std::int64_t sizes[] = {rows, width}, strides[] = {pitch, step};
      const TensorView view(data, DataType::float32, sizes, strides);
      pointwise(queue(), *find_pointwise("atan"), std::vector<TensorView>{y}, std::vector<TensorView>{view});
      const auto from = x.read(), to = y.read();
      for (std::int64_t i = 0; i < rows * width; i++) {
        const std::int64_t at = i / width * pitch + (step < 0 ? width - 1 : 0) + i % width * step;
        ASSERT_NEAR(to[std::size_t(i)], std::atan(from[std::size_t(at)]), 1e-6) << width << " by " << step;
      }
    }
}

TEST(PointwiseMath, CallsOfBuiltins) {
  EXPECT_FALSE(calls_builtins("x0 * (x1 + w0)", false));
  EXPECT_FALSE(calls_builtins("if (x0 > 0) y0 = nan_max (x0, (T)w0);", false));
  EXPECT_TRUE(calls_builtins("x0 * log(x1)", true));
  EXPECT_TRUE(calls_builtins("sqrt (x0)", true));
  EXPECT_TRUE(calls_builtins("exp(x0)", false));
  EXPECT_FALSE(calls_builtins("exp(x0)", true));
}

}  // namespace
}  // namespace dlprim::testing
