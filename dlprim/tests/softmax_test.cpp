// SPDX-License-Identifier: MIT
#include <dlprim/primitives/softmax.hpp>

#include "setting.hpp"
#include "tensors.hpp"

namespace dlprim {
namespace {

using namespace testing;

struct Case {
  std::int64_t outer, length, inner;
};

const Case cases[] = {{1, 1, 1},    {3, 7, 1},      {37, 16, 1},   {5, 100, 1}, {4, 257, 1},
                      {3, 1000, 1}, {2, 5003, 1},   {2, 70001, 1}, {2, 3, 5},   {3, 17, 33},
                      {2, 300, 49}, {1, 1500, 257}, {3, 20, 64},   {0, 4, 2},   {3, 0, 2}};

// Runs forward and backward of a case and compares with sums in double.
void compare(const Case& c, SoftmaxKind kind, DataType type) {
  SCOPED_TRACE(::testing::Message() << c.outer << "x" << c.length << "x" << c.inner << " " << name(type));
  const std::vector<std::int64_t> sizes = {c.outer, c.length, c.inner};
  const std::size_t count = std::size_t(c.outer * c.length * c.inner);
  const DeviceTensor x(type, sizes, random_values(count, -8, 8, 1)), gy(type, sizes, random_values(count, -1, 1, 2));
  DeviceTensor y(type, sizes), gx(type, sizes);
  softmax(queue(), kind, y, x, 1);
  softmax_backward(queue(), kind, gx, gy, y, 1);
  const std::vector<double> xs = x.read(), gs = gy.read(), ys = y.read();
  std::vector<double> expected(count), gradient(count);
  for (std::int64_t o = 0; o < c.outer; o++)
    for (std::int64_t i = 0; i < c.inner; i++) {
      auto at = [&](std::int64_t r) { return std::size_t((o * c.length + r) * c.inner + i); };
      double sum = 0, dot = 0;
      for (std::int64_t r = 0; r < c.length; r++) sum += std::exp(xs[at(r)]);
      for (std::int64_t r = 0; r < c.length; r++) {
        const double p = std::exp(xs[at(r)]) / sum;
        expected[at(r)] = kind == SoftmaxKind::softmax ? p : std::log(p);
        dot += kind == SoftmaxKind::softmax ? gs[at(r)] * ys[at(r)] : gs[at(r)];
      }
      for (std::int64_t r = 0; r < c.length; r++)
        gradient[at(r)] =
            kind == SoftmaxKind::softmax ? (gs[at(r)] - dot) * ys[at(r)] : gs[at(r)] - std::exp(ys[at(r)]) * dot;
    }
  expect_close(ys, expected, tolerance(type));
  expect_close(gx.read(), gradient, 4 * tolerance(type));
}

TEST(Softmax, EveryShape) {
  for (const Case& c : cases)
    for (SoftmaxKind kind : {SoftmaxKind::softmax, SoftmaxKind::log_softmax}) compare(c, kind, DataType::float32);
}

TEST(Softmax, FormsOfGpus) {
  const Setting forced(settings.gpu_forms);
  for (const Case& c : {Case{3, 7, 1}, Case{5, 1000, 1}, Case{3, 5003, 1}, Case{2, 16385, 1}, Case{2, 70001, 1},
                        Case{2, 3, 5}, Case{2, 9000, 3}})
    for (SoftmaxKind kind : {SoftmaxKind::softmax, SoftmaxKind::log_softmax}) compare(c, kind, DataType::float32);
}

// One element of a long row decides about all of it, wherever it lies.
TEST(Softmax, SpecialValuesInLongRows) {
  const std::size_t length = 20000;
  for (const bool gpu : {false, true})
    for (const double special : {double(NAN), double(INFINITY), -double(INFINITY)})
      for (const std::size_t at : {std::size_t(0), length / 2 + 7, length - 1}) {
        const double others = special == -INFINITY ? 1.0 / double(length - 1) : NAN;
        std::vector<double> values(length, -1000.0), expected(length, others);
        values[at] = special;
        if (special == -INFINITY) expected[at] = 0;
        const std::vector<std::int64_t> sizes{1, std::int64_t(length)};
        const DeviceTensor x(DataType::float32, sizes, values);
        DeviceTensor y(DataType::float32, sizes);
        settings.gpu_forms = gpu;
        softmax(queue(), SoftmaxKind::softmax, y, x, 1);
        settings.gpu_forms = false;
        expect_close(y.read(), expected, 1e-6);
      }
}

TEST(Softmax, EveryDtype) {
  for (DataType type : {DataType::float16, DataType::bfloat16, DataType::float64})
    if (supports(type))
      compare({6, 33, 1}, SoftmaxKind::softmax, type), compare({6, 33, 5}, SoftmaxKind::log_softmax, type),
          compare({2, 9, 70}, SoftmaxKind::softmax, type);
}

TEST(Softmax, InfinitiesAndWiderResult) {
  const DeviceTensor x(DataType::float16, {3, 2}, {-INFINITY, 0, -INFINITY, -INFINITY, 1, 1});
  DeviceTensor y(DataType::float32, {3, 2});
  softmax(queue(), SoftmaxKind::softmax, y, x, -1);
  expect_close(y.read(), {0, 1, NAN, NAN, 0.5, 0.5}, 1e-6);
}

TEST(Softmax, RowsOfMinusInfinityAlone) {
  for (const std::int64_t length : {3, 300, 20000}) {
    const std::size_t n = std::size_t(length);
    std::vector<double> values(4 * n, -INFINITY), expected(4 * n, 0.0);
    values[n + 1] = 5, expected[n + 1] = 1;  // row 1 has one element
    values[2 * n + 2] = NAN;
    std::fill_n(expected.begin() + 2 * std::ptrdiff_t(n), n, NAN);
    for (const bool last : {true, false}) {  // along rows, along columns
      const std::vector<std::int64_t> sizes{last ? 4 : length, last ? length : 4};
      auto transposed = [&](const std::vector<double>& x) {
        std::vector<double> t(x);
        for (std::size_t i = 0; i < x.size() && !last; i++) t[i % n * 4 + i / n] = x[i];
        return t;
      };
      DeviceTensor x(DataType::float32, sizes, transposed(values)), y(DataType::float32, sizes);
      softmax(queue(), SoftmaxKind::safe_softmax, y, x, last ? 1 : 0);
      expect_close(y.read(), transposed(expected), 1e-6);
    }
  }
}

TEST(Softmax, RefusesWhatItCannotDo) {
  const DeviceTensor x(DataType::float32, {2, 3}), i(DataType::int32, {2, 3}), z(DataType::float32, {3, 2});
  EXPECT_THROW(softmax(queue(), SoftmaxKind::softmax, x, x, 2), ValidationError);
  EXPECT_THROW(softmax(queue(), SoftmaxKind::softmax, i, i, 0), ValidationError);
  EXPECT_THROW(softmax(queue(), SoftmaxKind::softmax, z, x, 0), ValidationError);
}

}  // namespace
}  // namespace dlprim
