// SPDX-License-Identifier: MIT
// A recurrent layer over a whole sequence: one product for all steps' inputs, two launches or three a step, and one
// product for each weight's gradient. What PyTorch composes of steps adds up the weights' gradients at every step.
#include "rnn_layer.hpp"

#include <ATen/ATen.h>
#include <ATen/ops/gru_native.h>
#include <ATen/ops/lstm_native.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

namespace pytorch_ocl::ops {

namespace {

using at::Tensor;
using Optional = std::optional<Tensor>;
using Layer = RecurrentLayer;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// A step's cells and what its cell kept for the gradient, in the order of computation.
struct Kept {
  std::vector<Tensor> cells, workspaces;
};

// Returns output (steps, batch, width), the last state and the last cell.
variable_list run(const Layer& layer, Kept* kept) {
  const Tensor inputs = at::linear(layer.x, layer.w_input), transposed = layer.w_hidden.t();
  Tensor state = layer.state, cell = layer.cell, workspace;
  std::vector<Tensor> outputs(std::size_t(layer.steps()));
  for (int64_t i = 0; i < layer.steps(); i++) {
    const Tensor input = inputs.select(0, layer.step(i)), hidden = at::mm(state, transposed);
    if (layer.gru)
      std::tie(state, workspace) = at::_thnn_fused_gru_cell(input, hidden, state, layer.b_input, layer.b_hidden);
    else
      std::tie(state, cell, workspace) = at::_thnn_fused_lstm_cell(input, hidden, cell, layer.b_input, layer.b_hidden);
    outputs[std::size_t(layer.step(i))] = state;
    if (kept) kept->cells.push_back(cell), kept->workspaces.push_back(workspace);
  }
  return {at::stack(outputs), state, cell};
}

// Gradients to the operands from those to what `run` returned.
variable_list run_backward(const Layer& layer, const Kept& kept, const Tensor& output, const variable_list& grads) {
  const int64_t steps = layer.steps();
  std::vector<Tensor> of_inputs(static_cast<std::size_t>(steps)), of_hidden(layer.gru ? std::size_t(steps) : 0);
  const auto of_output = [&](int64_t i) { return grads[0].select(0, layer.step(i)); };
  Tensor grad = grads[1] + of_output(steps - 1), grad_cell = grads[2], direct, unused_a, unused_b;
  for (int64_t i = steps - 1; i >= 0; i--) {
    const auto at = std::size_t(layer.step(i)), now = std::size_t(i);
    if (layer.gru) {
      std::tie(of_inputs[at], of_hidden[at], direct, unused_a, unused_b) =
          at::_thnn_fused_gru_cell_backward(grad, kept.workspaces[now], false);
      if (i > 0) direct += of_output(i - 1);
      grad = at::addmm(direct, of_hidden[at], layer.w_hidden);
    } else {
      const Tensor& before = i == 0 ? layer.cell : kept.cells[now - 1];
      std::tie(of_inputs[at], grad_cell, unused_a) = at::_thnn_fused_lstm_cell_backward_impl(
          grad, grad_cell, before, kept.cells[now], kept.workspaces[now], false);
      grad = i > 0 ? at::addmm(of_output(i - 1), of_inputs[at], layer.w_hidden) : at::mm(of_inputs[at], layer.w_hidden);
    }
  }
  const Tensor first = layer.state.unsqueeze(0);
  const Tensor states = layer.reverse ? at::cat({output.narrow(0, 1, steps - 1), first})
                                      : at::cat({first, output.narrow(0, 0, steps - 1)});
  const Tensor gates = at::cat(of_inputs);
  const Tensor hidden = layer.gru ? at::cat(of_hidden) : gates;
  const bool bias = layer.b_input.defined();
  const Tensor b_input = bias ? gates.sum(0) : Tensor();
  return {at::mm(gates, layer.w_input).view_as(layer.x),
          grad,
          layer.gru ? Tensor() : grad_cell,
          at::mm(gates.t(), layer.x.reshape({-1, layer.x.size(-1)})),
          at::mm(hidden.t(), states.reshape({-1, states.size(-1)})),
          b_input,
          bias && layer.gru ? hidden.sum(0) : b_input};
}

// The same by PyTorch's composite, which can be differentiated again.
variable_list compose(const Layer& layer) {
  const Tensor x = layer.reverse ? layer.x.flip(0) : layer.x;
  std::vector<Tensor> weights{layer.w_input, layer.w_hidden};
  const bool bias = layer.b_input.defined();
  if (bias) weights.insert(weights.end(), {layer.b_input, layer.b_hidden});
  const Tensor state = layer.state.unsqueeze(0);
  Tensor output, last, cell;
  if (layer.gru) std::tie(output, last) = at::native::gru(x, state, weights, bias, 1, 0, false, false, false);
  else
    std::tie(output, last, cell) =
        at::native::lstm(x, {state, layer.cell.unsqueeze(0)}, weights, bias, 1, 0, false, false, false);
  return {layer.reverse ? output.flip(0) : output, last.squeeze(0), layer.gru ? cell : cell.squeeze(0)};
}

variable_list without_undefined(const variable_list& all) {
  variable_list defined;
  for (const Tensor& tensor : all)
    if (tensor.defined()) defined.push_back(tensor);
  return defined;
}

struct LayerFunction : torch::autograd::Function<LayerFunction> {
  static variable_list forward(AutogradContext* context, bool gru, bool reverse, const Tensor& x, const Tensor& state,
                               const Optional& cell, const Tensor& w_input, const Tensor& w_hidden,
                               const Optional& b_input, const Optional& b_hidden) {
    at::AutoDispatchBelowADInplaceOrView below;
    const variable_list operands{
        x, state, cell.value_or(Tensor()), w_input, w_hidden, b_input.value_or(Tensor()), b_hidden.value_or(Tensor())};
    Kept kept;
    const variable_list results = run(Layer::from(gru, reverse, operands), &kept);
    variable_list saved = operands;
    saved.push_back(results[0]);
    saved.insert(saved.end(), kept.workspaces.begin(), kept.workspaces.end());
    if (!gru) saved.insert(saved.end(), kept.cells.begin(), kept.cells.end());
    context->save_for_backward(saved);
    context->saved_data["gru"] = gru, context->saved_data["reverse"] = reverse;
    return gru ? variable_list{results[0], results[1]} : results;
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list saved = context->get_saved_variables();
    const Layer layer =
        Layer::from(context->saved_data["gru"].toBool(), context->saved_data["reverse"].toBool(), saved);
    const auto steps = layer.steps();
    if (layer.gru) grads.emplace_back();
    variable_list result(2);  // of the two flags
    const variable_list own = at::GradMode::is_enabled() ? again(layer, grads) : [&] {
      const auto workspaces = saved.begin() + 8;
      const Kept kept{{workspaces + steps, saved.end()}, {workspaces, workspaces + steps}};
      return run_backward(layer, kept, saved[7], grads);
    }();
    result.insert(result.end(), own.begin(), own.end());
    return result;
  }

 private:
  // Gradients that can be differentiated.
  static variable_list again(const Layer& layer, const variable_list& grads) {
    const variable_list operands = layer.operands();
    variable_list wanted;
    for (const Tensor& operand : operands)
      if (operand.defined() && operand.requires_grad()) wanted.push_back(operand);
    const variable_list found =
        torch::autograd::grad(without_undefined(compose(layer)), wanted, without_undefined(grads), true, true, true);
    variable_list all;
    auto next = found.begin();
    for (const Tensor& operand : operands)
      all.push_back(operand.defined() && operand.requires_grad() ? *next++ : Tensor());
    return all;
  }
};

}  // namespace

variable_list run_layer(const Layer& layer) {
  const variable_list operands = layer.operands();
  const bool differentiates = at::GradMode::is_enabled() && std::ranges::any_of(operands, [](const Tensor& t) {
                                return t.defined() && t.requires_grad();
                              });
  if (!differentiates) return run(layer, nullptr);
  const auto given = [](const Tensor& t) { return t.defined() ? Optional(t) : std::nullopt; };
  variable_list results =
      LayerFunction::apply(layer.gru, layer.reverse, layer.x, layer.state, given(layer.cell), layer.w_input,
                           layer.w_hidden, given(layer.b_input), given(layer.b_hidden));
  if (layer.gru) results.emplace_back();
  return results;
}

}  // namespace pytorch_ocl::ops
