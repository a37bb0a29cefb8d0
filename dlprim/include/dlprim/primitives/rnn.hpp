// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/queue.hpp>
#include <dlprim/tensor_view.hpp>

namespace dlprim {

/// What the products of a recurrent cell gave, before activation: both (rows, gates * width), dense along the last
/// dimension, and optional contiguous biases of (gates * width).
struct CellGates {
  TensorView input, hidden, input_bias, hidden_bias;
};

// All functions here take float16, bfloat16, float32 or float64 throughout and compute in float or double. States are
// (rows, width), dense along the last dimension; outputs are contiguous. They throw ValidationError otherwise.

/// LSTM (S. Hochreiter, J. Schmidhuber, "Long short-term memory", 1997), gates in order input, forget, cell, output:
///   next_cell = f * cell + i * g,  next = o * tanh(next_cell).
/// `workspace` (rows, 4 * width) receives the activated gates, for the gradient.
void lstm_cell(Queue& queue, const CellGates& gates, const TensorView& cell, const TensorView& next,
               const TensorView& next_cell, const TensorView& workspace);

/// Gradients of lstm_cell to the gates before activation (rows, 4 * width) and to `cell`. An undefined `grad_next` or
/// `grad_next_cell` stands for zeros.
void lstm_cell_backward(Queue& queue, const TensorView& grad_next, const TensorView& grad_next_cell,
                        const TensorView& cell, const TensorView& next_cell, const TensorView& workspace,
                        const TensorView& grad_gates, const TensorView& grad_cell);

/// GRU (K. Cho et al., "Learning phrase representations using RNN encoder-decoder", 2014) in the form that resets the
/// hidden product, gates in order reset, update, new:
///   n = tanh(input_n + r * hidden_n),  next = (1 - z) * n + z * state.
/// `workspace` (rows, 5 * width) receives r, z, n, state and hidden_n, for the gradient.
void gru_cell(Queue& queue, const CellGates& gates, const TensorView& state, const TensorView& next,
              const TensorView& workspace);

/// Gradients of gru_cell to both gate operands (rows, 3 * width) and to `state`.
void gru_cell_backward(Queue& queue, const TensorView& grad_next, const TensorView& workspace,
                       const TensorView& grad_input, const TensorView& grad_hidden, const TensorView& grad_state);

}  // namespace dlprim
