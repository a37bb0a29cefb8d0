// SPDX-License-Identifier: MIT
#include <dlprim/primitives/norm.hpp>
#include <dlprim/runtime/settings.hpp>

#include "setting.hpp"
#include "tensors.hpp"

namespace dlprim {
namespace {

using namespace testing;

struct Case {
  std::int64_t n, c, s;
  bool channels_last;
};

// Element (n, c, s) of data laid out as the case says.
std::size_t at(const Case& k, std::int64_t n, std::int64_t c, std::int64_t s) {
  return std::size_t(k.channels_last ? (n * k.s + s) * k.c + c : (n * k.c + c) * k.s + s);
}

TensorView data(const Case& k, const DeviceTensor& t) {
  const std::int64_t sizes[] = {k.n, k.c, k.s}, strides[] = {k.s * k.c, 1, k.c};
  const TensorView& v = t.view();
  return k.channels_last ? TensorView(v.data, v.dtype, sizes, strides) : TensorView(v.data, v.dtype, sizes);
}

// Training forward and backward of batch norm against sums in double.
void compare(const Case& k, DataType type) {
  SCOPED_TRACE(::testing::Message() << k.n << "x" << k.c << "x" << k.s << (k.channels_last ? " channels last " : " ")
                                    << name(type));
  const std::size_t count = std::size_t(k.n * k.c * k.s);
  const std::vector<std::int64_t> flat = {std::int64_t(count)}, channels = {k.c};
  const DeviceTensor x(type, flat, random_values(count, 4, 6, 1)), gy(type, flat, random_values(count, -1, 1, 2));
  const DeviceTensor w(DataType::float32, channels, random_values(k.c, 0.5, 1.5, 3)),
      b(DataType::float32, channels, random_values(k.c, -1, 1, 4));
  DeviceTensor running_mean(DataType::float32, channels, std::vector<double>(k.c, 1)),
      running_var(DataType::float32, channels, std::vector<double>(k.c, 2));
  DeviceTensor mean(DataType::float32, channels), invstd(DataType::float32, channels), sum(DataType::float32, channels),
      dot(DataType::float32, channels);
  DeviceTensor y(type, flat), gx(type, flat);
  const double eps = 1e-3, momentum = 0.25, m = double(k.n * k.s);
  batch_norm_statistics(queue(), data(k, x), mean, invstd, eps, {running_mean, running_var, momentum});
  const ChannelStatistics statistics{mean, invstd};
  batch_norm_apply(queue(), data(k, y), data(k, x), statistics, w, b);
  batch_norm_sums(queue(), sum, dot, data(k, gy), data(k, x), statistics);
  batch_norm_backward(queue(), data(k, gx), data(k, gy), data(k, x), statistics, w, sum, dot, m);

  const std::vector<double> xs = x.read(), gs = gy.read(), ws = w.read(), bs = b.read();
  std::vector<double> means, rms, rvs, ys(count), gxs(count), sums, dots;
  for (std::int64_t c = 0; c < k.c; c++) {
    double mu = 0, m2 = 0, s1 = 0, s2 = 0;
    auto each = [&](auto&& f) {
      for (std::int64_t n = 0; n < k.n; n++)
        for (std::int64_t s = 0; s < k.s; s++) f(at(k, n, c, s));
    };
    each([&](std::size_t i) { mu += xs[i] / m; });
    each([&](std::size_t i) { m2 += (xs[i] - mu) * (xs[i] - mu); });
    const double inv = 1 / std::sqrt(m2 / m + eps);
    each([&](std::size_t i) { s1 += gs[i], s2 += gs[i] * (xs[i] - mu) * inv; });
    each([&](std::size_t i) {
      ys[i] = (xs[i] - mu) * inv * ws[c] + bs[c];
      gxs[i] = inv * ws[c] * (gs[i] - s1 / m - (xs[i] - mu) * inv * s2 / m);
    });
    means.push_back(mu), sums.push_back(s1), dots.push_back(s2);
    rms.push_back(0.75 + 0.25 * mu), rvs.push_back(1.5 + 0.25 * m2 / (m - 1));
  }
  const double loose = std::max(1e-4, 2 * tolerance(type));
  expect_close(mean.read(), means, 1e-5);
  expect_close(running_mean.read(), rms, 1e-5);
  expect_close(running_var.read(), rvs, 1e-4);
  expect_close(y.read(), ys, loose);
  expect_close(sum.read(), sums, 2e-4);
  expect_close(dot.read(), dots, 2e-4);
  expect_close(gx.read(), gxs, loose);
}

TEST(BatchNorm, TrainingInBothLayouts) {
  for (bool last : {false, true})
    for (const Case& k : {Case{2, 3, 1, last}, Case{5, 1, 7, last}, Case{4, 64, 49, last}, Case{3, 17, 400, last},
                          Case{2, 130, 12, last}, Case{1, 5, 10007, last}})
      compare(k, DataType::float32);
}

TEST(BatchNorm, HalfDataFloatParameters) {
  for (bool last : {false, true})
    compare({3, 12, 20, last}, DataType::bfloat16), compare({3, 12, 20, last}, DataType::float16);
}

// Channels side by side as GPUs take them: vectors of four and one, idle lanes, last chunks of few rows.
TEST(BatchNorm, ChannelsLastOnGpus) {
  const Setting forced(settings.gpu_forms);
  for (const DataType type : {DataType::float32, DataType::bfloat16, DataType::float16})
    for (const Case& k : {Case{3, 24, 50, true}, Case{2, 64, 700, true}, Case{1, 320, 67, true}, Case{2, 36, 333, true},
                          Case{1, 7, 3001, true}, Case{5, 100, 13, true}, Case{70, 40, 1, true}})
      compare(k, type);
}

// Data far from zero, and elements far from all others, wherever they are: the first of a work-item is what the others'
// distances are summed from.
TEST(BatchNorm, StatisticsOfUnevenData) {
  const Setting forced(settings.gpu_forms);
  const std::int64_t rows = 5000, channels = 8;
  for (const double middle : {0.0, 1e4}) {
    std::vector<double> values = random_values(rows * channels, middle - 1, middle + 1, 7);
    for (std::int64_t c = 1; c < channels; c++)
      values[std::size_t((c - 1) * 31 * channels + c)] = middle + 2e3 * double(c);
    const DeviceTensor x(DataType::float32, {rows, channels}, values);
    values = x.read();
    DeviceTensor mean(DataType::float32, {channels}), invstd(DataType::float32, {channels});
    batch_norm_statistics(queue(), x, mean, invstd, 0);
    std::vector<double> means(channels), invstds(channels);
    for (std::size_t c = 0; c < std::size_t(channels); c++) {
      double mu = 0, m2 = 0;
      for (std::size_t r = 0; r < std::size_t(rows); r++) mu += values[r * channels + c] / double(rows);
      for (std::size_t r = 0; r < std::size_t(rows); r++) m2 += std::pow(values[r * channels + c] - mu, 2);
      means[c] = mu, invstds[c] = 1 / std::sqrt(m2 / double(rows));
    }
    const std::vector<double> found = mean.read(), spreads = invstd.read();
    for (std::size_t c = 0; c < std::size_t(channels); c++) {
      EXPECT_NEAR(found[c], means[c], 2e-7 * std::abs(means[c]) + 2e-5 / invstds[c]) << middle << ", channel " << c;
      EXPECT_NEAR(spreads[c] / invstds[c], 1, 1e-5) << middle << ", channel " << c;
    }
  }
}

TEST(BatchNorm, EvaluationFromVariance) {
  const DeviceTensor x(DataType::float32, {1, 2, 3}, {1, 2, 3, 4, 5, 6}), mean(DataType::float32, {2}, {1, 2}),
      var(DataType::float32, {2}, {4, 9});
  DeviceTensor y(DataType::float32, {1, 2, 3}), gx(DataType::float32, {1, 2, 3});
  const ChannelStatistics statistics{mean, var, true, 0};
  batch_norm_apply(queue(), y, x, statistics, {}, {});
  expect_close(y.read(), {0, 0.5, 1, 2 / 3., 1, 4 / 3.}, 1e-6);
  batch_norm_backward(queue(), gx, x, x, statistics, {}, {}, {}, 1);
  expect_close(gx.read(), {0.5, 1, 1.5, 4 / 3., 5 / 3., 2}, 1e-6);
}

TEST(BatchNorm, GathersStatistics) {
  const std::vector<double> all = random_values(40, 3, 5);
  const DeviceTensor x(DataType::float32, {40, 1}, all);
  DeviceTensor whole(DataType::float32, {2}), means(DataType::float32, {2, 1}), invs(DataType::float32, {2, 1}),
      merged(DataType::float32, {2});
  const TensorView v = x.view();
  batch_norm_statistics(queue(), v, whole.view().narrowed(0, 0, 1), whole.view().narrowed(0, 1, 1), 1e-5);
  for (int part : {0, 1}) {
    const TensorView half = part ? v.narrowed(0, 10, 30) : v.narrowed(0, 0, 10);
    batch_norm_statistics(queue(), half, means.view().narrowed(0, part, 1).reshaped({1}),
                          invs.view().narrowed(0, part, 1).reshaped({1}), 1e-5);
  }
  const DeviceTensor counts(DataType::float32, {2}, {10, 30});
  batch_norm_gather(queue(), means, invs, counts, merged.view().narrowed(0, 0, 1), merged.view().narrowed(0, 1, 1),
                    1e-5, {});
  expect_close(merged.read(), whole.read(), 1e-5);
}

// Group norm (layer norm with one group and inner 1; RMS norm uncentered) against sums in double.
void compare_rows(const GroupShape& shape, DataType type) {
  SCOPED_TRACE(::testing::Message() << shape.rows << "x" << shape.channels << "x" << shape.inner << " groups "
                                    << shape.groups << " " << name(type));
  const std::int64_t width = shape.channels / shape.groups, length = width * shape.inner,
                     rows = shape.rows * shape.groups;
  const std::size_t count = std::size_t(rows * length);
  const std::vector<std::int64_t> flat = {std::int64_t(count)}, channels = {shape.channels};
  const DeviceTensor x(type, flat, random_values(count, 1, 3, 1)), gy(type, flat, random_values(count, -1, 1, 2));
  const DeviceTensor w(DataType::float32, channels, random_values(shape.channels, 0.5, 1.5, 3)),
      b(DataType::float32, channels, random_values(shape.channels, -1, 1, 4));
  DeviceTensor mean(DataType::float32, {rows}), rstd(DataType::float32, {rows}), y(type, flat), gx(type, flat),
      gw(DataType::float32, channels), gb(DataType::float32, channels);
  group_norm(queue(), shape, y, mean, rstd, x, w, b);
  group_norm_backward(queue(), shape, gx, gy, x, mean, rstd, w, gw, gb);
  const std::vector<double> xs = x.read(), gs = gy.read(), ws = w.read(), bs = b.read();
  std::vector<double> ys(count), gxs(count), gws(shape.channels, 0), gbs(shape.channels, 0);
  for (std::int64_t r = 0; r < rows; r++) {
    double mu = 0, m2 = 0, s1 = 0, s2 = 0;
    auto channel = [&](std::int64_t i) { return r % shape.groups * width + i / shape.inner; };
    for (std::int64_t i = 0; i < length; i++) mu += shape.center ? xs[r * length + i] / double(length) : 0;
    for (std::int64_t i = 0; i < length; i++) m2 += std::pow(xs[r * length + i] - mu, 2);
    const double inv = 1 / std::sqrt(m2 / double(length) + shape.eps);
    for (std::int64_t i = 0; i < length; i++) {
      const double h = (xs[r * length + i] - mu) * inv, g = gs[r * length + i];
      ys[r * length + i] = h * ws[channel(i)] + bs[channel(i)];
      gbs[channel(i)] += g, gws[channel(i)] += g * h;
      s1 += shape.center ? g * ws[channel(i)] : 0, s2 += g * ws[channel(i)] * h;
    }
    for (std::int64_t i = 0; i < length; i++) {
      const double h = (xs[r * length + i] - mu) * inv, g = gs[r * length + i] * ws[channel(i)];
      gxs[r * length + i] = inv * (g - s1 / double(length) - h * s2 / double(length));
    }
  }
  const double loose = std::max(1e-4, 2 * tolerance(type));
  expect_close(y.read(), ys, loose);
  expect_close(gx.read(), gxs, loose);
  expect_close(gw.read(), gws, 1e-3);
  if (shape.center) expect_close(gb.read(), gbs, 1e-3);
}

TEST(GroupNorm, LayerGroupAndRootMeanSquare) {
  for (std::int64_t length : {2, 7, 16, 100, 768, 1025, 10007}) compare_rows({5, length, 1, 1}, DataType::float32);
  compare_rows({3, 64, 49, 8}, DataType::float32);
  compare_rows({2, 6, 1000, 2}, DataType::float32);
  compare_rows({2, (1 << 20) + 3, 1, 1}, DataType::float32);
  compare_rows({70, 4, 1, 4}, DataType::float32);
  compare_rows({6, 300, 1, 1, false}, DataType::float32);
  compare_rows({6, 300, 1, 1}, DataType::bfloat16);
  compare_rows({2, 32, 9, 4}, DataType::float16);
  // More rows than work-items of CPUs, ends of rows and of channels that fill no vector.
  const std::int64_t many = 8 * queue().device().info().compute_units + 3;
  for (DataType type : {DataType::float32, DataType::bfloat16, DataType::float16}) {
    compare_rows({many, 45, 1, 1}, type);
    compare_rows({many, 72, 1, 2}, type);
    compare_rows({3, 6, 41, 3}, type);
  }
}

TEST(GroupNorm, GradientsInOnePass) {
  const Setting forced(settings.gpu_forms);
  const std::int64_t rows = 32 * 4 * queue().device().info().compute_units + 3;
  for (DataType type : {DataType::float32, DataType::bfloat16}) compare_rows({rows, 96, 1, 1}, type);
  compare_rows({rows, 20, 1, 1, false}, DataType::float32);
  for (std::int64_t length : {768, 5120}) compare_rows({40, length, 1, 1}, DataType::float32);
  compare_rows({40, 301, 1, 1, false}, DataType::float16);
  compare_rows({2, (1 << 20) + 3, 1, 1}, DataType::float32);
}

TEST(GroupNorm, RefusesWhatDoesNotFit) {
  const DeviceTensor x(DataType::float32, {12});
  EXPECT_THROW(group_norm(queue(), {2, 6, 1, 4}, x, x, x, x, {}, {}), ValidationError);
  EXPECT_THROW(group_norm(queue(), {3, 6, 1, 1}, x, x, x, x, {}, {}), ValidationError);
}

}  // namespace
}  // namespace dlprim
