// SPDX-License-Identifier: MIT
// Convolutions whose channels lie side by side, in the forms that CPUs have for them.
#include "conv_case.hpp"

namespace dlprim {
namespace {

using namespace testing::conv;
using testing::Elements;

// Rows of x, and results whose channels lie side by side; weights kept or not.
void check_from_rows(const Case& t, bool biased) {
  const DataType type = DataType::float32;
  const Sizes y = output_sizes(t);
  const Elements x(type, std::size_t(numel(t.x)), 1), w(type, std::size_t(numel(t.w)), 2),
      b(type, std::size_t(t.w[0]), 3), r(type, std::size_t(numel(y)), 4);
  const TensorView bias = biased ? TensorView(b.data(), type, {t.w[0]}) : TensorView();
  std::vector<double> expected(std::size_t(numel(y)), 0);
  products(t, y, [&](std::int64_t xi, std::int64_t wi, std::int64_t yi) {
    expected[std::size_t(yi)] += x.host(std::size_t(xi)) * w.host(std::size_t(wi));
  });
  const std::int64_t positions = numel(y) / (y[0] * y[1]);
  const Sizes stride = strides(y, true);
  std::optional<Workspace> kept;
  for (int call = 0; call < 3; call++) {
    const bool added = call == 2;
    const Elements result(type, std::size_t(numel(y)), 5);
    conv_forward(testing::queue(), view(x, t.x, false), view(w, t.w, false), bias, view(result, y, true), t.options,
                 Activation::relu, added ? view(r, y, true) : TensorView(), call ? &kept : nullptr);
    std::vector<double> wanted = expected;
    for (std::int64_t i = 0; i < numel(y); i++) {
      double& v = wanted[std::size_t(i)];
      if (biased) v += b.host(std::size_t(i / positions % y[1]));
      if (added) v += r.host(std::size_t(offset(i, y, stride)));
      v = std::max(v, 0.0);
    }
    compare(t.label, wanted, result, y, true, 1e-6);
  }
}

TEST(Conv, WindowsLast) {
  const testing::Variable forced("DLPRIM_CONV", "windows_last");
  const auto padded = [](int h, int w) { return options({1, 1, 1}, {h, w, 0}); };
  for (const bool biased : {true, false})
    for (const Case& t : {
             Case{"windows 3x3 stride 2", {2, 3, 33, 40}, {32, 3, 3, 3}, options({2, 2, 1}, {1, 1, 0}), {}},
             Case{"windows 7x7 stride 2", {1, 3, 20, 31}, {70, 3, 7, 7}, options({2, 2, 1}, {3, 3, 0}), {}},
             Case{"windows of a long row", {1, 2, 3, 300}, {17, 2, 3, 3}, padded(1, 1), {}},
             Case{"windows, stride 3, dilation",
                  {2, 2, 17, 40},
                  {16, 2, 3, 4},
                  options({3, 3, 1}, {1, 5, 0}, {1, 2, 1}),
                  {}},
             Case{"windows, wide padding", {1, 2, 5, 6}, {20, 2, 3, 3}, padded(2, 20), {}},
             Case{"windows, few fit", {1, 2, 9, 700}, {16, 2, 7, 4}, options({2, 5, 1}, {3, 1, 0}, {1, 2, 1}), {}},
             Case{"windows, padding behind", {3, 4, 5, 6}, {48, 4, 2, 2}, padded(0, 0), {1, 1}},
         })
      check_from_rows(t, biased);
}

// More channels than a work-item takes at once, the last 16 of which overlap others.
TEST(Conv, DepthwiseLastOfManyChannels) {
  const auto of = [](std::int64_t channels, int stride, int padding) {
    return options({stride, stride, 1}, {padding, padding, 0}, {1, 1, 1}, channels);
  };
  check({"depthwise last, 100", {2, 100, 9, 17}, {100, 1, 3, 3}, of(100, 1, 1), {}, true}, DataType::float32);
  check({"depthwise last, stride 2, 70", {1, 70, 12, 11}, {70, 1, 5, 5}, of(70, 2, 2), {}, true}, DataType::float32);
  check({"depthwise last, 144", {1, 144, 7, 7}, {144, 1, 3, 3}, of(144, 1, 1), {}, true}, DataType::bfloat16);
}

}  // namespace
}  // namespace dlprim
