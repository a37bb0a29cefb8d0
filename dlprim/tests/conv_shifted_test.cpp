// SPDX-License-Identifier: MIT
#include "conv_case.hpp"

namespace dlprim {
namespace {

using namespace testing::conv;

std::vector<Case> shifted_cases() {
  const auto padded = [](int h, int w) { return options({1, 1, 1}, {h, w, 0}); };
  return {
      {"shifted one element", {1, 1, 1, 1}, {1, 1, 3, 3}, padded(1, 1), {}},
      {"shifted 7x7", {3, 5, 7, 7}, {9, 5, 3, 3}, padded(1, 1), {}},
      {"shifted narrow end", {2, 3, 9, 36}, {11, 3, 3, 3}, padded(1, 1), {}},
      {"shifted slices of sums", {2, 140, 6, 7}, {17, 140, 3, 3}, padded(1, 1), {}},
      {"shifted, read where it lies", {2, 140, 7, 7}, {10, 140, 1, 1}, padded(0, 0), {}},
      {"shifted, whole blocks", {2, 6, 8, 16}, {12, 6, 1, 1}, padded(0, 0), {}},
      {"shifted 3x3 without padding", {2, 6, 8, 16}, {12, 6, 3, 3}, padded(0, 0), {}},
      {"shifted stride", {2, 5, 13, 12}, {8, 5, 7, 7}, options({2, 2, 1}, {3, 3, 0}), {}},
      {"shifted stride of 3, dilation", {2, 3, 17, 40}, {8, 3, 3, 4}, options({3, 3, 1}, {1, 5, 0}, {1, 2, 1}), {}},
      {"shifted 1x1 stride 2", {2, 8, 9, 70}, {8, 8, 1, 1}, options({2, 2, 1}, {0, 0, 0}), {}},
      {"shifted wide padding", {1, 2, 5, 6}, {4, 2, 3, 3}, padded(2, 20), {}},
      {"shifted asymmetric", {2, 3, 8, 9}, {4, 3, 3, 4}, padded(0, 1), {2, 2}},
      {"shifted, padding behind alone", {1, 2, 8, 9}, {3, 2, 2, 2}, padded(0, 0), {1, 1}},
      {"shifted groups", {2, 12, 6, 7}, {18, 4, 3, 3}, options({1, 1, 1}, {1, 1, 0}, {1, 1, 1}, 3), {}},
      {"shifted 1d", {3, 8, 50}, {16, 8, 5}, options({2, 1, 1}, {2, 0, 0}), {}},
  };
}

TEST(Conv, Shifted) {
  const testing::Variable forced("DLPRIM_CONV", "shifted");
  for (const Case& t : shifted_cases()) check(t, DataType::float32);
  for (const DataType type : testing::floating_types()) check(shifted_cases()[3], type);
  const testing::Variable one_image("DLPRIM_CONV_WORKSPACE", "0");
  check(shifted_cases()[3], DataType::float32);
}

}  // namespace
}  // namespace dlprim
