// SPDX-License-Identifier: MIT
// Recurrent cells; their second derivatives are PyTorch's composites of these.
#include <dlprim/primitives/rnn.hpp>

#include <ATen/ops/empty.h>
#include <ATen/ops/sum.h>

#include "generated/functions/rnn.h"
#include "runtime/tensor.hpp"

namespace pytorch_ocl::ops {

namespace {

using Optional = std::optional<at::Tensor>;

// The tensor with its last dimension dense, as cells want it.
at::Tensor rows(const at::Tensor& x) { return x.dim() == 2 && x.stride(1) == 1 ? x : x.contiguous(); }
at::Tensor rows(const Optional& x) { return x && x->defined() ? rows(*x) : at::Tensor(); }
dlprim::TensorView view_or_none(const at::Tensor& x, const char* op) {
  return x.defined() ? view_of(x, op) : dlprim::TensorView();
}

// The gates of one call, alive while its kernel is enqueued.
struct Gates {
  at::Tensor input, hidden, input_bias, hidden_bias;
  Gates(const at::Tensor& input, const at::Tensor& hidden, const Optional& input_bias, const Optional& hidden_bias,
        const at::Tensor& state, int64_t count, const char* op)
      : input(rows(input)), hidden(rows(hidden)), input_bias(dense(input_bias)), hidden_bias(dense(hidden_bias)) {
    TORCH_CHECK(state.dim() == 2, op, ": expected a state of 2 dimensions, got ", state.sizes());
    const std::vector<int64_t> expected{state.size(0), count * state.size(1)};
    TORCH_CHECK(input.sizes() == expected && hidden.sizes() == expected, op, ": expected input and hidden gates of ",
                at::IntArrayRef(expected), ", got ", input.sizes(), " and ", hidden.sizes());
    TORCH_CHECK(this->input_bias.defined() == this->hidden_bias.defined(), op, ": expected both biases or none");
  }
  dlprim::CellGates views(const char* op) const {
    return {view_of(input, op), view_of(hidden, op), view_or_none(input_bias, op), view_or_none(hidden_bias, op)};
  }

 private:
  static at::Tensor dense(const Optional& x) { return x && x->defined() ? x->contiguous() : at::Tensor(); }
};

}  // namespace

std::tuple<at::Tensor, at::Tensor, at::Tensor> _thnn_fused_lstm_cell(const at::Tensor& input_gates,
                                                                     const at::Tensor& hidden_gates,
                                                                     const at::Tensor& cx, const Optional& input_bias,
                                                                     const Optional& hidden_bias) {
  const char* op = "_thnn_fused_lstm_cell";
  const Gates gates(input_gates, hidden_gates, input_bias, hidden_bias, cx, 4, op);
  const at::Tensor cell = rows(cx);
  at::Tensor hy = at::empty(cx.sizes(), cx.options()), cy = at::empty(cx.sizes(), cx.options());
  at::Tensor workspace = at::empty({cx.size(0), 4 * cx.size(1)}, cx.options());
  if (cx.numel() > 0)
    dlprim::lstm_cell(current_queue(cx.device()), gates.views(op), view_of(cell, op), view_of(hy, op), view_of(cy, op),
                      view_of(workspace, op));
  return {hy, cy, workspace};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> _thnn_fused_lstm_cell_backward_impl(
    const Optional& grad_hy, const Optional& grad_cy, const at::Tensor& cx, const at::Tensor& cy,
    const at::Tensor& workspace, bool has_bias) {
  const char* op = "_thnn_fused_lstm_cell_backward_impl";
  const at::Tensor grad_next = rows(grad_hy), grad_next_cell = rows(grad_cy);
  if (!grad_next.defined() && !grad_next_cell.defined()) return {};
  const at::Tensor cell = rows(cx), next_cell = rows(cy), activated = workspace.contiguous();
  at::Tensor grad_gates = at::empty(workspace.sizes(), workspace.options());
  at::Tensor grad_cx = at::empty(cx.sizes(), cx.options());
  if (cx.numel() > 0)
    dlprim::lstm_cell_backward(current_queue(cx.device()), view_or_none(grad_next, op),
                               view_or_none(grad_next_cell, op), view_of(cell, op), view_of(next_cell, op),
                               view_of(activated, op), view_of(grad_gates, op), view_of(grad_cx, op));
  return {grad_gates, grad_cx, has_bias ? grad_gates.sum(0) : at::Tensor()};
}

std::tuple<at::Tensor, at::Tensor> _thnn_fused_gru_cell(const at::Tensor& input_gates, const at::Tensor& hidden_gates,
                                                        const at::Tensor& hx, const Optional& input_bias,
                                                        const Optional& hidden_bias) {
  const char* op = "_thnn_fused_gru_cell";
  const Gates gates(input_gates, hidden_gates, input_bias, hidden_bias, hx, 3, op);
  const at::Tensor state = rows(hx);
  at::Tensor hy = at::empty(hx.sizes(), hx.options());
  at::Tensor workspace = at::empty({hx.size(0), 5 * hx.size(1)}, hx.options());
  if (hx.numel() > 0)
    dlprim::gru_cell(current_queue(hx.device()), gates.views(op), view_of(state, op), view_of(hy, op),
                     view_of(workspace, op));
  return {hy, workspace};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> _thnn_fused_gru_cell_backward(
    const at::Tensor& grad_hy, const at::Tensor& workspace, bool has_bias) {
  const char* op = "_thnn_fused_gru_cell_backward";
  const at::Tensor grad = rows(grad_hy), kept = workspace.contiguous();
  const int64_t batch = grad.size(0), width = grad.size(1);
  at::Tensor grad_input = at::empty({batch, 3 * width}, grad.options());
  at::Tensor grad_hidden = at::empty({batch, 3 * width}, grad.options());
  at::Tensor grad_hx = at::empty({batch, width}, grad.options());
  if (grad.numel() > 0)
    dlprim::gru_cell_backward(current_queue(grad.device()), view_of(grad, op), view_of(kept, op),
                              view_of(grad_input, op), view_of(grad_hidden, op), view_of(grad_hx, op));
  if (!has_bias) return {grad_input, grad_hidden, grad_hx, at::Tensor(), at::Tensor()};
  return {grad_input, grad_hidden, grad_hx, grad_input.sum(0), grad_hidden.sum(0)};
}

}  // namespace pytorch_ocl::ops
