// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/dlprim.hpp>

#include <algorithm>
#include <cmath>

#include "operator.hpp"
#include "testing.hpp"

namespace dlprim::testing {

/// float64 where the device has it.
inline DataType widest() { return device().info().fp64 ? DataType::float64 : DataType::float32; }

inline std::vector<double> read_values(Net& net, const Tensor& tensor) {
  const ExecutionContext ec = net.context().make_execution_context();
  std::vector<double> values(std::size_t(tensor.numel()));
  if (tensor.dtype() == DataType::float64) {
    tensor.to_host(ec, values);
  } else {
    std::vector<float> floats(values.size());
    tensor.to_host(ec, floats);
    values.assign(floats.begin(), floats.end());
  }
  return values;
}

inline void write_values(Net& net, Tensor& tensor, const std::vector<double>& values) {
  const ExecutionContext ec = net.context().make_execution_context();
  if (tensor.dtype() == DataType::float64) tensor.to_device(ec, values);
  else tensor.to_device(ec, std::vector<float>(values.begin(), values.end()));
}

/// Numbers at least 0.01 apart from each other and from 0 and 1, so that no comparison changes within a small step.
inline std::vector<double> distinct_values(std::size_t count, unsigned seed, double low, double high) {
  std::vector<double> values(count);
  std::mt19937 engine(seed);
  for (std::size_t i = 0; i < count; i++)
    values[i] = low + (high - low) * (double(i) + 0.3 + 0.07 * (seed % 5)) / double(count);
  std::shuffle(values.begin(), values.end(), engine);
  return values;
}

/// Compares the gradients of all floating inputs and trainable parameters of a loaded net with finite differences of
/// the sum of its floating outputs, weighted at random. Inputs hold what is to be tried. What the first run set up must
/// serve all others.
inline void expect_finite_differences(Net& net) {
  const bool wide = widest() == DataType::float64;
  const double step = wide ? 1e-5 : 1e-2, tolerance = wide ? 1e-6 : 3e-2;
  const ExecutionContext ec = net.context().make_execution_context();
  net.mode(CalculationsMode::train);
  std::vector<std::pair<std::string, Tensor*>> variables;
  for (int i = 0; i < net.inputs(); i++)
    if (is_floating(net.input_info(i).dtype)) {
      net.want_gradient(net.input_info(i).name);
      variables.emplace_back(net.input_info(i).name, &net.input(i));
    }
  const std::size_t inputs = variables.size();
  for (const std::string& name : net.param_names())
    if (net.trainable(name)) variables.emplace_back(name, &net.param(name));

  std::vector<std::vector<double>> weights;
  net.forward(ec);
  for (int i = 0; i < net.outputs(); i++) {
    weights.emplace_back();
    if (!is_floating(net.output(i).dtype())) continue;
    Tensor& diff = net.output_diff(net.output_info(i).name);
    weights.back() = distinct_values(std::size_t(diff.numel()), unsigned(i) + 7, -1, 1);
    write_values(net, diff, weights.back());
  }
  auto value = [&] {
    net.forward(ec);
    double sum = 0;
    for (int i = 0; i < net.outputs(); i++) {
      if (weights[std::size_t(i)].empty()) continue;
      const std::vector<double> y = read_values(net, net.output(i));
      for (std::size_t k = 0; k < y.size(); k++) sum += y[k] * weights[std::size_t(i)][k];
    }
    return sum;
  };
  net.backward(ec);
  const std::uint64_t set_up = setups();
  net.zero_grad();
  net.forward(ec);
  net.backward(ec);
  std::vector<std::vector<double>> gradients;
  for (std::size_t v = 0; v < variables.size(); v++) {
    const auto& [name, tensor] = variables[v];
    const Tensor& diff = v < inputs ? net.tensor_diff(name) : net.param_diff(name);
    if (diff.defined()) {
      EXPECT_EQ(diff.shape(), tensor->shape()) << name;
      EXPECT_EQ(diff.dtype(), tensor->dtype()) << name;
    }
    gradients.push_back(diff.defined() ? read_values(net, diff) : std::vector<double>(std::size_t(tensor->numel()), 0));
  }
  for (std::size_t v = 0; v < variables.size(); v++) {
    const auto& [name, tensor] = variables[v];
    std::vector<double> x = read_values(net, *tensor);
    const std::size_t stride = std::max<std::size_t>(1, x.size() / 12);
    for (std::size_t k = 0; k < x.size(); k += stride) {
      const double at = x[k];
      x[k] = at + step, write_values(net, *tensor, x);
      const double above = value();
      x[k] = at - step, write_values(net, *tensor, x);
      const double below = value();
      x[k] = at, write_values(net, *tensor, x);
      const double expected = (above - below) / (2 * step);
      ASSERT_NEAR(gradients[v][k], expected, tolerance * std::max(1.0, std::fabs(expected)))
          << name << " element " << k;
    }
  }
  EXPECT_EQ(setups(), set_up) << "attributes were read or gradients planned in a later run";
}

}  // namespace dlprim::testing
