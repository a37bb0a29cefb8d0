// SPDX-License-Identifier: MIT
#include <dlprim/primitives/nms.hpp>

#include <random>

#include "tensors.hpp"

namespace dlprim::testing {

namespace {

using Boxes = std::vector<double>;

// One after the other, on the host.
std::vector<double> expected(const Boxes& boxes, double threshold) {
  const std::size_t n = boxes.size() / 4;
  std::vector<double> keep(n, 1);
  auto area = [&](std::size_t i) { return (boxes[4 * i + 2] - boxes[4 * i]) * (boxes[4 * i + 3] - boxes[4 * i + 1]); };
  for (std::size_t i = 0; i < n; i++)
    for (std::size_t k = i + 1; keep[i] && k < n; k++) {
      double both = 1;
      for (int d = 0; d < 2; d++)
        both *= std::max(
            0.0, std::min(boxes[4 * i + 2 + d], boxes[4 * k + 2 + d]) - std::max(boxes[4 * i + d], boxes[4 * k + d]));
      if (both / (area(i) + area(k) - both) > threshold) keep[k] = 0;
    }
  return keep;
}

Boxes boxes_of(std::size_t n, double spread) {
  std::mt19937 engine(1);
  std::uniform_int_distribution<int> corner(0, int(spread)), length(1, 16);
  Boxes boxes;
  for (std::size_t i = 0; i < n; i++) {
    const double x = corner(engine), y = corner(engine);
    boxes.insert(boxes.end(), {x, y, x + length(engine), y + length(engine)});
  }
  return boxes;
}

}  // namespace

TEST(NonMaxSuppression, Small) {
  for (DataType type : {DataType::float32, DataType::float16, DataType::bfloat16, DataType::float64}) {
    if (!supports(type)) continue;
    DeviceTensor boxes(type, {4, 4}, {0, 0, 4, 4, 0, 0, 4, 2, 8, 8, 9, 9, 0, 0, 4, 4}),
        keep(DataType::boolean, {4}, {9, 9, 9, 9});
    non_max_suppression(queue(), boxes, keep, 0.5);
    EXPECT_EQ(keep.read(), (std::vector<double>{1, 1, 1, 0}));
    non_max_suppression(queue(), boxes, keep, 0.49);
    EXPECT_EQ(keep.read(), (std::vector<double>{1, 0, 1, 0}));
  }
}

TEST(NonMaxSuppression, EveryNumberOfBoxes) {
  for (std::size_t n : {1, 2, 31, 32, 33, 64, 257, 2000}) {
    const Boxes all = boxes_of(n, 40);
    DeviceTensor boxes(DataType::float32, {std::int64_t(n), 4}, all),
        keep(DataType::boolean, {std::int64_t(n)}, std::vector<double>(n, 0));
    for (double threshold : {0.0, 0.41, 1.0}) {
      non_max_suppression(queue(), boxes, keep, threshold);
      EXPECT_EQ(keep.read(), expected(all, threshold)) << n << " " << threshold;
    }
  }
}

TEST(NonMaxSuppression, ExpectsBoxesOfFour) {
  DeviceTensor boxes(DataType::float32, {1, 5}, {0, 0, 1, 1, 1}), keep(DataType::boolean, {1}, {0});
  EXPECT_THROW(non_max_suppression(queue(), boxes, keep, 0.5), ValidationError);
}

}  // namespace dlprim::testing
