// SPDX-License-Identifier: MIT
#include "../matrix.hpp"

#include "../gradient.hpp"

namespace dlprim::gradients {

namespace {

// Cofactors, on the host as the operator, so that singular matrices have theirs.
void det(GradientCall& call) {
  Queue& queue = call.queue();
  const Shape& shape = call.shape(0);
  const auto n = std::size_t(shape[shape.size() - 1]);
  const std::vector<double> x = to_reals(queue, call.input(0));
  std::vector<double> cofactors;
  for (std::size_t i = 0; i < x.size(); i++) {
    const std::size_t matrix = i / (n * n) * n * n, row = i / n % n, column = i % n;
    std::vector<double> minor;
    for (std::size_t r = 0; r < n; r++)
      for (std::size_t c = 0; c < n; c++)
        if (r != row && c != column) minor.push_back(x[matrix + r * n + c]);
    cofactors.push_back(((row + column) % 2 ? -1 : 1) * determinant(std::move(minor), n - 1));
  }
  Tensor factors;
  if (call.dtype(0) == DataType::float64) {
    factors = Tensor::from_host(DataType::float64, shape, cofactors.data());
  } else {
    const std::vector<float> floats(cofactors.begin(), cofactors.end());
    factors = Tensor::from_host(DataType::float32, shape, floats.data());
  }
  const Tensor dy = call.gradient();
  Shape each = dy.shape();
  each.push_back(1), each.push_back(1);
  call.add(0, apply(queue, "y0 = x0 * x1;", {reshape(queue, dy, each), factors}));
}

// The same exchange of places puts them back.
void reverse_sequence(GradientCall& call) { call.add(0, call.run_again(call.gradient())[0]); }

}  // namespace

void matrix(GradientRegistry& registry) {
  registry.add("Det", det, "x0");
  registry.add<Inner>("ReverseSequence", reverse_sequence, "x1");
}

}  // namespace dlprim::gradients
