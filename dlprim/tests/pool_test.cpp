// SPDX-License-Identifier: MIT
#include <dlprim/primitives/pool.hpp>

#include <algorithm>
#include <cmath>

#include "setting.hpp"
#include "tensors.hpp"

namespace dlprim::testing {

namespace {

using Sizes = std::array<int, 3>;

struct Case {
  PoolWindow window;
  std::int64_t batch, channels;
  Sizes in, out;
  bool channels_last = false;
};

PoolWindow sliding(Sizes kernel, Sizes stride, Sizes pad, Sizes dilation = {1, 1, 1}, bool include = true,
                   int divisor = 0) {
  return {PoolWindow::sliding, kernel, stride, pad, dilation, include, divisor};
}
PoolWindow adaptive() { return {PoolWindow::adaptive}; }

const std::vector<Case>& cases() {
  static const std::vector<Case> list{
      {sliding({1, 2, 2}, {1, 2, 2}, {0, 0, 0}), 2, 3, {1, 8, 10}, {1, 4, 5}},
      {sliding({1, 3, 3}, {1, 2, 2}, {0, 1, 1}), 2, 5, {1, 15, 17}, {1, 8, 9}},
      {sliding({1, 3, 3}, {1, 2, 2}, {0, 1, 1}), 2, 5, {1, 15, 17}, {1, 8, 9}, true},
      {sliding({1, 3, 3}, {1, 2, 2}, {0, 1, 1}, {1, 1, 1}, false), 1, 70, {1, 9, 9}, {1, 5, 5}, true},
      {sliding({1, 3, 2}, {1, 1, 3}, {0, 1, 0}, {1, 1, 1}, true, 5), 1, 2, {1, 9, 9}, {1, 9, 3}},
      {sliding({2, 3, 3}, {2, 1, 2}, {1, 0, 1}), 2, 3, {5, 6, 7}, {3, 4, 4}},
      {sliding({1, 1, 7}, {1, 1, 7}, {0, 0, 0}), 3, 4, {1, 1, 70}, {1, 1, 10}},
      {sliding({1, 9, 9}, {1, 4, 4}, {0, 4, 4}), 1, 2, {1, 20, 20}, {1, 5, 5}},
      {sliding({1, 3, 3}, {1, 2, 2}, {0, 0, 0}), 1, 2, {1, 6, 6}, {1, 3, 3}},  // ceil mode: windows cut off
      {adaptive(), 2, 3, {1, 7, 10}, {1, 3, 4}},
      {adaptive(), 2, 3, {1, 3, 4}, {1, 7, 9}},
      {adaptive(), 1, 33, {3, 7, 5}, {2, 1, 5}, true},
  };
  return list;
}

// First element and length of the window of output o along an axis.
std::pair<int, int> span(const Case& c, int axis, int o) {
  if (c.window.kind == PoolWindow::adaptive) {
    const int first = o * c.in[axis] / c.out[axis];
    return {first, ((o + 1) * c.in[axis] + c.out[axis] - 1) / c.out[axis] - first};
  }
  return {o * c.window.stride[axis] - c.window.pad[axis], c.window.kernel[axis]};
}

template <class F>
void for_windows(const Case& c, F&& f) {  // f(plane, output, divisor, inputs of the window)
  std::int64_t o = 0;
  for (std::int64_t plane = 0; plane < c.batch * c.channels; plane++)
    for (int od = 0; od < c.out[0]; od++)
      for (int oh = 0; oh < c.out[1]; oh++)
        for (int ow = 0; ow < c.out[2]; ow++, o++) {
          const int at[3] = {od, oh, ow};
          std::vector<std::int64_t> inputs{0};
          int padded = 1;
          for (int axis = 0; axis < 3; axis++) {
            const auto [first, length] = span(c, axis, at[axis]);
            padded *= std::min(first + length, c.in[axis] + c.window.pad[axis]) - first;
            std::vector<std::int64_t> next;
            for (std::int64_t base : inputs)
              for (int k = 0; k < length; k++) {
                const int i = first + k * c.window.dilation[axis];
                if (i >= 0 && i < c.in[axis]) next.push_back(base * c.in[axis] + i);
              }
            inputs = next;
          }
          const int divisor = c.window.divisor                                                     ? c.window.divisor
                              : c.window.kind == PoolWindow::sliding && c.window.count_include_pad ? padded
                                                                                                   : int(inputs.size());
          f(plane, o, divisor, inputs);
        }
}

struct Tensors {
  std::vector<std::int64_t> in, out;
  std::int64_t volume;
  explicit Tensors(const Case& c) : volume(std::int64_t(c.in[0]) * c.in[1] * c.in[2]) {
    in = {c.batch, c.channels}, out = in;
    const int first = c.in[0] == 1 ? (c.in[1] == 1 ? 2 : 1) : 0;
    in.insert(in.end(), c.in.begin() + first, c.in.end());
    out.insert(out.end(), c.out.begin() + first, c.out.end());
  }
};

// Values are kept in N, C, spatial order; the device may hold them channels last.
std::vector<double> reorder(const std::vector<double>& values, const TensorView& view, bool to_memory) {
  std::vector<double> result(values.size());
  for (std::size_t i = 0; i < values.size(); i++) {
    std::int64_t rest = std::int64_t(i), at = 0;
    for (int d = view.dims - 1; d >= 0; d--) at += rest % view.sizes[d] * view.strides[d], rest /= view.sizes[d];
    (to_memory ? result[std::size_t(at)] : result[i]) = to_memory ? values[i] : values[std::size_t(at)];
  }
  return result;
}

DeviceTensor make(const Case& c, DataType type, const std::vector<std::int64_t>& sizes,
                  const std::vector<double>& values = {}) {
  DeviceTensor tensor(type, sizes);
  if (c.channels_last) tensor.channels_last();
  if (!values.empty()) tensor.write(reorder(values, tensor, true));
  return tensor;
}
std::vector<double> read(const DeviceTensor& tensor) { return reorder(tensor.read(), tensor, false); }

std::vector<double> input_values(DataType type, std::int64_t count) {
  auto values = random_values(std::size_t(count), -50, 50);
  for (double& v : values) v = rounded(type, std::round(v * 8) / 8);
  return values;
}

std::vector<DataType> types() {
  std::vector<DataType> list{DataType::float32, DataType::float16, DataType::bfloat16, DataType::int64};
  if (supports(DataType::float64)) list.push_back(DataType::float64);
  return list;
}

}  // namespace

TEST(Pool, MaximumAndItsGradient) {
  int number = 0;
  for (std::size_t index = 0; index < cases().size(); index++)
    for (DataType type : types()) {
      if (!takes(number++)) continue;
      SCOPED_TRACE(std::to_string(index) + " " + name(type));
      const Case& c = cases()[index];
      const Tensors t(c);
      const auto x = input_values(type, c.batch * c.channels * t.volume);
      const DeviceTensor in = make(c, type, t.in, x), out = make(c, type, t.out);
      const DeviceTensor indices = make(c, DataType::int64, t.out);
      const auto g = input_values(type, std::int64_t(out.numel()));
      const DeviceTensor grad_out = make(c, type, t.out, g), grad_in = make(c, type, t.in);
      max_pool(queue(), in, out, indices, c.window);
      max_pool_backward(queue(), grad_out, indices, grad_in, c.window);
      const DeviceTensor alone = make(c, type, t.out);
      max_pool(queue(), in, alone, {}, c.window);

      std::vector<double> expected(out.numel()), places(out.numel()), gradient(in.numel());
      for_windows(c, [&](std::int64_t plane, std::int64_t o, int, const std::vector<std::int64_t>& inputs) {
        std::int64_t best = inputs.at(0);
        for (auto i : inputs)
          if (x[std::size_t(plane * t.volume + i)] > x[std::size_t(plane * t.volume + best)]) best = i;
        expected[std::size_t(o)] = x[std::size_t(plane * t.volume + best)];
        places[std::size_t(o)] = double(best);
        gradient[std::size_t(plane * t.volume + best)] += g[std::size_t(o)];
      });
      EXPECT_EQ(read(out), expected);
      EXPECT_EQ(read(alone), expected);
      EXPECT_EQ(read(indices), places);
      expect_close(read(grad_in), gradient, tolerance(type));
      const Setting forced(settings.gpu_forms);
      max_pool_backward(queue(), grad_out, indices, grad_in, c.window);
      expect_close(read(grad_in), gradient, tolerance(type));
    }
}

TEST(Pool, AverageAndItsGradient) {
  int number = 0;
  for (std::size_t index = 0; index < cases().size(); index++)
    for (DataType type : types()) {
      if (!takes(number++)) continue;
      if (!is_floating(type)) continue;
      SCOPED_TRACE(std::to_string(index) + " " + name(type));
      const Case& c = cases()[index];
      const Tensors t(c);
      const auto x = input_values(type, c.batch * c.channels * t.volume);
      const DeviceTensor in = make(c, type, t.in, x), out = make(c, type, t.out);
      const auto g = input_values(type, std::int64_t(out.numel()));
      const DeviceTensor grad_out = make(c, type, t.out, g), grad_in = make(c, type, t.in);
      average_pool(queue(), in, out, c.window);
      average_pool_backward(queue(), grad_out, grad_in, c.window);

      std::vector<double> expected(out.numel()), gradient(in.numel());
      for_windows(c, [&](std::int64_t plane, std::int64_t o, int divisor, const std::vector<std::int64_t>& inputs) {
        for (auto i : inputs) {
          expected[std::size_t(o)] += x[std::size_t(plane * t.volume + i)] / divisor;
          gradient[std::size_t(plane * t.volume + i)] += g[std::size_t(o)] / divisor;
        }
      });
      expect_close(read(out), expected, tolerance(type));
      expect_close(read(grad_in), gradient, 2 * tolerance(type));
    }
}

TEST(Pool, DilatedMaximum) {
  const Case c{sliding({1, 3, 2}, {1, 2, 1}, {0, 1, 1}, {1, 2, 3}), 2, 3, {1, 11, 12}, {1, 5, 11}};
  const Tensors t(c);
  const auto x = input_values(DataType::float32, 6 * t.volume);
  const DeviceTensor in = make(c, DataType::float32, t.in, x), out = make(c, DataType::float32, t.out);
  const DeviceTensor indices = make(c, DataType::int64, t.out), grad_in = make(c, DataType::float32, t.in);
  max_pool(queue(), in, out, indices, c.window);
  max_pool_backward(queue(), out, indices, grad_in, c.window);
  std::vector<double> expected(out.numel(), -INFINITY), gradient(in.numel());
  for_windows(c, [&](std::int64_t plane, std::int64_t o, int, const std::vector<std::int64_t>& inputs) {
    std::int64_t best = inputs.at(0);
    for (auto i : inputs)
      if (x[std::size_t(plane * t.volume + i)] > x[std::size_t(plane * t.volume + best)]) best = i;
    expected[std::size_t(o)] = x[std::size_t(plane * t.volume + best)];
    gradient[std::size_t(plane * t.volume + best)] += expected[std::size_t(o)];
  });
  EXPECT_EQ(read(out), expected);
  expect_close(read(grad_in), gradient, 1e-6);
}

TEST(Pool, NanWins) {
  DeviceTensor in(DataType::float32, {1, 1, 4}, {1, NAN, 5, 2}), out(DataType::float32, {1, 1, 2});
  max_pool(queue(), in, out, {}, sliding({1, 1, 2}, {1, 1, 2}, {0, 0, 0}));
  expect_close(out.read(), {NAN, 5}, 0);
}

// Rows of several vectors, alone and with indices.
TEST(Pool, LongRows) {
  for (const int stride : {1, 2}) {
    const PoolWindow window = sliding({1, 3, 3}, {1, stride, stride}, {0, 1, 1});
    const std::int64_t h = (5 - 1) / stride + 1, w = (75 - 1) / stride + 1;
    auto values = input_values(DataType::float32, 2 * 3 * 5 * 75);
    values[77] = values[400] = NAN, values[700] = -INFINITY;
    const DeviceTensor in(DataType::float32, {2, 3, 5, 75}, values);
    const DeviceTensor out(DataType::float32, {2, 3, h, w}), both(DataType::float32, {2, 3, h, w});
    const DeviceTensor indices(DataType::int64, {2, 3, h, w});
    max_pool(queue(), in, out, {}, window);
    max_pool(queue(), in, both, indices, window);
    EXPECT_EQ(std::ranges::count_if(both.read(), [](double v) { return std::isnan(v); }), stride == 1 ? 15 : 4);
    expect_close(out.read(), both.read(), 0);
  }
}

TEST(Pool, FractionalWindowsStayInside) {
  const auto x = random_values(2 * 3 * 11 * 13);
  DeviceTensor in(DataType::float32, {2, 3, 11, 13}, x), samples(DataType::float32, {2, 3, 2}, random_values(12, 0, 1));
  DeviceTensor out(DataType::float32, {2, 3, 5, 6}), indices(DataType::int64, {2, 3, 5, 6});
  DeviceTensor grad_in(DataType::float32, {2, 3, 11, 13}),
      ones(DataType::float32, {2, 3, 5, 6}, std::vector<double>(180, 1));
  PoolWindow window{PoolWindow::fractional, {1, 3, 2}};
  max_pool(queue(), in, out, indices, window, samples);
  max_pool_backward(queue(), ones, indices, grad_in, window);
  const auto places = indices.read(), values = out.read();
  std::vector<double> gradient(x.size());
  for (std::size_t o = 0; o < places.size(); o++) {
    ASSERT_GE(places[o], 0);
    ASSERT_LT(places[o], 143);
    const std::size_t at = o / 30 * 143 + std::size_t(places[o]);
    EXPECT_FLOAT_EQ(float(values[o]), float(x[at]));
    gradient[at] += 1;
  }
  EXPECT_EQ(grad_in.read(), gradient);
}

TEST(Pool, UnpoolingPutsBackAndReports) {
  DeviceTensor in(DataType::float32, {1, 1, 2}, {3, 4}), out(DataType::float32, {1, 1, 4}, {0, 0, 0, 0});
  max_unpool(queue(), in, DeviceTensor(DataType::int64, {1, 1, 2}, {3, 1}), out);
  EXPECT_EQ(out.read(), (std::vector<double>{0, 4, 0, 3}));
  max_unpool(queue(), in, DeviceTensor(DataType::int64, {1, 1, 2}, {0, 9}), out);
  EXPECT_THROW(out.read(), IndexError);
}

TEST(Pool, RefusesMismatches) {
  DeviceTensor in(DataType::float32, {1, 2, 4}), out(DataType::float32, {1, 3, 2});
  EXPECT_THROW(average_pool(queue(), in, out, {}), ValidationError);
}

}  // namespace dlprim::testing
