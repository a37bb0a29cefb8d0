// SPDX-License-Identifier: MIT
#include <dlprim/primitives/ctc.hpp>

#include "tensors.hpp"

namespace dlprim::testing {

namespace {

// Sum over all paths of `steps` classes that collapse to the labels, by enumeration.
double probability(const std::vector<double>& log_p, int steps, int classes, const std::vector<int>& labels) {
  double total = 0;
  int paths = 1;
  for (int t = 0; t < steps; t++) paths *= classes;
  for (int path = 0; path < paths; path++) {
    std::vector<int> seen;
    double log_sum = 0;
    for (int t = 0, rest = path, last = 0; t < steps; t++, rest /= classes) {
      const int c = rest % classes;
      log_sum += log_p[std::size_t(t * classes + c)];
      if (c != 0 && (c != last || t == 0)) seen.push_back(c);
      last = c;
    }
    if (seen == labels) total += std::exp(log_sum);
  }
  return total;
}

std::vector<double> log_softmax(std::vector<double> x, int classes) {
  for (std::size_t row = 0; row < x.size(); row += std::size_t(classes)) {
    double sum = 0;
    for (int c = 0; c < classes; c++) sum += std::exp(x[row + std::size_t(c)]);
    for (int c = 0; c < classes; c++) x[row + std::size_t(c)] -= std::log(sum);
  }
  return x;
}

}  // namespace

TEST(Ctc, LossAndGradientAgainstEnumeration) {
  constexpr int steps = 4, classes = 3;
  for (const std::vector<int>& labels : {std::vector<int>{1, 2}, {1, 1}, {2}, {}}) {
    const auto log_p = log_softmax(random_values(steps * classes, -1, 1, 7), classes);
    std::vector<double> targets(labels.begin(), labels.end());
    if (targets.empty()) targets = {0};
    DeviceTensor in(DataType::float32, {steps, 1, classes}, log_p);
    DeviceTensor target(DataType::int64, {std::int64_t(targets.size())}, targets);
    DeviceTensor lengths(DataType::int64, {1, 3}, {steps, double(labels.size()), 0});
    const std::int64_t states = 2 * std::int64_t(labels.size()) + 1;
    DeviceTensor losses(DataType::float32, {1}), alpha(DataType::float32, {1, steps, states});
    DeviceTensor one(DataType::float32, {1}, {1}), grad_in(DataType::float32, {steps, 1, classes});
    const CtcSequences sequences{in, target, lengths, states, 0, false};
    ctc_loss(queue(), sequences, losses, alpha);
    ctc_loss_backward(queue(), sequences, losses, alpha, one, grad_in);
    expect_close(losses.read(), {-std::log(probability(log_p, steps, classes, labels))}, 1e-5);
    // The gradient is that of unnormalized scores: p - expected use of a class.
    const auto gradient = grad_in.read();
    for (std::size_t i = 0; i < gradient.size(); i++) {
      auto raised = log_p, lowered = log_p;
      raised[i] += 1e-4, lowered[i] -= 1e-4;
      const double up = -std::log(probability(raised, steps, classes, labels));
      const double down = -std::log(probability(lowered, steps, classes, labels));
      EXPECT_NEAR(gradient[i], (up - down) / 2e-4 + std::exp(log_p[i]), 1e-4);
    }
  }
}

TEST(Ctc, ImpossibleSequencesAreInfiniteOrZero) {
  DeviceTensor in(DataType::float32, {1, 1, 3}, log_softmax({0, 0, 0}, 3)), target(DataType::int64, {2}, {1, 2});
  DeviceTensor lengths(DataType::int64, {1, 3}, {1, 2, 0}), losses(DataType::float32, {1});
  DeviceTensor alpha(DataType::float32, {1, 1, 5});
  ctc_loss(queue(), {in, target, lengths, 5, 0, false}, losses, alpha);
  EXPECT_EQ(losses.read()[0], INFINITY);
  ctc_loss(queue(), {in, target, lengths, 5, 0, true}, losses, alpha);
  EXPECT_EQ(losses.read()[0], 0);
}

}  // namespace dlprim::testing
