// SPDX-License-Identifier: MIT
#include <dlprim/primitives/upsample.hpp>

#include "tensors.hpp"

namespace dlprim::testing {

namespace {

std::vector<double> resized(DataType type, const std::vector<std::int64_t>& from, const std::vector<std::int64_t>& to,
                            const std::vector<double>& values, const Resampling& how) {
  DeviceTensor in(type, from, values), out(type, to);
  resample(queue(), in, out, how);
  return out.read();
}

}  // namespace

TEST(Upsample, Nearest) {
  EXPECT_EQ(resized(DataType::int32, {1, 1, 3}, {1, 1, 7}, {1, 2, 3}, {ResampleMode::nearest}),
            (std::vector<double>{1, 1, 1, 2, 2, 3, 3}));
  EXPECT_EQ(resized(DataType::float16, {1, 1, 2, 2}, {1, 1, 4, 2}, {1, 2, 3, 4}, {ResampleMode::nearest_exact}),
            (std::vector<double>{1, 2, 1, 2, 3, 4, 3, 4}));
}

TEST(Upsample, LinearByHand) {
  expect_close(resized(DataType::float32, {1, 1, 2}, {1, 1, 4}, {0, 4}, {ResampleMode::linear}), {0, 1, 3, 4}, 1e-6);
  expect_close(resized(DataType::float32, {1, 1, 2}, {1, 1, 5}, {0, 4}, {ResampleMode::linear, true}), {0, 1, 2, 3, 4},
               1e-6);
  expect_close(resized(DataType::float32, {1, 1, 4}, {1, 1, 2}, {0, 4, 8, 4}, {ResampleMode::linear, false, true}),
               {2.8571428571, 5.7142857143}, 1e-6);
}

// Every mode keeps constants, also where windows are cut off at the edges.
TEST(Upsample, ConstantsStay) {
  for (auto mode : {ResampleMode::linear, ResampleMode::cubic, ResampleMode::lanczos})
    for (bool antialias : {false, true})
      for (bool corners : {false, true})
        for (std::int64_t size : {1, 3, 9, 14}) {
          const auto values = resized(DataType::float32, {1, 2, 7, 5}, {1, 2, size, size + 1},
                                      std::vector<double>(70, 2.5), {mode, corners, antialias});
          expect_close(values, std::vector<double>(values.size(), 2.5), 1e-5);
        }
}

// <resample(x), g> = <x, resample_backward(g)>: the gradient is the transposed map.
TEST(Upsample, GradientIsTheTransposedMap) {
  struct Case {
    std::vector<std::int64_t> in, out;
  };
  const Case cases[] = {{{2, 3, 5}, {2, 3, 12}},        {{2, 3, 12}, {2, 3, 5}},
                        {{1, 66, 4, 6}, {1, 66, 9, 3}}, {{1, 66, 1, 1}, {1, 66, 3, 4}},
                        {{1, 66, 6, 7}, {1, 66, 1, 1}}, {{1, 2, 3, 4, 5}, {1, 2, 5, 2, 9}}};
  int number = 0;
  for (DataType type : {DataType::float32, DataType::float64}) {
    if (!supports(type)) continue;
    for (const Case& c : cases)
      for (int mode = 0; mode < 5; mode++)
        for (bool antialias : {false, true})
          for (double factor : {0.0, 0.61})
            for (bool channels_last : {false, true}) {
              if (!takes(number++)) continue;
              const Resampling how{ResampleMode(mode), false, antialias, {factor, factor, factor}};
              DeviceTensor in(type, c.in), out(type, c.out), grad_out(type, c.out), grad_in(type, c.in);
              if (channels_last)
                in.channels_last(), out.channels_last(), grad_out.channels_last(), grad_in.channels_last();
              const auto x = random_values(in.numel()), g = random_values(out.numel(), -1, 1, 5);
              in.write(x), grad_out.write(g);
              resample(queue(), in, out, how);
              resample_backward(queue(), grad_out, grad_in, how);
              const auto y = out.read(), dx = grad_in.read();
              double forward = 0, backward = 0;
              for (std::size_t i = 0; i < y.size(); i++) forward += y[i] * g[i];
              for (std::size_t i = 0; i < x.size(); i++) backward += x[i] * dx[i];
              EXPECT_NEAR(forward, backward, 1e-4 * (1 + std::fabs(forward)))
                  << c.in.size() << " mode " << mode << " antialias " << antialias << " factor " << factor;
            }
  }
}

TEST(Upsample, RefusesMismatches) {
  DeviceTensor in(DataType::float32, {1, 2, 4}), out(DataType::float16, {1, 2, 8});
  EXPECT_THROW(resample(queue(), in, out, {}), ValidationError);
}

}  // namespace dlprim::testing
