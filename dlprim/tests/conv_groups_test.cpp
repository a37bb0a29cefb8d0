// SPDX-License-Identifier: MIT
// Groups of few channels.
#include <vector>

#include "conv_case.hpp"

namespace dlprim {
namespace {

using namespace testing::conv;
using testing::Elements;
using testing::queue;

std::vector<Case> cases() {
  const auto grouped = [](const char* label, Sizes x, Sizes w, ConvOptions o, Sizes behind = {}) {
    o.groups = x[1] / w[1];
    return Case{label, std::move(x), std::move(w), o, std::move(behind)};
  };
  return {
      grouped("groups of 8", {3, 16, 9, 11}, {16, 8, 3, 3}, options({1, 1, 1}, {1, 1, 0})),
      grouped("groups of 4, more results", {2, 12, 7, 30}, {24, 4, 3, 3}, options({1, 1, 1}, {1, 1, 0})),
      grouped("odd groups, stride", {2, 9, 13, 14}, {15, 3, 3, 3}, options({2, 2, 1}, {1, 1, 0})),
      grouped("rows of whole vectors", {2, 8, 9, 12}, {12, 4, 3, 3}, options({1, 1, 1}, {1, 1, 0})),
      grouped("whole vectors, stride", {2, 4, 9, 24}, {4, 2, 3, 5}, options({2, 2, 1}, {0, 2, 0})),
      grouped("5x5, dilation", {2, 6, 15, 17}, {4, 3, 5, 5}, options({1, 1, 1}, {3, 4, 0}, {1, 2, 1})),
      grouped("two blocks of columns", {1, 4, 6, 85}, {4, 2, 3, 3}, options({1, 1, 1}, {1, 1, 0})),
      grouped("1x1, stride of 3", {2, 8, 10, 20}, {4, 2, 1, 1}, options({3, 3, 1}, {0, 0, 0})),
      grouped("asymmetric", {2, 4, 8, 9}, {6, 2, 3, 4}, options({1, 1, 1}, {0, 1, 0}), {2, 2}),
      grouped("padding above the kernel", {1, 4, 4, 6}, {4, 2, 2, 3}, options({1, 1, 1}, {3, 4, 0})),
      grouped("groups of 24", {2, 48, 5, 6}, {48, 24, 3, 2}, options({1, 2, 1}, {1, 1, 0})),
  };
}

// All passes, of which `core` takes those that it serves.
void check_by(const char* core) {
  const testing::Variable forced("DLPRIM_CONV", core);
  int number = 0;
  for (const Case& t : cases())
    if (testing::takes(number++)) check(t, DataType::float32);
}

TEST(Conv, GroupsOfFewChannels) { check_by("grouped"); }

TEST(Conv, WeightsOfGroupsOfFewChannels) { check_by("grouped_weights"); }

// An infinite weight meets what its tap leads to, be it the zeros around the image, but none between its elements.
TEST(Conv, GradientsOfGroupsMeetNoZerosBetween) {
  for (const std::int64_t stride : {2, 3}) {
    const testing::Variable forced("DLPRIM_CONV", "grouped");
    const Sizes xs{1, 4, 9, 13}, ws{4, 2, 3, 3}, ys{1, 4, (9 - 3) / stride + 1, (13 - 3) / stride + 1};
    const Elements dx(DataType::float32, std::size_t(numel(xs)), 1), dy(DataType::float32, std::size_t(numel(ys)), 2),
        w(DataType::float32, std::size_t(numel(ws)), 3);
    const float infinity = INFINITY;
    BufferRef spoilt = w.data();
    spoilt.offset += 5 * sizeof infinity;  // row 1, column 2 of the first kernel
    queue().write(spoilt, &infinity, sizeof infinity, true);
    conv_backward_data(queue(), view(dy, ys, false), view(w, ws, false), {}, view(dx, xs, false),
                       options({stride, stride, 1}, {0, 0, 0}, {1, 1, 1}, 2));
    const auto values = dx.read();
    for (std::int64_t i = 0; i < 9 * 13; i++)
      EXPECT_EQ(std::isfinite(values[std::size_t(i)]), (i / 13 - 1) % stride != 0 || (i % 13 - 2) % stride != 0) << i;
  }
}

// An infinite element of the last column meets the last tap of a row alone.
TEST(Conv, WeightsOfGroupsMeetNothingElse) {
  const testing::Variable forced("DLPRIM_CONV", "grouped_weights");
  const Sizes xs{1, 4, 6, 13}, ws{4, 2, 3, 3}, ys{1, 4, 4, 11};
  const Elements x(DataType::float32, std::size_t(numel(xs)), 1), dy(DataType::float32, std::size_t(numel(ys)), 2),
      dw(DataType::float32, std::size_t(numel(ws)), 3);
  const float infinity = INFINITY;
  BufferRef spoilt = x.data();
  spoilt.offset += (13 * 3 + 12) * sizeof infinity;
  queue().write(spoilt, &infinity, sizeof infinity, true);
  conv_backward_weights(queue(), view(x, xs, false), view(dy, ys, false), view(dw, ws, false),
                        options({1, 1, 1}, {0, 0, 0}, {1, 1, 1}, 2));
  const auto values = dw.read();
  for (std::size_t i = 0; i < values.size(); i++)
    EXPECT_EQ(std::isfinite(values[i]), i / 9 % 2 != 0 || i / 18 >= 2 || i % 3 != 2) << i;
}

}  // namespace
}  // namespace dlprim
