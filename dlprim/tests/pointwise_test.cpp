// SPDX-License-Identifier: MIT
#include <dlprim/primitives/copy.hpp>
#include <dlprim/primitives/pointwise.hpp>

#include "floats.hpp"
#include "setting.hpp"
#include "tensors.hpp"

namespace dlprim::testing {

namespace {

TensorView permuted(const TensorView& view, std::initializer_list<int> order) {
  TensorView result = view;
  int d = 0;
  for (int from : order) result.sizes[d] = view.sizes[from], result.strides[d++] = view.strides[from];
  return result;
}

}  // namespace

TEST(Plan, JoinsDenseDimensions) {
  DeviceTensor a(DataType::float32, {4, 5, 6}), b(DataType::float32, {4, 5, 6}), bias(DataType::float32, {6});
  const TensorView out = b, in = a, row = bias;
  EXPECT_EQ(make_plan({&out, 1}, {&in, 1}, "test").dims, 1);
  const TensorView both[] = {in, row};
  const Plan plan = make_plan({&out, 1}, both, "test");
  EXPECT_EQ(plan.dims, 2);
  EXPECT_EQ(plan.sizes[0], 6);
  EXPECT_EQ(plan.sizes[1], 20);
  EXPECT_EQ(plan.operands[2].strides[1], 0);
}

TEST(Plan, RefusesShapesThatDoNotBroadcast) {
  DeviceTensor a(DataType::float32, {4, 5}), b(DataType::float32, {4, 6});
  EXPECT_THROW(pointwise(queue(), PointwiseId::copy, {a}, {b}), ValidationError);
}

TEST(Plan, SplitsLargeIndexSpaces) {
  TensorView large(BufferRef{reinterpret_cast<::_cl_mem*>(8), 0}, DataType::int8, {3, std::int64_t(1) << 31});
  Plan plan = make_plan({&large, 1}, {}, "test");
  EXPECT_FALSE(plan.fits_32bit());
  const Plan rest = plan.split();
  EXPECT_EQ(plan.numel() + rest.numel(), large.numel());
  EXPECT_EQ(rest.operands[0].data.offset, std::size_t(plan.numel()));
}

TEST(Copy, ConvertsTypes) {
  auto common = [](DataType type) {
    return type == DataType::float32 || type == DataType::int64 || type == DataType::boolean;
  };
  for (int f = 0; f < data_type_count; f++)
    for (int t = 0; t < data_type_count; t++) {
      const auto from = DataType(f), to = DataType(t);
      if (!supports(from) || !supports(to) || is_complex(from) || is_complex(to)) continue;
      if (!common(from) && !common(to)) continue;
      std::vector<double> values, expected;
      for (int i = 0; i < 37; i++) values.push_back(rounded(from, from == DataType::boolean ? i % 2 : i * 0.75));
      for (double v : values) expected.push_back(to == DataType::boolean ? v != 0 : rounded(to, v));
      DeviceTensor x(from, {37}, values), y(to, {37});
      copy(queue(), y, x);
      EXPECT_EQ(y.read(), expected) << name(from) << " to " << name(to);
    }
}

TEST(Copy, AnyStrides) {
  for (DataType type : {DataType::uint8, DataType::bfloat16, DataType::float32, DataType::int64})
    for (std::int64_t n : {1, 5, 33, 70}) {
      DeviceTensor x(type, {3, n, 41}), y(type, {3, 41, n}), z(type, {41, 3, n});
      std::vector<double> values(x.numel());
      for (std::size_t i = 0; i < values.size(); i++) values[i] = double(i % 100);
      x.write(values);
      copy(queue(), y, permuted(x, {0, 2, 1}));
      copy(queue(), permuted(z, {1, 2, 0}), x);
      const auto a = y.read(), b = z.read();
      for (std::int64_t i = 0; i < 3; i++)
        for (std::int64_t j = 0; j < n; j++)
          for (std::int64_t k = 0; k < 41; k++) {
            const double v = values[std::size_t((i * n + j) * 41 + k)];
            ASSERT_EQ(a[std::size_t((i * 41 + k) * n + j)], v);
            ASSERT_EQ(b[std::size_t((k * 3 + i) * n + j)], v);
          }
    }
}

// More than the work-groups of a launch of NVIDIA's along its second or third dimension.
TEST(CopyTransposed, ManyMatrices) {
  const std::int64_t matrices = 65537;
  DeviceTensor x(DataType::uint8, {matrices, 8, 8}), y(DataType::uint8, {matrices, 8, 8});
  std::vector<double> values(x.numel()), expected(x.numel());
  for (std::size_t i = 0; i < values.size(); i++) values[i] = double(i * 7 % 251);
  for (std::size_t i = 0; i < values.size(); i++) expected[i] = values[i / 64 * 64 + i % 8 * 8 + i / 8 % 8];
  x.write(values);
  copy(queue(), y, permuted(x, {0, 2, 1}));
  EXPECT_EQ(y.read(), expected);
}

TEST(Copy, Broadcasts) {
  DeviceTensor x(DataType::int32, {3, 1}, {1, 2, 3}), y(DataType::float32, {2, 3, 2});
  copy(queue(), y, x);
  EXPECT_EQ(y.read(), (std::vector<double>{1, 1, 2, 2, 3, 3, 1, 1, 2, 2, 3, 3}));
}

void copy_complex() {
  if (!supports(DataType::complex128)) GTEST_SKIP() << "the device has no float64";
  DeviceTensor x(DataType::float64, {3, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}), y(DataType::float64, {2, 3, 2});
  TensorView from = x, to = y;
  from.dtype = to.dtype = DataType::complex128;
  from.dims = to.dims = 2;
  from.strides = {2, 1}, to.strides = {3, 1};
  copy(queue(), to, permuted(from, {1, 0}));
  EXPECT_EQ(y.read(), (std::vector<double>{0, 1, 4, 5, 8, 9, 2, 3, 6, 7, 10, 11}));
  DeviceTensor real(DataType::float16, {3, 2});
  copy(queue(), real, from);
  EXPECT_EQ(real.read(), (std::vector<double>{0, 2, 4, 6, 8, 10}));
}

TEST(Copy, Complex) { copy_complex(); }

TEST(Copy, ComplexInVectors) {
  const Setting forced(settings.gpu_forms);
  copy_complex();
  DeviceTensor x(DataType::float32, {8}, {0, 1, 2, 3, 4, 5, 6, 7}), y(DataType::float32, {8});
  TensorView from = x, to = y;
  from.dtype = to.dtype = DataType::complex64, from.sizes = to.sizes = {4};
  copy(queue(), to, from);
  EXPECT_EQ(y.read(), x.read());
}

TEST(Fill, EveryType) {
  for (int t = 0; t < data_type_count; t++) {
    const auto type = DataType(t);
    if (!supports(type) || is_complex(type)) continue;
    DeviceTensor y(type, {5, 7}, std::vector<double>(35, 0));
    fill(queue(), y.view().narrowed(1, 2, 3), 3);
    const auto values = y.read();
    for (int i = 0; i < 35; i++) {
      const bool inside = i % 7 >= 2 && i % 7 < 5;
      ASSERT_EQ(values[std::size_t(i)], !inside ? 0 : type == DataType::boolean ? 1 : 3) << name(type);
    }
  }
}

TEST(PointwiseOperation, SeveralOutputsAndScalars) {
  DeviceTensor a(DataType::float32, {4, 3}, random_values(12)), b(DataType::float16, {3}, {1, 2, 3});
  DeviceTensor sum(DataType::float32, {4, 3}), larger(DataType::boolean, {4, 3});
  pointwise_operation(queue(), {a, b}, {sum, larger}, {2.5}, "y0 = x0 + x1 * w0;\ny1 = x0 > w0;");
  const auto x = a.read(), y = sum.read(), z = larger.read();
  for (std::size_t i = 0; i < 12; i++) {
    EXPECT_FLOAT_EQ(float(y[i]), float(x[i]) + float(i % 3 + 1) * 2.5f);
    EXPECT_EQ(z[i], x[i] > 2.5);
  }
  EXPECT_THROW(pointwise_operation(queue(), {a}, {sum}, {}, "y0 = nonsense;"), BuildError);
}

// The form for GPUs: words of several elements, narrow ones taken apart by shifts.
TEST(PointwiseOperation, Vectors) {
  const Setting forced(settings.gpu_forms);
  const DataType types[] = {DataType::bfloat16, DataType::int8, DataType::boolean, DataType::float32, DataType::int64};
  for (const DataType from : types)
    for (const DataType to : types)
      for (const std::int64_t n : {2, 37}) {
        std::vector<double> x, y, expected;
        for (int i = 0; i < int(n); i++) {
          x.push_back(from == DataType::boolean ? i % 2 : i - (is_signed(from) ? 20 : 0));
          y.push_back(to == DataType::boolean ? 1 : 2);
          if (!is_signed(to) && x.back() < 0) x.back() = 3;
          expected.push_back(to == DataType::boolean ? x.back() != 0 : x.back() + 2);
        }
        DeviceTensor a(from, {n}, x), b(to, {n}, y);
        pointwise_operation(queue(), {a, b}, {b}, {}, "y0 = x0 * (x1 != 0) + (x1 == 2 ? 2 : 0);", DataType::float32);
        ASSERT_EQ(b.read(), expected) << name(from) << " and " << name(to) << ", " << n;
      }
}

// Many narrow results at once of wide operands that do not lie side by side.
TEST(PointwiseOperation, NarrowResultsOfOneWideElement) {
  const Setting forced(settings.gpu_forms);
  for (const DataType wide : {DataType::int64, DataType::float64}) {
    if (wide == DataType::float64 && !device().info().fp64) continue;
    DeviceTensor one(wide, {1}, {3}), column(wide, {64, 2}, std::vector<double>(128, 3));
    DeviceTensor equal(DataType::boolean, {64});
    TensorView broadcast = one, strided = column;
    broadcast.sizes[0] = 64, broadcast.strides[0] = 0;
    strided.dims = 1;
    for (const TensorView& x : {broadcast, strided}) {
      for (const int number : {0, 3}) {
        DeviceTensor other(wide, {1}, {double(number)});
        TensorView all = other;
        all.sizes[0] = 64, all.strides[0] = 0;
        pointwise(queue(), PointwiseId::eq, {equal}, {x, all});
        ASSERT_EQ(equal.read(), std::vector<double>(64, number == 3)) << name(wide);
      }
    }
  }
}

TEST(PointwiseOperation, InPlaceOfEveryLength) {
  for (std::int64_t n : {1, 3, 4, 31, 1000, 100003}) {
    DeviceTensor a(DataType::float32, {n}, std::vector<double>(std::size_t(n), 2));
    pointwise_operation(queue(), {a}, {a}, {}, "y0 = x0 * x0;");
    EXPECT_EQ(a.read(), std::vector<double>(std::size_t(n), 4));
  }
}

}  // namespace dlprim::testing
