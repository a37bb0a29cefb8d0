// SPDX-License-Identifier: MIT
#include <dlprim/primitives/pad.hpp>

#include <algorithm>

#include "testing.hpp"

namespace dlprim {
namespace {

using testing::DeviceVector;
using testing::queue;

std::int64_t inner(std::int64_t at, std::int64_t before, std::int64_t size, PadMode mode) {
  at -= before;
  if (mode == PadMode::replicate) return std::clamp<std::int64_t>(at, 0, size - 1);
  if (at < 0) at = -at;
  return at >= size ? 2 * (size - 1) - at : at;
}

void check_pad(std::int64_t width) {
  const std::size_t elements = std::size_t(2 * 2 * 4 * width);
  for (const PadMode mode : {PadMode::reflect, PadMode::replicate})
    for (const std::array<std::int64_t, 3> before : {std::array<std::int64_t, 3>{0, 2, 1}, {1, -1, 0}}) {
      const std::int64_t in[] = {2, 2, 4, width},
                         out[] = {2, 2 + 2 * before[0], 4 + before[1] + 1, width + before[2] + 2};
      const auto host = testing::random_floats(elements),
                 grad = testing::random_floats(std::size_t(out[0] * out[1] * out[2] * out[3]), 2);
      DeviceVector<float> source(host), padded(grad.size()), grad_out(grad), grad_in(elements);
      const TensorView i{source.data(), DataType::float32, in}, o{padded.data(), DataType::float32, out};
      pad(queue(), o, i, before, mode);
      pad_backward(queue(), {grad_in.data(), DataType::float32, in}, {grad_out.data(), DataType::float32, out}, before,
                   mode);
      std::vector<float> expected(elements, 0);
      const auto result = padded.read();
      for (std::size_t k = 0; k < grad.size(); k++) {
        std::int64_t rest = std::int64_t(k), at = 0, scale = 1;
        for (int d = 3; d > 0; d--) {
          at += scale * inner(rest % out[d], before[std::size_t(d - 1)], in[d], mode);
          scale *= in[d], rest /= out[d];
        }
        at += scale * rest;
        ASSERT_EQ(result[k], host[std::size_t(at)]);
        expected[std::size_t(at)] += grad[k];
      }
      const auto sums = grad_in.read();
      for (std::size_t k = 0; k < elements; k++) ASSERT_NEAR(sums[k], expected[k], 1e-5);
    }
}

TEST(Pad, AndItsTranspose) { check_pad(3); }

TEST(Pad, LongLines) { check_pad(700); }

TEST(Pad, FoldIsTheTransposeOfUnfold) {
  const Windows w{{2, 3}, {2, 1}, {1, 1}, {1, 2}};
  const std::int64_t image[] = {2, 5, 6}, columns[] = {2, 2, 3, 3, 4};
  const auto x = testing::random_floats(60), y = testing::random_floats(2 * 2 * 3 * 3 * 4, 2);
  DeviceVector<float> dx(x), dy(y), unfolded(y.size()), folded(60);
  unfold(queue(), {unfolded.data(), DataType::float32, columns}, {dx.data(), DataType::float32, image}, w);
  fold(queue(), {folded.data(), DataType::float32, image}, {dy.data(), DataType::float32, columns}, w);
  double a = 0, b = 0;
  const auto u = unfolded.read(), f = folded.read();
  for (std::size_t i = 0; i < y.size(); i++) a += double(u[i]) * y[i];
  for (std::size_t i = 0; i < x.size(); i++) b += double(f[i]) * x[i];
  EXPECT_NEAR(a, b, 1e-4);
  EXPECT_EQ(u[0], 0.f);  // the first window starts in the padding
}

}  // namespace
}  // namespace dlprim
