// SPDX-License-Identifier: MIT
// Back-propagation through time of RNN, GRU and LSTM with the activations they have by default. States and gates are
// computed anew. Weights get their gradients by one product over all steps.
#include <dlprim/primitives/copy.hpp>

#include "../gradient.hpp"

namespace dlprim::gradients {

namespace {

// What one step computed, for its gradient: gates after their activations; `hidden` is the recurrent part of GRU's new
// gate, `reset` its reset state.
struct Step {
  Tensor state, memory;  // before the step
  std::vector<Tensor> gates;
  Tensor next_memory, hidden, reset;
};

// One direction of the operator.
struct Cell {
  GradientCall& call;
  Queue& queue;
  std::int64_t width;
  bool reset_late;  // GRU's linear_before_reset
  Tensor weights, recurrence, bias, recurrent_bias;

  Tensor gate(const Tensor& all, int i) const { return narrow(all, all.shape().size() - 1, i * width, width); }
  Tensor of(const char* code, const std::vector<Tensor>& inputs) const {
    return apply(queue, code, inputs, {}, inputs[0].dtype());
  }
  Tensor product(const Tensor& a, const Tensor& b) const { return matmul(queue, a, b); }
  Tensor with(const Tensor& x, const Tensor& more) const { return more.defined() ? of("y0 = x0 + x1;", {x, more}) : x; }
  void put(const Tensor& gates, int i, const Tensor& value) const {
    copy(queue, gate(gates, i).view(queue), value.view(queue));
  }
};

// Forward sets `step` and gives the next state; backward fills the gradients of the gates' inputs, `from_x` [B, gates]
// and `from_state`, and makes `dh` (and `dc`) those of the state (and memory) before the step.
struct Kind {
  int gates;
  bool memory;
  std::vector<std::string> activations;
  Tensor (*forward)(const Cell&, const Tensor& x, Step& step);
  void (*backward)(const Cell&, const Step& step, Tensor& dh, Tensor& dc, const Tensor& from_x,
                   const Tensor& from_state);
};

Tensor rnn_forward(const Cell& cell, const Tensor& x, Step& step) {
  step.gates = {cell.of("y0 = tanh(x0 + x1);",
                        {x, cell.with(cell.product(step.state, transpose(cell.recurrence)), cell.recurrent_bias)})};
  return step.gates[0];
}

void rnn_backward(const Cell& cell, const Step& step, Tensor& dh, Tensor&, const Tensor& from_x,
                  const Tensor& from_state) {
  const Tensor d = cell.of("y0 = x0 * (1 - x1 * x1);", {dh, step.gates[0]});
  cell.put(from_x, 0, d), cell.put(from_state, 0, d);
  dh = cell.product(d, cell.recurrence);
}

// Gates: update, reset, new.
Tensor gru_forward(const Cell& cell, const Tensor& x, Step& step) {
  const Tensor hidden = cell.with(cell.product(step.state, transpose(cell.recurrence)), cell.recurrent_bias);
  const Tensor z = cell.of("y0 = logistic(x0 + x1);", {cell.gate(x, 0), cell.gate(hidden, 0)});
  const Tensor r = cell.of("y0 = logistic(x0 + x1);", {cell.gate(x, 1), cell.gate(hidden, 1)});
  Tensor n;
  if (cell.reset_late) {
    step.hidden = cell.gate(hidden, 2);
    n = cell.of("y0 = tanh(x0 + x1 * x2);", {cell.gate(x, 2), r, step.hidden});
  } else {
    step.reset = cell.of("y0 = x0 * x1;", {r, step.state});
    Tensor part = cell.product(step.reset, transpose(narrow(cell.recurrence, 0, 2 * cell.width, cell.width)));
    if (cell.recurrent_bias.defined())
      part = cell.with(part, narrow(cell.recurrent_bias, 0, 2 * cell.width, cell.width));
    n = cell.of("y0 = tanh(x0 + x1);", {cell.gate(x, 2), part});
  }
  step.gates = {z, r, n};
  return cell.of("y0 = (1 - x0) * x1 + x0 * x2;", {z, n, step.state});
}

void gru_backward(const Cell& cell, const Step& step, Tensor& dh, Tensor&, const Tensor& from_x,
                  const Tensor& from_state) {
  const Tensor &z = step.gates[0], &r = step.gates[1], &n = step.gates[2];
  const Tensor dn = cell.of("y0 = x0 * (1 - x1) * (1 - x2 * x2);", {dh, z, n});
  const Tensor dz = cell.of("y0 = x0 * (x1 - x2) * x3 * (1 - x3);", {dh, step.state, n, z});
  const Tensor kept = cell.of("y0 = x0 * x1;", {dh, z});
  cell.put(from_x, 0, dz), cell.put(from_x, 2, dn), cell.put(from_state, 0, dz);
  if (step.hidden.defined()) {
    const Tensor dr = cell.of("y0 = x0 * x1 * x2 * (1 - x2);", {dn, step.hidden, r});
    cell.put(from_x, 1, dr), cell.put(from_state, 1, dr), cell.put(from_state, 2, cell.of("y0 = x0 * x1;", {dn, r}));
    dh = cell.with(cell.product(from_state, cell.recurrence), kept);
  } else {
    const Tensor dreset = cell.product(dn, narrow(cell.recurrence, 0, 2 * cell.width, cell.width));
    const Tensor dr = cell.of("y0 = x0 * x1 * x2 * (1 - x2);", {dreset, step.state, r});
    cell.put(from_x, 1, dr), cell.put(from_state, 1, dr), cell.put(from_state, 2, dn);
    const Tensor both =
        cell.product(narrow(from_state, 1, 0, 2 * cell.width), narrow(cell.recurrence, 0, 0, 2 * cell.width));
    dh = cell.of("y0 = x0 + x1 + x2 * x3;", {both, kept, dreset, r});
  }
}

// Gates: input, output, forget, cell.
Tensor lstm_forward(const Cell& cell, const Tensor& x, Step& step) {
  const Tensor all = cell.of("y0 = x0 + x1;",
                             {x, cell.with(cell.product(step.state, transpose(cell.recurrence)), cell.recurrent_bias)});
  for (int i = 0; i < 4; i++)
    step.gates.push_back(cell.of(i == 3 ? "y0 = tanh(x0);" : "y0 = logistic(x0);", {cell.gate(all, i)}));
  step.next_memory = cell.of("y0 = x0 * x1 + x2 * x3;", {step.gates[2], step.memory, step.gates[0], step.gates[3]});
  return cell.of("y0 = x0 * tanh(x1);", {step.gates[1], step.next_memory});
}

void lstm_backward(const Cell& cell, const Step& step, Tensor& dh, Tensor& dc, const Tensor& from_x,
                   const Tensor& from_state) {
  const Tensor &i = step.gates[0], &o = step.gates[1], &f = step.gates[2], &g = step.gates[3];
  const Tensor shown = cell.of("y0 = tanh(x0);", {step.next_memory});
  const Tensor dm = cell.of("y0 = x0 + x1 * x2 * (1 - x3 * x3);", {dc, dh, o, shown});
  cell.put(from_x, 0, cell.of("y0 = x0 * x1 * x2 * (1 - x2);", {dm, g, i}));
  cell.put(from_x, 1, cell.of("y0 = x0 * x1 * x2 * (1 - x2);", {dh, shown, o}));
  cell.put(from_x, 2, cell.of("y0 = x0 * x1 * x2 * (1 - x2);", {dm, step.memory, f}));
  cell.put(from_x, 3, cell.of("y0 = x0 * x1 * (1 - x2 * x2);", {dm, i, g}));
  copy(cell.queue, from_state.view(cell.queue), from_x.view(cell.queue));
  dh = cell.product(from_x, cell.recurrence), dc = cell.of("y0 = x0 * x1;", {dm, f});
}

const std::map<std::string, Kind> kinds = {
    {"RNN", {1, false, {"tanh"}, rnn_forward, rnn_backward}},
    {"GRU", {3, false, {"sigmoid", "tanh"}, gru_forward, gru_backward}},
    {"LSTM", {4, true, {"sigmoid", "tanh", "tanh"}, lstm_forward, lstm_backward}},
};

// Why a node has no gradient; empty when it has.
std::string variant_of(const AttributeReader& reader, const Kind& kind) {
  if (reader.given("clip")) return "clip";
  if (reader.integer("layout", 0)) return "layout 1";
  if (reader.integer("input_forget", 0)) return "input_forget";
  std::size_t k = 0;
  for (std::string name : reader.find<std::vector<std::string>>("activations").value_or(std::vector<std::string>())) {
    for (char& c : name) c = char(std::tolower(c));
    if (name != kind.activations[k++ % kind.activations.size()]) return "activation " + name;
  }
  return "";
}

struct RecurrentAttributes {
  explicit RecurrentAttributes(const AttributeReader& reader)
      : kind(kinds.at(reader.node().type)), reset_late(reader.integer("linear_before_reset", 0)),
        both(reader.text("direction", "") == "bidirectional"), reverse(reader.text("direction", "") == "reverse"),
        variant(variant_of(reader, kind)) {}
  const Kind& kind;
  bool reset_late, both, reverse;
  std::string variant;  // that has no gradient
};

// Gradients of one direction, by input; those but input 0's lack the dimension of directions.
std::map<int, Tensor> run_direction(const Cell& cell, const Kind& kind, int direction, bool reverse) {
  GradientCall& call = cell.call;
  Queue& queue = cell.queue;
  const Tensor& x = call.input(0);
  const std::int64_t steps = x.shape()[0], batch = x.shape()[1];
  const bool memory = kind.memory;
  auto at = [&](std::int64_t k) { return reverse ? steps - 1 - k : k; };
  auto initial = [&](int i) {
    return call.has(i) ? select(call.input(i), 0, direction) : filled(queue, x.dtype(), {batch, cell.width}, 0);
  };
  auto arrived = [&](int i) {
    const Tensor d = call.gradient(i);
    return d.defined() ? select(d, 0, direction) : filled(queue, x.dtype(), {batch, cell.width}, 0);
  };
  const Tensor inputs = cell.with(cell.product(x, transpose(cell.weights)), cell.bias);
  std::vector<Step> tape(static_cast<std::size_t>(steps));
  Tensor state = initial(5), cells = memory ? initial(6) : Tensor();
  const Tensor states(queue, x.dtype(), {steps, batch, cell.width}),
      resets(queue, x.dtype(), {steps, batch, cell.width});
  for (std::int64_t k = 0; k < steps; k++) {
    Step& step = tape[std::size_t(k)];
    step.state = state, step.memory = cells;
    copy(queue, select(states, 0, at(k)).view(queue), state.view(queue));
    state = kind.forward(cell, select(inputs, 0, at(k)), step), cells = step.next_memory;
    if (step.reset.defined()) copy(queue, select(resets, 0, at(k)).view(queue), step.reset.view(queue));
  }
  const Shape gates{steps, batch, kind.gates * cell.width};
  const Tensor from_x(queue, x.dtype(), gates), from_state(queue, x.dtype(), gates), dy = call.gradient(0);
  Tensor dh = arrived(1), dc = memory ? arrived(2) : Tensor();
  for (std::int64_t k = steps - 1; k >= 0; k--) {
    if (dy.defined()) dh = cell.with(dh, select(select(dy, 0, at(k)), 0, direction));
    kind.backward(cell, tape[std::size_t(k)], dh, dc, select(from_x, 0, at(k)), select(from_state, 0, at(k)));
  }
  auto rows = [&](const Tensor& t) { return reshape(queue, t, {steps * batch, t.shape()[2]}); };
  auto sums = [&](const Tensor& t) { return sum_to(queue, rows(t), {t.shape()[2]}); };
  Tensor dr = cell.product(transpose(rows(from_state)), rows(states));
  if (!tape.empty() && tape[0].reset.defined())
    copy(queue, narrow(dr, 0, 2 * cell.width, cell.width).view(queue),
         cell.product(transpose(rows(cell.gate(from_state, 2))), rows(resets)).view(queue));
  const Tensor both[] = {sums(from_x), sums(from_state)};
  return {{0, cell.product(from_x, cell.weights)},
          {1, cell.product(transpose(rows(from_x)), rows(x))},
          {2, dr},
          {3, concat(queue, both, 0)},
          {5, dh},
          {6, dc}};
}

void recurrent_op(GradientCall& call) {
  const auto& attributes = call.attributes<RecurrentAttributes>();
  const Kind& kind = attributes.kind;
  const char* left_out = call.has(4)                   ? "sequence_lens"
                         : call.has(7)                 ? "peepholes"
                         : !attributes.variant.empty() ? attributes.variant.c_str()
                                                       : nullptr;
  if (left_out) call.fail(std::string("there is no gradient with ") + left_out);
  std::map<int, std::vector<Tensor>> parts;
  for (int d = 0; d < (attributes.both ? 2 : 1); d++) {
    const std::int64_t width = call.shape(2)[2];
    Cell cell{
        call, call.queue(), width, attributes.reset_late, select(call.input(1), 0, d), select(call.input(2), 0, d), {},
        {}};
    if (call.has(3)) {
      const Tensor both = select(call.input(3), 0, d);
      cell.bias = narrow(both, 0, 0, kind.gates * width),
      cell.recurrent_bias = narrow(both, 0, kind.gates * width, kind.gates * width);
    }
    for (auto& [i, gradient] : run_direction(cell, kind, d, d == 1 || attributes.reverse)) {
      if (!gradient.defined() || !call.needs(i)) continue;
      if (i == 0) call.add(0, gradient);
      else parts[i].push_back(unsqueeze(gradient, 0));
    }
  }
  for (auto& [i, gradients] : parts) call.add(i, concat(call.queue(), gradients, 0));
}

}  // namespace

void recurrent(GradientRegistry& registry) {
  for (const auto& [type, kind] : kinds) registry.add<RecurrentAttributes>(type.c_str(), recurrent_op, "x*");
}

}  // namespace dlprim::gradients
