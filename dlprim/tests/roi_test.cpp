// SPDX-License-Identifier: MIT
#include <dlprim/primitives/roi.hpp>

#include <algorithm>

#include "tensors.hpp"

namespace dlprim::testing {

namespace {

// An image whose elements are y * 10 + x, so that samples inside read their own coordinates.
std::vector<double> slope(int height, int width) {
  std::vector<double> x;
  for (int y = 0; y < height; y++)
    for (int i = 0; i < width; i++) x.push_back(y * 10 + i);
  return x;
}

}  // namespace

TEST(Regions, Small) {
  const auto image = slope(4, 6);
  DeviceTensor in(DataType::float32, {1, 1, 4, 6}, image), boxes(DataType::float32, {1, 4}, {1, 1, 5, 3});
  DeviceTensor number(DataType::int64, {1}, {0}), out(DataType::float32, {1, 1, 1, 2});
  RegionPooling how{RegionPooling::mean, 1, 2, false};
  region_pool(queue(), in, boxes, number, out, how);  // bins of 2 x 2 elements around (2, 2) and (2, 4)
  expect_close(out.read(), {22, 24}, 1e-5);
  how.aligned = true;
  region_pool(queue(), in, boxes, number, out, how);
  expect_close(out.read(), {16.5, 18.5}, 1e-5);
  DeviceTensor numbered(DataType::float32, {1, 5}, {0, 1, 1, 4, 2});
  region_pool(queue(), in, numbered, {}, out, {RegionPooling::pool});
  expect_close(out.read(), {22, 24}, 0);
}

TEST(Regions, GradientsGoWhereTheValuesCameFrom) {
  const auto image = slope(4, 6);
  DeviceTensor in(DataType::float32, {1, 1, 4, 6}, image),
      numbered(DataType::float32, {2, 5}, {0, 1, 1, 4, 2, 0, 3, 0, 5, 3});
  DeviceTensor g(DataType::float32, {2, 1, 1, 1}, {2, 3}),
      sums(DataType::float32, {1, 1, 4, 6}, std::vector<double>(24, 0));
  region_pool_backward(queue(), g, in, numbered, {}, sums, {RegionPooling::pool});
  std::vector<double> expected(24, 0);
  expected[2 * 6 + 4] = 2, expected[3 * 6 + 5] = 3;
  EXPECT_EQ(sums.read(), expected);
}

TEST(Regions, EveryDtypeAndNoNumber) {
  for (DataType type : {DataType::float32, DataType::float16, DataType::bfloat16, DataType::float64}) {
    if (!supports(type)) continue;
    DeviceTensor in(type, {1, 1, 4, 6}, slope(4, 6)), boxes(type, {2, 4}, {0, 0, 4, 4, NAN, 0, 1e9, 2});
    DeviceTensor number(DataType::int64, {2}, {0, 0}), out(type, {2, 1, 1, 1});
    region_pool(queue(), in, boxes, number, out, {RegionPooling::mean, 1, 4, true});
    const double first = out.read()[0];
    EXPECT_NEAR(first, 16.5, 0.2);
  }
}

TEST(Regions, ReportsAnImageThatDoesNotExist) {
  DeviceTensor in(DataType::float32, {1, 1, 2, 2}, {1, 2, 3, 4}), boxes(DataType::float32, {1, 4}, {0, 0, 1, 1});
  DeviceTensor number(DataType::int64, {1}, {3}), out(DataType::float32, {1, 1, 1, 1});
  region_pool(queue(), in, boxes, number, out, {});
  EXPECT_THROW(queue().finish(), IndexError);
  DeviceTensor flat(DataType::float32, {4}, {0, 0, 1, 1});
  EXPECT_THROW(region_pool(queue(), in, flat, number, out, {}), ValidationError);
}

}  // namespace dlprim::testing
