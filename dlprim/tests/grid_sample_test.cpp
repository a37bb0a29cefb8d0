// SPDX-License-Identifier: MIT
#include <dlprim/primitives/grid_sample.hpp>

#include <cmath>
#include <cstring>

#include "tensors.hpp"

namespace dlprim::testing {

// With aligned corners the grid that names every element returns the image.
TEST(GridSample, IdentityGridReturnsTheImage) {
  const auto x = random_values(2 * 3 * 4 * 5);
  std::vector<double> places;
  for (int n = 0; n < 2; n++)
    for (int h = 0; h < 4; h++)
      for (int w = 0; w < 5; w++) places.insert(places.end(), {w / 4.0 * 2 - 1, h / 3.0 * 2 - 1});
  DeviceTensor in(DataType::float32, {2, 3, 4, 5}, x), grid(DataType::float32, {2, 4, 5, 2}, places);
  DeviceTensor out(DataType::float32, {2, 3, 4, 5});
  for (auto mode : {GridSampling::bilinear, GridSampling::nearest, GridSampling::cubic})
    for (auto padding : {GridSampling::zeros, GridSampling::border, GridSampling::reflection}) {
      grid_sample(queue(), in, grid, out, {mode, padding, true});
      expect_close(out.read(), x, 1e-4);
    }
}

// Gradients against differences of the sum of g * out, with coordinates beyond the borders.
TEST(GridSample, GradientsMatchDifferences) {
  if (!supports(DataType::float64) || !queue().device().info().int64_atomics) GTEST_SKIP() << "needs float64 atomics";
  for (int axes : {2, 3})
    for (auto mode : {GridSampling::bilinear, GridSampling::nearest, GridSampling::cubic})
      for (auto padding : {GridSampling::zeros, GridSampling::border, GridSampling::reflection})
        for (bool corners : {false, true}) {
          if (axes == 3 && mode == GridSampling::cubic) continue;
          const GridSampling how{mode, padding, corners};
          std::vector<std::int64_t> image{1, 2}, places{1}, output{1, 2};
          for (int a = 0; a < axes; a++) image.push_back(3 + a), places.push_back(2 + a), output.push_back(2 + a);
          places.push_back(axes);
          DeviceTensor in(DataType::float64, image), grid(DataType::float64, places), out(DataType::float64, output);
          auto x = random_values(in.numel()), u = random_values(grid.numel(), -1.7, 1.7, 2);
          const auto g = random_values(out.numel(), -1, 1, 3);
          DeviceTensor grad_out(DataType::float64, output, g), grad_grid(DataType::float64, places);
          DeviceTensor grad_in(DataType::float64, image, std::vector<double>(in.numel(), 0));
          auto value = [&] {
            in.write(x), grid.write(u);
            grid_sample(queue(), in, grid, out, how);
            const auto y = out.read();
            double sum = 0;
            for (std::size_t i = 0; i < y.size(); i++) sum += y[i] * g[i];
            return sum;
          };
          value();
          grid_sample_backward(queue(), grad_out, in, grid, grad_in, grad_grid, how);
          const auto dx = grad_in.read(), du = grad_grid.read();
          for (auto [values, gradient] : {std::pair(&x, &dx), std::pair(&u, &du)})
            for (std::size_t i = 0; i < values->size(); i += 3) {
              const double old = (*values)[i], step = 1e-6;
              (*values)[i] = old + step;
              const double up = value();
              (*values)[i] = old - step;
              const double down = value();
              (*values)[i] = old;
              EXPECT_NEAR((*gradient)[i], (up - down) / (2 * step), 1e-5) << axes << mode << padding << corners;
            }
        }
}

// Reflected as often as it takes: remainders of coordinates far away are exact.
TEST(GridSample, ReflectsFromFarAway) {
  std::vector<double> far;
  for (int i = 0; i < 64; i++) far.push_back(std::ldexp(1.0 + i / 64.0, i % 24) * (i % 2 ? -1 : 1));
  DeviceTensor in(DataType::float32, {1, 1, 1, 7}, {0, 1, 2, 3, 4, 5, 6});
  std::vector<double> places;
  for (const double x : far) places.push_back(x), places.push_back(0);
  DeviceTensor grid(DataType::float32, {1, 1, 64, 2}, places), out(DataType::float32, {1, 1, 1, 64});
  grid_sample(queue(), in, grid, out, {GridSampling::bilinear, GridSampling::reflection, true});
  const auto y = out.read();
  for (std::size_t i = 0; i < far.size(); i++) {
    const double place = std::fabs(double((float(far[i]) + 1) / 2 * 6)), rest = std::fmod(place, 6.0);
    const bool flipped = std::fmod(std::floor(double(float(place) / 6.0f)), 2.0) != 0;
    EXPECT_NEAR(y[i], flipped ? 6 - rest : rest, 1e-5) << far[i];
  }
}

TEST(GridSample, RefusesMismatches) {
  DeviceTensor in(DataType::float32, {1, 1, 2, 2}), grid(DataType::float32, {1, 2, 2, 3}),
      out(DataType::float32, {1, 1, 2, 2});
  EXPECT_THROW(grid_sample(queue(), in, grid, out, {}), ValidationError);
}

}  // namespace dlprim::testing
