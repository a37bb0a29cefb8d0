// SPDX-License-Identifier: MIT
#include <dlprim/primitives/rnn.hpp>

#include "tensors.hpp"

namespace dlprim::testing {

namespace {

using Values = std::vector<double>;
constexpr std::int64_t rows = 3, width = 5;

double sigmoid(double v) { return 1 / (1 + std::exp(-v)); }

// What a cell reads, on the host.
struct Inputs {
  Values input, hidden, input_bias, hidden_bias, state;
  explicit Inputs(int gates)
      : input(random_values(rows * gates * width, -2, 2, 1)), hidden(random_values(rows * gates * width, -2, 2, 2)),
        input_bias(random_values(gates * width, -1, 1, 3)), hidden_bias(random_values(gates * width, -1, 1, 4)),
        state(random_values(rows * width, -1, 1, 5)) {}
};

struct Step {
  Values next, cell, workspace;
};

Step run_lstm(DataType type, const Inputs& in) {
  const DeviceTensor input(type, {rows, 4 * width}, in.input), hidden(type, {rows, 4 * width}, in.hidden);
  const DeviceTensor input_bias(type, {4 * width}, in.input_bias), hidden_bias(type, {4 * width}, in.hidden_bias);
  const DeviceTensor cell(type, {rows, width}, in.state);
  DeviceTensor next(type, {rows, width}), next_cell(type, {rows, width}), workspace(type, {rows, 4 * width});
  lstm_cell(queue(), {input, hidden, input_bias, hidden_bias}, cell, next, next_cell, workspace);
  return {next.read(), next_cell.read(), workspace.read()};
}

Step run_gru(DataType type, const Inputs& in) {
  const DeviceTensor input(type, {rows, 3 * width}, in.input), hidden(type, {rows, 3 * width}, in.hidden);
  const DeviceTensor input_bias(type, {3 * width}, in.input_bias), hidden_bias(type, {3 * width}, in.hidden_bias);
  const DeviceTensor state(type, {rows, width}, in.state);
  DeviceTensor next(type, {rows, width}), workspace(type, {rows, 5 * width});
  gru_cell(queue(), {input, hidden, input_bias, hidden_bias}, state, next, workspace);
  return {next.read(), {}, workspace.read()};
}

double dot(const Values& a, const Values& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); i++) sum += a[i] * b[i];
  return sum;
}

// (f(values + h) - f(values - h)) / 2h for one element.
template <class F>
double slope(Values& values, std::size_t i, F f) {
  constexpr double h = 1e-5;
  const double kept = values[i];
  values[i] = kept + h;
  const double above = f();
  values[i] = kept - h;
  const double below = f();
  values[i] = kept;
  return (above - below) / (2 * h);
}

}  // namespace

TEST(Rnn, LstmCellSmall) {
  for (DataType type : {DataType::float32, DataType::float16, DataType::bfloat16, DataType::float64}) {
    if (!supports(type)) continue;
    const Inputs in(4);
    const Step step = run_lstm(type, in);
    Values next, cell;
    for (std::int64_t k = 0; k < rows * width; k++) {
      auto gate = [&](std::int64_t g) {
        const std::int64_t at = k / width * 4 * width + g * width + k % width, b = g * width + k % width;
        return rounded(type, in.input[at]) + rounded(type, in.hidden[at]) + rounded(type, in.input_bias[b]) +
               rounded(type, in.hidden_bias[b]);
      };
      cell.push_back(sigmoid(gate(1)) * rounded(type, in.state[k]) + sigmoid(gate(0)) * std::tanh(gate(2)));
      next.push_back(sigmoid(gate(3)) * std::tanh(cell.back()));
    }
    expect_close(step.next, next, tolerance(type));
    expect_close(step.cell, cell, tolerance(type));
  }
}

TEST(Rnn, LstmGradientIsTheSlope) {
  const DataType type = DataType::float64;
  if (!supports(type)) GTEST_SKIP() << "finite differences need float64";
  Inputs in(4);
  const Values seed = random_values(rows * width, -1, 1, 6), cell_seed = random_values(rows * width, -1, 1, 7);
  const Step step = run_lstm(type, in);
  const DeviceTensor grad_next(type, {rows, width}, seed), grad_next_cell(type, {rows, width}, cell_seed);
  const DeviceTensor cell(type, {rows, width}, in.state), next_cell(type, {rows, width}, step.cell);
  const DeviceTensor workspace(type, {rows, 4 * width}, step.workspace);
  DeviceTensor grad_gates(type, {rows, 4 * width}), grad_cell(type, {rows, width});
  lstm_cell_backward(queue(), grad_next, grad_next_cell, cell, next_cell, workspace, grad_gates, grad_cell);
  auto loss = [&] {
    const Step at = run_lstm(type, in);
    return dot(at.next, seed) + dot(at.cell, cell_seed);
  };
  Values gates, state;
  for (std::size_t i = 0; i < in.input.size(); i++) gates.push_back(slope(in.input, i, loss));
  for (std::size_t i = 0; i < in.state.size(); i++) state.push_back(slope(in.state, i, loss));
  expect_close(grad_gates.read(), gates, 1e-7);
  expect_close(grad_cell.read(), state, 1e-7);
}

TEST(Rnn, GruGradientIsTheSlope) {
  const DataType type = DataType::float64;
  if (!supports(type)) GTEST_SKIP() << "finite differences need float64";
  Inputs in(3);
  const Values seed = random_values(rows * width, -1, 1, 6);
  const DeviceTensor grad_next(type, {rows, width}, seed);
  const DeviceTensor workspace(type, {rows, 5 * width}, run_gru(type, in).workspace);
  DeviceTensor grad_input(type, {rows, 3 * width}), grad_hidden(type, {rows, 3 * width}),
      grad_state(type, {rows, width});
  gru_cell_backward(queue(), grad_next, workspace, grad_input, grad_hidden, grad_state);
  auto loss = [&] { return dot(run_gru(type, in).next, seed); };
  Values input, hidden, state;
  for (std::size_t i = 0; i < in.input.size(); i++) input.push_back(slope(in.input, i, loss));
  for (std::size_t i = 0; i < in.hidden.size(); i++) hidden.push_back(slope(in.hidden, i, loss));
  for (std::size_t i = 0; i < in.state.size(); i++) state.push_back(slope(in.state, i, loss));
  expect_close(grad_input.read(), input, 1e-7);
  expect_close(grad_hidden.read(), hidden, 1e-7);
  expect_close(grad_state.read(), state, 1e-7);
}

TEST(Rnn, GruCellSmall) {
  for (DataType type : {DataType::float32, DataType::float16, DataType::bfloat16}) {
    const Inputs in(3);
    Values next;
    for (std::int64_t k = 0; k < rows * width; k++) {
      auto part = [&](const Values& gates, const Values& bias, std::int64_t g) {
        return rounded(type, gates[k / width * 3 * width + g * width + k % width]) +
               rounded(type, bias[g * width + k % width]);
      };
      auto input = [&](std::int64_t g) { return part(in.input, in.input_bias, g); };
      auto hidden = [&](std::int64_t g) { return part(in.hidden, in.hidden_bias, g); };
      const double r = sigmoid(input(0) + hidden(0)), z = sigmoid(input(1) + hidden(1));
      next.push_back((1 - z) * std::tanh(input(2) + r * hidden(2)) + z * rounded(type, in.state[k]));
    }
    expect_close(run_gru(type, in).next, next, tolerance(type));
  }
}

TEST(Rnn, WrongShapesAreRefused) {
  const DeviceTensor gates(DataType::float32, {rows, 4 * width}), state(DataType::float32, {rows, width});
  const DeviceTensor narrow(DataType::float32, {rows, width - 1});
  EXPECT_THROW(lstm_cell(queue(), {gates, gates, {}, {}}, narrow, state, state, gates), ValidationError);
  EXPECT_THROW(gru_cell(queue(), {gates, gates, {}, {}}, state, state, gates), ValidationError);
}

}  // namespace dlprim::testing
