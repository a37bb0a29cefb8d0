// SPDX-License-Identifier: MIT
// Networks whose images take another layout on CPUs.
#include <cmath>

#include "models.hpp"

namespace dlprim::testing {
namespace {

using Values = std::vector<float>;

Values numbers(std::int64_t count, int seed) {
  Values values(std::size_t(count), 0);
  for (std::size_t i = 0; i < values.size(); i++) values[i] = float((int(i) * 37 + seed * 11) % 23 - 11) / 16;
  return values;
}

struct Layer {
  std::int64_t out, in_a_group, kernel, stride, groups;
  bool relu;
};

void add(ModelBuilder& builder, const Layer& l, int number, const std::string& from, const std::string& to) {
  const std::string n = std::to_string(number);
  builder.constant("w" + n, {l.out, l.in_a_group, l.kernel, l.kernel},
                   numbers(l.out * l.in_a_group * l.kernel * l.kernel, number));
  builder.constant("b" + n, {l.out}, numbers(l.out, number + 1));
  auto* conv = builder.node("Conv", {from, "w" + n, "b" + n}, {l.relu ? to + "c" : to});
  attribute(conv, "pads", std::vector<std::int64_t>(4, l.kernel / 2));
  attribute(conv, "strides", std::vector<std::int64_t>(2, l.stride));
  attribute(conv, "group", l.groups);
  if (l.relu) builder.node("Relu", {to + "c"}, {to});
}

Values result_of(const ModelBuilder& builder, const Values& x) {
  Net net{Context(device())};
  net.mode(CalculationsMode::predict);
  net.load_model(builder.model());
  run(net, x);
  return run(net, x);
}

// A first layer, an inverted residual with a gate on its channels, a sum, a layer that reads rows where `dense` says so.
Values block(std::int64_t batch, bool dense) {
  const Layer layers[] = {{24, 3, 3, 2, 1, true},
                          {80, 24, 1, 1, 1, true},
                          {80, 1, 3, 1, 80, true},
                          {24, 80, 1, 1, 1, false},
                          {7, 24, 3, 1, 1, false}};
  ModelBuilder builder;
  builder.input("x", {batch, 3, 13, 18});
  builder.output("y", {batch, dense ? 7 : 24, 7, 9});
  add(builder, layers[0], 0, "x", "s"), add(builder, layers[1], 1, "s", "e"), add(builder, layers[2], 2, "e", "d");
  builder.node("GlobalAveragePool", {"d"}, {"m"});
  builder.node("Sigmoid", {"m"}, {"g"}), builder.node("Mul", {"d", "g"}, {"p"});
  add(builder, layers[3], 3, "p", "q");
  builder.node("Add", {"q", "s"}, {dense ? "r" : "y"});
  if (dense) add(builder, layers[4], 4, "r", "y");
  return result_of(builder, numbers(batch * 3 * 13 * 18, 5));
}

// The same sums on the host, in the order of the layers.
Values convolved(const Values& x, std::int64_t images, std::int64_t& height, std::int64_t& width, const Layer& l,
                 int number) {
  const Values w = numbers(l.out * l.in_a_group * l.kernel * l.kernel, number), b = numbers(l.out, number + 1);
  const std::int64_t channels = l.in_a_group * l.groups, pad = l.kernel / 2;
  const std::int64_t rows = (height + 2 * pad - l.kernel) / l.stride + 1,
                     columns = (width + 2 * pad - l.kernel) / l.stride + 1;
  Values y;
  for (std::int64_t n = 0; n < images; n++)
    for (std::int64_t o = 0; o < l.out; o++)
      for (std::int64_t i = 0; i < rows; i++)
        for (std::int64_t j = 0; j < columns; j++) {
          double sum = b[std::size_t(o)];
          for (std::int64_t c = 0; c < l.in_a_group; c++)
            for (std::int64_t t = 0; t < l.kernel * l.kernel; t++) {
              const std::int64_t h = i * l.stride - pad + t / l.kernel, v = j * l.stride - pad + t % l.kernel;
              if (h < 0 || h >= height || v < 0 || v >= width) continue;
              const std::int64_t channel = o / (l.out / l.groups) * l.in_a_group + c;
              sum += double(x[std::size_t(((n * channels + channel) * height + h) * width + v)]) *
                     w[std::size_t((o * l.in_a_group + c) * l.kernel * l.kernel + t)];
            }
          y.push_back(float(l.relu ? std::max(sum, 0.0) : sum));
        }
  height = rows, width = columns;
  return y;
}

Values expected_of_block(std::int64_t batch, bool dense) {
  std::int64_t height = 13, width = 18;
  const Values s = convolved(numbers(batch * 3 * 13 * 18, 5), batch, height, width, {24, 3, 3, 2, 1, true}, 0);
  const Values e = convolved(s, batch, height, width, {80, 24, 1, 1, 1, true}, 1);
  Values d = convolved(e, batch, height, width, {80, 1, 3, 1, 80, true}, 2);
  const std::size_t plane = std::size_t(height * width);
  for (std::size_t c = 0; c < d.size() / plane; c++) {
    double mean = 0;
    for (std::size_t i = 0; i < plane; i++) mean += double(d[c * plane + i]) / double(plane);
    for (std::size_t i = 0; i < plane; i++) d[c * plane + i] *= float(1 / (1 + std::exp(-mean)));
  }
  Values q = convolved(d, batch, height, width, {24, 80, 1, 1, 1, false}, 3);
  for (std::size_t i = 0; i < q.size(); i++) q[i] += s[i];
  return dense ? convolved(q, batch, height, width, {7, 24, 3, 1, 1, false}, 4) : q;
}

TEST(Net, LaysChannelsSideBySide) {
  for (const bool dense : {false, true})
    for (const std::int64_t batch : {1, 3}) {
      const Values found = block(batch, dense), expected = expected_of_block(batch, dense);
      ASSERT_EQ(found.size(), expected.size());
      double error = 0, norm = 0;
      for (std::size_t i = 0; i < found.size(); i++)
        error += std::pow(double(found[i]) - expected[i], 2), norm += std::pow(double(expected[i]), 2);
      EXPECT_LE(std::sqrt(error), 2e-6 * std::sqrt(norm)) << "batch " << batch << ", dense " << dense;
    }
}

}  // namespace
}  // namespace dlprim::testing
