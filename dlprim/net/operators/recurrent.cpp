// SPDX-License-Identifier: MIT
// RNN, GRU and LSTM: the input's products of all steps at once, then one product and a few elementwise kernels a step.
#include <dlprim/primitives/copy.hpp>
#include <dlprim/primitives/pointwise_code.hpp>

#include <algorithm>
#include <array>

#include "../array.hpp"
#include "../operator.hpp"

namespace dlprim::operators {

namespace {

struct RecurrentAttributes {
  explicit RecurrentAttributes(const AttributeReader& reader)
      : activations(reader.find<std::vector<std::string>>("activations").value_or(std::vector<std::string>())),
        alphas(reader.reals("activation_alpha")), betas(reader.reals("activation_beta")),
        clip(reader.find<double>("clip")), reset_late(reader.integer("linear_before_reset", 0)),
        input_forget(reader.integer("input_forget", 0)), batch_first(reader.integer("layout", 0)),
        direction(reader.text("direction", "forward")) {}
  std::vector<std::string> activations;
  std::vector<double> alphas, betas;
  std::optional<double> clip;
  bool reset_late;  // of GRU: after the product with the state
  bool input_forget, batch_first;
  std::string direction;
};

const RecurrentAttributes& attributes_of(const Call& call) { return call.attributes<RecurrentAttributes>(); }

// What w0, w1, ... of an activation's row are: the operator's alpha and beta, which the kernels get as w1 and w2, or
// numbers. `alpha` and `beta` are the defaults.
struct ActivationRow {
  PointwiseId row;
  std::vector<std::string> scalars;
  double alpha = 0, beta = 0;
};

const std::map<std::string, ActivationRow>& activation_rows() {
  static const std::map<std::string, ActivationRow> rows{
      {"sigmoid", {PointwiseId::sigmoid, {}}},
      {"tanh", {PointwiseId::tanh, {}}},
      {"relu", {PointwiseId::relu, {}}},
      {"affine", {PointwiseId::affine, {"w1", "w2"}, 1, 0}},
      {"leakyrelu", {PointwiseId::leaky_relu, {"w1"}, 0.01}},
      {"thresholdedrelu", {PointwiseId::from_or_zero, {"w1"}, 1}},
      {"scaledtanh", {PointwiseId::tanh_scaled, {"w1", "w2"}, 1, 1}},
      {"hardsigmoid", {PointwiseId::affine_clipped, {"w1", "w2"}, 0.2, 0.5}},
      {"elu", {PointwiseId::elu, {"w1", "1", "1"}, 1}},
      {"softsign", {PointwiseId::softsign, {}}},
      {"softplus", {PointwiseId::softplus, {"1", "20"}}},
  };
  return rows;
}

// An activation of one cell: its row and the values of w1 and w2.
struct CellActivation {
  const ActivationRow* row;
  double alpha, beta;

  /// Statements that set y0 to the activation of `x`.
  std::string of(const char* x) const { return assign_row(row->row, "y0", std::array{std::string(x)}, row->scalars); }
};

CellActivation activation(Call& call, std::string name) {
  std::transform(name.begin(), name.end(), name.begin(), [](char c) { return char(std::tolower(c)); });
  const auto it = activation_rows().find(name);
  if (it == activation_rows().end()) call.fail("activation " + name + " is not supported");
  return {&it->second, it->second.alpha, it->second.beta};
}

// One direction of a recurrent operator, with what all of them share.
struct Cell {
  Call& call;
  Queue& queue;
  int direction, gates;
  std::int64_t width;
  Tensor weights, recurrence, bias, recurrent_bias, peepholes;
  std::vector<CellActivation> activations;
  bool clip = false;
  double limit = 0;

  Cell(Call& c, int which, int gate_count, int functions, std::initializer_list<const char*> defaults)
      : call(c), queue(c.queue()), direction(which), gates(gate_count) {
    const Shape& r = call.input(2).shape();
    if (r.size() != 3 || which >= r[0]) call.fail("expected recurrence weights for every direction, got " + r.text());
    width = r[2];
    weights = select(call.input(1), 0, which), recurrence = select(call.input(2), 0, which);
    if (call.has(3)) {
      const Tensor both = select(call.input(3), 0, which);
      bias = narrow(both, 0, 0, gates * width), recurrent_bias = narrow(both, 0, gates * width, gates * width);
    }
    const RecurrentAttributes& attributes = attributes_of(call);
    const std::vector<std::string>& names = attributes.activations;
    const std::vector<double>&alphas = attributes.alphas, &betas = attributes.betas;
    for (int f = 0; f < functions; f++) {
      const auto k = std::size_t(which * functions + f);
      const std::string name = k < names.size() ? names[k] : *(defaults.begin() + f);
      CellActivation& last = activations.emplace_back(activation(call, name));
      if (k < alphas.size()) last.alpha = alphas[k];
      if (k < betas.size()) last.beta = betas[k];
    }
    clip = attributes.clip.has_value(), limit = attributes.clip.value_or(0);
  }

  Tensor gate(const Tensor& all, int i) const { return narrow(all, 1, i * width, width); }
  Tensor gate_bias(const Tensor& all, int i) const { return narrow(all, 0, i * width, width); }
  /// Applies activation f to the sum of the tensors.
  Tensor activate(int f, const std::vector<Tensor>& sum) const {
    std::string code = "T v = x0";
    for (std::size_t i = 1; i < sum.size(); i++) code += " + x" + std::to_string(i);
    code += clip ? "; v = clamp(v, -w0, w0); " : "; ";
    const CellActivation& activation = activations[std::size_t(f)];
    const Scalar scalars[] = {limit, activation.alpha, activation.beta};
    return apply(queue, code + activation.of("v"), sum, scalars, sum[0].dtype());
  }
  Tensor product(const Tensor& state) const { return matmul(queue, state, transpose(recurrence)); }
  Tensor with(const Tensor& x, const Tensor& more) const {
    return more.defined() ? apply(queue, "y0 = x0 + x1;", {x, more}) : x;
  }
};

Tensor rnn_step(const Cell& cell, const Tensor& x, const Tensor& state) {
  return cell.activate(0, {x, cell.with(cell.product(state), cell.recurrent_bias)});
}

// Gates in order update, reset, new.
Tensor gru_step(const Cell& cell, const Tensor& x, const Tensor& state) {
  Queue& queue = cell.queue;
  const bool before = !attributes_of(cell.call).reset_late;
  const Tensor hidden = cell.with(cell.product(state), cell.recurrent_bias);
  const Tensor z = cell.activate(0, {cell.gate(x, 0), cell.gate(hidden, 0)});
  const Tensor r = cell.activate(0, {cell.gate(x, 1), cell.gate(hidden, 1)});
  Tensor n;
  if (before) {
    const Tensor reset = apply(queue, "y0 = x0 * x1;", {r, state});
    n = matmul(queue, reset, transpose(narrow(cell.recurrence, 0, 2 * cell.width, cell.width)));
    if (cell.recurrent_bias.defined()) n = cell.with(n, cell.gate_bias(cell.recurrent_bias, 2));
  } else {
    n = apply(queue, "y0 = x0 * x1;", {r, cell.gate(hidden, 2)});
  }
  n = cell.activate(1, {cell.gate(x, 2), n});
  return apply(queue, "y0 = (1 - x0) * x1 + x0 * x2;", {z, n, state});
}

// Gates in order input, output, forget, cell.
Tensor lstm_step(const Cell& cell, const Tensor& x, const Tensor& state, Tensor& memory) {
  Queue& queue = cell.queue;
  const Tensor hidden = cell.with(cell.product(state), cell.recurrent_bias);
  auto sum = [&](int g, int peephole, const Tensor& seen) {
    std::vector<Tensor> terms{cell.gate(x, g), cell.gate(hidden, g)};
    if (peephole >= 0 && cell.peepholes.defined())
      terms.push_back(
          apply(queue, "y0 = x0 * x1;", {seen, narrow(cell.peepholes, 0, peephole * cell.width, cell.width)}));
    return terms;
  };
  const Tensor i = cell.activate(0, sum(0, 0, memory));
  const Tensor f =
      attributes_of(cell.call).input_forget ? apply(queue, "y0 = 1 - x0;", {i}) : cell.activate(0, sum(2, 2, memory));
  const Tensor g = cell.activate(1, sum(3, -1, memory));
  const Tensor next = apply(queue, "y0 = x0 * x1 + x2 * x3;", {f, memory, i, g});
  const Tensor o = cell.activate(0, sum(1, 1, next));
  memory = next;
  const Tensor inputs[] = {o, next};
  const CellActivation& shown = cell.activations[2];
  const Scalar scalars[] = {0, shown.alpha, shown.beta};
  return apply(queue, shown.of("x1") + " y0 = x0 * y0;", inputs, scalars, o.dtype());
}

using Step = Tensor (*)(const Cell&, const Tensor&, const Tensor&, Tensor&);

// Runs one direction over x [steps, batch, features]; gives the states of all steps [steps, batch, width].
Tensor run_direction(Cell& cell, Step step, const Tensor& x, bool reverse, Tensor& state, Tensor& memory) {
  Call& call = cell.call;
  Queue& queue = cell.queue;
  const std::int64_t steps = x.shape()[0], batch = x.shape()[1];
  const Tensor inputs = cell.with(matmul(queue, x, transpose(cell.weights)), cell.bias);
  const Tensor all(queue, x.dtype(), {steps, batch, cell.width});
  const bool ragged = call.has(4);
  for (std::int64_t k = 0; k < steps; k++) {
    const std::int64_t t = reverse ? steps - 1 - k : k;
    Tensor next_memory = memory, next = step(cell, select(inputs, 0, t), state, next_memory);
    Tensor shown = next;
    if (ragged) {  // sequences that have ended keep their state and show 0
      const Tensor lengths = unsqueeze(call.input(4), 1);
      const char* keep = "y0 = w0 < x2 ? x0 : x1;";
      next = apply(queue, keep, {next, state, lengths}, {t}, x.dtype(), x.dtype());
      if (memory.defined()) next_memory = apply(queue, keep, {next_memory, memory, lengths}, {t}, x.dtype(), x.dtype());
      shown = apply(queue, "y0 = w0 < x1 ? x0 : 0;", {shown, lengths}, {t}, x.dtype(), x.dtype());
    }
    copy(queue, select(all, 0, t).view(queue), shown.view(queue));
    state = next, memory = next_memory;
  }
  return all;
}

void run(Call& call, int gates, int functions, std::initializer_list<const char*> defaults, Step step,
         bool has_memory) {
  Queue& queue = call.queue();
  const bool batch_first = attributes_of(call).batch_first;
  const Tensor x = batch_first ? permute(call.input(0), {1, 0, 2}) : call.input(0);
  if (x.shape().size() != 3) call.fail("expected steps, batch and features, got " + x.shape().text());
  const std::string& direction = attributes_of(call).direction;
  const int directions = direction == "bidirectional" ? 2 : 1;
  std::vector<Tensor> outputs, states, memories;
  for (int d = 0; d < directions; d++) {
    Cell cell(call, d, gates, functions, defaults);
    if (has_memory && call.has(7)) cell.peepholes = select(call.input(7), 0, d);
    auto initial = [&](int i) {
      if (!call.has(i)) return filled(queue, x.dtype(), {x.shape()[1], cell.width}, 0);
      return select(batch_first ? permute(call.input(i), {1, 0, 2}) : call.input(i), 0, d);
    };
    Tensor state = initial(5), memory = has_memory ? initial(6) : Tensor();
    outputs.push_back(unsqueeze(run_direction(cell, step, x, d == 1 || direction == "reverse", state, memory), 1));
    states.push_back(unsqueeze(state, 0));
    if (has_memory) memories.push_back(unsqueeze(memory, 0));
  }
  auto last = [&](const std::vector<Tensor>& parts) {
    const Tensor joined = concat(queue, parts, 0);
    return batch_first ? permute(joined, {1, 0, 2}) : joined;
  };
  const Tensor y = concat(queue, outputs, 1);
  call.set(0, batch_first ? permute(y, {2, 0, 1, 3}) : y);
  call.set(1, last(states));
  if (has_memory) call.set(2, last(memories));
}

void rnn(Call& call) {
  run(
      call, 1, 1, {"Tanh"}, [](const Cell& c, const Tensor& x, const Tensor& h, Tensor&) { return rnn_step(c, x, h); },
      false);
}

void gru(Call& call) {
  run(
      call, 3, 2, {"Sigmoid", "Tanh"},
      [](const Cell& c, const Tensor& x, const Tensor& h, Tensor&) { return gru_step(c, x, h); }, false);
}

void lstm(Call& call) { run(call, 4, 3, {"Sigmoid", "Tanh", "Tanh"}, lstm_step, true); }

}  // namespace

void recurrent(Registry& registry) {
  const std::string shared =
      "activations activation_alpha activation_beta clip direction=forward|reverse|bidirectional "
      "hidden_size layout output_sequence ";
  registry.add<RecurrentAttributes>("RNN", rnn, shared.c_str());
  registry.add<RecurrentAttributes>("GRU", gru, (shared + "linear_before_reset").c_str());
  registry.add<RecurrentAttributes>("LSTM", lstm, (shared + "input_forget").c_str());
}

}  // namespace dlprim::operators
