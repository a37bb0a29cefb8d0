// SPDX-License-Identifier: MIT
#include <dlprim/primitives/pointwise_reduce.hpp>

#include "tensors.hpp"

namespace dlprim {
namespace {

using namespace testing;

TEST(PointwiseReduce, BroadcastsComputesAndReduces) {
  for (std::int64_t n : {3, 70, 3000}) {
    const std::vector<double> a = random_values(std::size_t(n * 5 * 4), -1, 1, 1), b = random_values(5, -1, 1, 2);
    const DeviceTensor x0(DataType::float32, {n, 5, 4}, a), x1(DataType::float32, {5, 1}, b);
    DeviceTensor y0(DataType::float32, {5, 1}, {1, 2, 3, 4, 5}), y1(DataType::float32, {5, 1});
    const PointwiseOperationBroadcastReduce operation(
        {x0, x1}, {y0, y1}, 2, DataType::float32, "y0 = x0 * x1 * w0; y1 = fabs(x0) + w1;",
        "reduce_y0 = 0; reduce_y1 = -INFINITY;", "reduce_y0 += y0; reduce_y1 = fmax(reduce_y1, y1);");
    operation.enqueue(queue(), {x0, x1}, {y0, y1}, {3, 0.5}, {2, 1}, {10, 0});
    std::vector<double> sums(5, 0), largest(5, -1);
    for (std::size_t i = 0; i < a.size(); i++) {
      const std::size_t c = i / 4 % 5;
      sums[c] += a[i] * b[c] * 3, largest[c] = std::max(largest[c], std::fabs(a[i]) + 0.5);
    }
    for (std::size_t c = 0; c < 5; c++) sums[c] = 2 * sums[c] + 10 * double(c + 1);
    expect_close(y0.read(), sums, 1e-4);
    expect_close(y1.read(), largest, 1e-5);
  }
}

TEST(PointwiseReduce, NothingToReduceAndOtherDtypes) {
  const DeviceTensor x(DataType::int32, {6}, {1, 2, 3, 4, 5, 6});
  DeviceTensor same(DataType::float16, {6}), all(DataType::int64, {1});
  PointwiseOperationBroadcastReduce({x}, {same}, 0, DataType::float32, "y0 = (typeof_y0)x0 / 2;", "reduce_y0 = 0;",
                                    "reduce_y0 += y0;")
      .enqueue(queue(), {x}, {same});
  expect_close(same.read(), {0.5, 1, 1.5, 2, 2.5, 3}, 0);
  PointwiseOperationBroadcastReduce({x}, {all}, 0, DataType::float32, "y0 = x0;", "reduce_y0 = 1;", "reduce_y0 *= y0;")
      .enqueue(queue(), {x}, {all});
  expect_close(all.read(), {720}, 0);
}

TEST(PointwiseReduce, RefusesWhatDoesNotFit) {
  const DeviceTensor x(DataType::float32, {2, 3}), y(DataType::float32, {2}), h(DataType::float16, {3});
  const PointwiseOperationBroadcastReduce operation({x}, {h}, 1, DataType::float32, "y0 = x0;", "reduce_y0 = 0;",
                                                    "reduce_y0 += y0;");
  EXPECT_THROW(operation.enqueue(queue(), {x}, {y}, {1}), ValidationError);
  EXPECT_THROW(operation.enqueue(queue(), {x}, {h}), ValidationError);
  EXPECT_THROW(operation.enqueue(queue(), {x}, {h}, {1}, {1, 2}), ValidationError);
}

}  // namespace
}  // namespace dlprim
