// SPDX-License-Identifier: MIT
#include <dlprim/primitives/deform_conv.hpp>

#include "tensors.hpp"

namespace dlprim::testing {

// A 3 x 3 image read by one tap at each of its positions.
TEST(DeformedColumns, OneTap) {
  const std::vector<double> values{0, 1, 2, 10, 11, 12, 20, 21, 22};
  std::vector<double> shifts(18, 0), mask(9, 2);
  shifts[4] = 0.5, shifts[9 + 4] = -0.25;  // the middle reads half a row below and a quarter of a column to the left
  shifts[8] = 0.5;                         // the last reads half of what lies outside
  shifts[0] = NAN, shifts[1] = 1e30;       // nothing
  DeviceTensor in(DataType::float32, {1, 1, 3, 3}, values), moved(DataType::float32, {1, 2, 3, 3}, shifts),
      scale(DataType::float32, {1, 1, 3, 3}, mask), columns(DataType::float32, {1, 1, 9}, std::vector<double>(9, 7));
  deformed_columns(queue(), {in, moved, scale}, columns, {});
  expect_close(columns.read(), {0, 0, 4, 20, 31.5, 24, 40, 42, 22}, 1e-5);
  deformed_columns(queue(), {in, moved, {}}, columns, {});
  expect_close(columns.read(), {0, 0, 2, 10, 15.75, 12, 20, 21, 11}, 1e-5);

  std::vector<double> one(9, 0);
  one[4] = 1;
  DeviceTensor grad(DataType::float32, {1, 1, 9}, one),
      image(DataType::float32, {1, 1, 3, 3}, std::vector<double>(9, 0)),
      by_shift(DataType::float32, {1, 2, 3, 3}, std::vector<double>(18, 7)),
      by_mask(DataType::float32, {1, 1, 3, 3}, std::vector<double>(9, 7));
  deformed_columns_backward(queue(), grad, {in, moved, scale}, image, by_shift, by_mask, {});
  expect_close(image.read(), {0, 0, 0, 0.25, 0.75, 0, 0.25, 0.75, 0}, 1e-5);
  EXPECT_NEAR(by_shift.read()[4], 20, 1e-4);
  EXPECT_NEAR(by_shift.read()[9 + 4], 2, 1e-4);
  EXPECT_NEAR(by_mask.read()[4], 15.75, 1e-4);
}

TEST(DeformedColumns, ExpectsShiftsThatFit) {
  DeviceTensor in(DataType::float32, {1, 1, 2, 2}, {1, 2, 3, 4}),
      shifts(DataType::float32, {1, 3, 2, 2}, std::vector<double>(12, 0)),
      columns(DataType::float32, {1, 1, 4}, {0, 0, 0, 0});
  EXPECT_THROW(deformed_columns(queue(), {in, shifts, {}}, columns, {}), ValidationError);
}

}  // namespace dlprim::testing
