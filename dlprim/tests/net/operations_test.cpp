// SPDX-License-Identifier: MIT
#include "finite_differences.hpp"

namespace dlprim::testing {
namespace {

TEST(Operations, PointwiseWithWeightsAndNamesOfTypes) {
  const dp::Context context(device());
  const ExecutionContext ec = context.make_execution_context();
  Tensor a(context, {2, 3}), b(context, {3}), c(context, {2, 3}), n(context, {2, 3}, DataType::int32);
  a.to_device(ec, std::vector<float>{1, 2, 3, 4, 5, 6}), b.to_device(ec, std::vector<float>{10, 20, 30});
  pointwise_operation_broadcast({a, b}, {c, n}, {0.5}, "typeof_x0 t = w0 * x0; y0 = t + x1; y1 = x1;", ec);
  std::vector<float> values(6);
  std::vector<std::int32_t> numbers(6);
  c.to_host(ec, values), n.to_host(ec, numbers);
  EXPECT_EQ(values, (std::vector<float>{10.5, 21, 31.5, 12, 22.5, 33}));
  EXPECT_EQ(numbers, (std::vector<std::int32_t>{10, 20, 30, 10, 20, 30}));
  pointwise_operation({a}, {c}, {}, "dtype t = x0; y0 = t * t;", ec);
  c.to_host(ec, values);
  EXPECT_EQ(values[5], 36);
  EXPECT_THROW(pointwise_operation({a, b}, {c}, {}, "y0 = x0;", ec), ValidationError);
  EXPECT_THROW(pointwise_operation({a}, {c}, {}, "y0 = nonsense;", ec), BuildError);
}

TEST(Operations, BroadcastReduceOfTensors) {
  const dp::Context context(device());
  const ExecutionContext ec = context.make_execution_context();
  Tensor x(context, {4, 3}), y(context, {1, 3}), largest(context, {1, 3});
  x.to_device(ec, std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9, -10, -11, -12});
  y.to_device(ec, std::vector<float>{1, 1, 1});
  const auto sum = PointwiseOperationBroadcastReduce::create(
      context, {{{4, 3}}}, {{{1, 3}}, {{1, 3}}}, 1, DataType::float32, "typeof_w0 w = w0; y0 = w * x0; y1 = x0;",
      "reduce_y0 = 0; reduce_y1 = -INFINITY;", "reduce_y0 += y0; reduce_y1 = fmax(reduce_y1, y1);");
  sum->enqueue({x}, {y, largest}, {2}, {1, 1}, {3, 0}, ec);
  std::vector<float> sums(3), top(3);
  y.to_host(ec, sums), largest.to_host(ec, top);
  EXPECT_EQ(sums, (std::vector<float>{7, 11, 15}));
  EXPECT_EQ(top, (std::vector<float>{7, 8, 9}));
  EXPECT_THROW(
      PointwiseOperationBroadcastReduce::create(context, {{{4, 3}}}, {{{2}}}, 0, DataType::float32, "", "", ""),
      ValidationError);
}

}  // namespace
}  // namespace dlprim::testing
