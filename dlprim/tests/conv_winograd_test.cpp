// SPDX-License-Identifier: MIT
#include "conv_case.hpp"

namespace dlprim {
namespace {

using namespace testing::conv;

std::vector<Case> winograd_cases() {
  const auto padded = [](std::int64_t h, std::int64_t w) { return options({1, 1, 1}, {h, w, 0}); };
  return {
      {"winograd", {2, 5, 9, 20}, {6, 5, 3, 3}, padded(1, 1), {}},
      {"winograd one tile", {1, 3, 4, 4}, {2, 3, 3, 3}, padded(1, 1), {}},
      {"winograd one element", {1, 1, 1, 1}, {1, 1, 3, 3}, padded(1, 1), {}},
      {"winograd 7x7", {5, 33, 7, 7}, {17, 33, 3, 3}, padded(1, 1), {}},
      {"winograd no padding", {3, 4, 13, 11}, {5, 4, 3, 3}, padded(0, 0), {}},
      {"winograd padding of 2 and 3", {2, 4, 5, 6}, {4, 4, 3, 3}, padded(2, 3), {}},
      {"winograd asymmetric", {2, 3, 8, 9}, {4, 3, 3, 3}, padded(0, 1), {2, 2}},
      {"winograd channels last", {2, 8, 6, 7}, {12, 8, 3, 3}, padded(1, 1), {}, true, true},
      {"winograd row-major, weights channels last", {2, 5, 6, 7}, {4, 5, 3, 3}, padded(1, 1), {}, false, true},
      {"winograd long", {1, 2, 3, 130}, {3, 2, 3, 3}, padded(1, 1), {}},
      {"winograd many channels", {2, 70, 14, 9}, {40, 70, 3, 3}, padded(1, 1), {}},
      {"winograd wide padding", {1, 3, 5, 6}, {9, 3, 3, 3}, padded(3, 9), {}},
      {"winograd many rows of tiles", {3, 2, 90, 70}, {2, 2, 3, 3}, padded(1, 1), {}},
  };
}

// The first serves all devices, the second CPUs.
constexpr const char* cores[] = {"winograd", "winograd_rows"};

TEST(Conv, Winograd) {
  for (const char* core : cores) {
    const testing::Variable forced("DLPRIM_CONV", core);
    for (const Case& t : winograd_cases()) check(t, DataType::float32);
  }
}

TEST(Conv, WinogradTakesImagesInTurns) {
  for (const char* core : cores) {
    const testing::Variable forced("DLPRIM_CONV", core), one_image("DLPRIM_CONV_WORKSPACE", "0");
    for (const Case& t : winograd_cases()) check(t, DataType::float32);
  }
}

}  // namespace
}  // namespace dlprim
