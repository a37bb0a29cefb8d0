// SPDX-License-Identifier: MIT
#include <dlprim/primitives/loss.hpp>

#include "tensors.hpp"

namespace dlprim::testing {

namespace {

struct Shape {
  std::int64_t rows, classes, places;  // places 0: a two-dimensional input
  std::int64_t count() const { return rows * std::max<std::int64_t>(places, 1); }
  std::int64_t at(std::int64_t i, std::int64_t c) const {
    const std::int64_t s = std::max<std::int64_t>(places, 1);
    return (i / s * classes + c) * s + i % s;
  }
  std::vector<std::int64_t> input() const {
    return places ? std::vector{rows, classes, places} : std::vector{rows, classes};
  }
  std::vector<std::int64_t> target() const { return places ? std::vector{rows, places} : std::vector{rows}; }
};
const Shape shapes[] = {{1, 1, 0}, {5, 3, 0}, {64, 10, 0}, {3, 1000, 0}, {2, 7, 33}, {700, 5, 9}};

std::vector<double> labels(const Shape& shape, std::int64_t ignored = -100) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < shape.count(); i++)
    values.push_back(i % 5 == 3 ? double(ignored) : double(i * 7 % shape.classes));
  return values;
}

std::vector<double> rounded_values(DataType type, std::size_t count, double low, double high) {
  auto values = random_values(count, low, high);
  for (double& v : values) v = rounded(type, v);
  return values;
}

std::vector<DataType> types() {
  std::vector<DataType> list{DataType::float32, DataType::float16, DataType::bfloat16};
  if (supports(DataType::float64)) list.push_back(DataType::float64);
  return list;
}

}  // namespace

TEST(Loss, NegativeLogLikelihood) {
  for (const Shape& shape : shapes)
    for (DataType type : types())
      for (bool weighted : {false, true})
        for (auto reduction : {LossReduction::none, LossReduction::mean, LossReduction::sum}) {
          SCOPED_TRACE(std::to_string(shape.classes) + name(type) + std::to_string(int(reduction)));
          const auto count = std::size_t(shape.count());
          const auto x = rounded_values(type, count * std::size_t(shape.classes), -3, 0), t = labels(shape);
          const auto w = rounded_values(type, std::size_t(shape.classes), 0.5, 1.5);
          DeviceTensor in(type, shape.input(), x), target(DataType::int64, shape.target(), t);
          DeviceTensor weights(type, {shape.classes}, w), total(type, {}), grad_in(type, shape.input());
          const bool none = reduction == LossReduction::none;
          DeviceTensor out(type, none ? shape.target() : std::vector<std::int64_t>{});
          const auto g = rounded_values(type, out.numel(), 0.5, 1);
          DeviceTensor grad_out(type, none ? shape.target() : std::vector<std::int64_t>{}, g);
          ClassTargets targets{target, weighted ? weights.view() : TensorView()};
          nll_loss(queue(), in, targets, reduction, out, total);
          nll_loss_backward(queue(), grad_out, targets, reduction, total, grad_in);

          std::vector<double> each(count), gradient(x.size());
          double sum = 0, weight_sum = 0;
          for (std::size_t i = 0; i < count; i++) {
            if (t[i] == -100) continue;
            const double weight = weighted ? w[std::size_t(t[i])] : 1;
            const auto at = std::size_t(shape.at(std::int64_t(i), std::int64_t(t[i])));
            each[i] = -weight * x[at];
            sum += each[i], weight_sum += weight;
            gradient[at] = -weight * (none ? g[i] : g[0]);
          }
          const bool mean = reduction == LossReduction::mean;
          if (mean)
            for (double& v : gradient) v /= rounded(type, weight_sum);
          expect_close(out.read(), none ? each : std::vector{mean ? sum / weight_sum : sum}, tolerance(type));
          expect_close(grad_in.read(), gradient, tolerance(type));
        }
}

TEST(Loss, CrossEntropyOfLogits) {
  for (const Shape& shape : shapes)
    for (DataType type : types()) {
      const auto count = std::size_t(shape.count());
      const auto x = rounded_values(type, count * std::size_t(shape.classes), -8, 8), t = labels(shape);
      const auto g = rounded_values(type, count, 0.5, 1);
      DeviceTensor in(type, shape.input(), x), target(DataType::int64, shape.target(), t), losses(type, shape.target());
      DeviceTensor grad_out(type, shape.target(), g), grad_in(type, shape.input());
      cross_entropy(queue(), in, {target, {}}, losses);
      cross_entropy_backward(queue(), in, {target, {}}, grad_out, grad_in);
      std::vector<double> expected(count), gradient(x.size());
      for (std::size_t i = 0; i < count; i++) {
        double sum = 0;
        for (std::int64_t c = 0; c < shape.classes; c++) sum += std::exp(x[std::size_t(shape.at(std::int64_t(i), c))]);
        if (t[i] == -100) continue;
        for (std::int64_t c = 0; c < shape.classes; c++) {
          const auto at = std::size_t(shape.at(std::int64_t(i), c));
          gradient[at] = g[i] * (std::exp(x[at]) / sum - (double(c) == t[i]));
          if (double(c) == t[i]) expected[i] = std::log(sum) - x[at];
        }
      }
      expect_close(losses.read(), expected, tolerance(type));
      expect_close(grad_in.read(), gradient, tolerance(type));
    }
}

TEST(Loss, LabelsOutOfRangeAreReported) {
  DeviceTensor in(DataType::float32, {2, 3}, std::vector<double>(6, -1)), out(DataType::float32, {}),
      total(DataType::float32, {});
  DeviceTensor target(DataType::int64, {2}, {1, 3});
  nll_loss(queue(), in, {target, {}}, LossReduction::mean, out, total);
  try {
    queue().finish();
    FAIL() << "expected IndexError";
  } catch (const IndexError& error) {
    EXPECT_NE(std::string(error.what()).find("Target 3 is out of bounds"), std::string::npos) << error.what();
  }
  queue().finish();  // reported once
}

TEST(Loss, MarginsOfRows) {
  const Shape shape{6, 5, 0};
  const auto x = random_values(30), g = random_values(6, 0.5, 1, 3), w = random_values(5, 0.5, 1, 4);
  const std::vector<double> t{0, 4, 2, 2, 1, 3};
  DeviceTensor in(DataType::float32, {6, 5}, x), target(DataType::int64, {6}, t), weights(DataType::float32, {5}, w);
  DeviceTensor losses(DataType::float32, {6}), grad_out(DataType::float32, {6}, g), grad_in(DataType::float32, {6, 5});
  for (int power : {1, 2}) {
    margin_loss(queue(), in, {target, weights}, power, 0.7, losses);
    margin_loss_backward(queue(), in, {target, weights}, power, 0.7, grad_out, grad_in);
    std::vector<double> expected(6), gradient(30);
    for (std::size_t i = 0; i < 6; i++)
      for (std::size_t c = 0; c < 5; c++) {
        const auto label = std::size_t(t[i]);
        const double z = 0.7 - x[i * 5 + label] + x[i * 5 + c], weight = w[label] / 5;
        if (c == label || z <= 0) continue;
        expected[i] += weight * (power == 1 ? z : z * z);
        const double slope = g[i] * weight * (power == 1 ? 1 : 2 * z);
        gradient[i * 5 + c] += slope, gradient[i * 5 + label] -= slope;
      }
    expect_close(losses.read(), expected, 1e-5);
    expect_close(grad_in.read(), gradient, 1e-5);
  }
}

TEST(Loss, MultilabelMargins) {
  const std::vector<double> x{0.1, 0.2, 0.4, 0.8}, t{3, 0, -1, 1};
  DeviceTensor in(DataType::float32, {1, 4}, x), target(DataType::int64, {1, 4}, t), losses(DataType::float32, {1});
  DeviceTensor flags(DataType::float32, {1, 4}), one(DataType::float32, {1}, {1}), grad_in(DataType::float32, {1, 4});
  multilabel_margin_loss(queue(), in, target, losses, flags);
  multilabel_margin_loss_backward(queue(), in, target, flags, one, grad_in);
  expect_close(losses.read(), {0.85}, 1e-5);  // the example of PyTorch's documentation
  EXPECT_EQ(flags.read(), (std::vector<double>{1, 0, 0, 1}));
  expect_close(grad_in.read(), {-0.5, 0.5, 0.5, -0.5}, 1e-5);
}

TEST(Loss, RefusesMismatches) {
  DeviceTensor in(DataType::float32, {2, 3}), target(DataType::int64, {3}), out(DataType::float32, {});
  EXPECT_THROW(nll_loss(queue(), in, {target, {}}, LossReduction::sum, out, out), ValidationError);
}

}  // namespace dlprim::testing
