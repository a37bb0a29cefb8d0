// SPDX-License-Identifier: MIT
// The pointwise part of recurrent cells; one work-item a state element. Definitions of the cells: primitives/rnn.hpp.
// Defines: T tag; WITH_INPUT_BIAS, WITH_HIDDEN_BIAS; WITH_GRAD_NEXT, WITH_GRAD_CELL.
#include "lib/types.clh"

#define R ACC(T)
#define IN(name) CONST_GLOBAL(STORAGE(T), name)
#define OUT(name) GLOBAL(STORAGE(T), name)
#define READ(name, i) LOAD(T, CONST_POINTER(STORAGE(T), name), i)
#define WRITE(name, i, v) STORE(T, POINTER(STORAGE(T), name), i, v)

typedef struct {
  long rows, width;
  long stride[4];  // of rows, of up to four inputs
} Cell;

#define BEGIN                                                     \
  const long x = get_global_id(0), row = get_global_id(1), w = p.width; \
  if (x >= w || row >= p.rows) return;                            \
  const long own = row * w + x;

#ifdef WITH_INPUT_BIAS
#define INPUT(gate) (READ(input, row * p.stride[0] + gate * w + x) + READ(input_bias, gate * w + x))
#else
#define INPUT(gate) READ(input, row * p.stride[0] + gate * w + x)
#endif
#ifdef WITH_HIDDEN_BIAS
#define HIDDEN(gate) (READ(hidden, row * p.stride[1] + gate * w + x) + READ(hidden_bias, gate * w + x))
#else
#define HIDDEN(gate) READ(hidden, row * p.stride[1] + gate * w + x)
#endif

inline R sigmoid(R v) { return 1 / (1 + exp(-v)); }

__kernel void lstm(const Cell p, IN(input), IN(hidden), IN(input_bias), IN(hidden_bias), IN(cell), OUT(next),
                   OUT(next_cell), OUT(workspace)) {
  BEGIN
  const R i = sigmoid(INPUT(0) + HIDDEN(0)), f = sigmoid(INPUT(1) + HIDDEN(1));
  const R g = tanh(INPUT(2) + HIDDEN(2)), o = sigmoid(INPUT(3) + HIDDEN(3));
  const R c = f * READ(cell, row * p.stride[2] + x) + i * g;
  WRITE(next, own, o * tanh(c));
  WRITE(next_cell, own, c);
  const long gate = row * 4 * w + x;
  WRITE(workspace, gate, i);
  WRITE(workspace, gate + w, f);
  WRITE(workspace, gate + 2 * w, g);
  WRITE(workspace, gate + 3 * w, o);
}

__kernel void lstm_backward(const Cell p, IN(grad_next), IN(grad_next_cell), IN(cell), IN(next_cell), IN(workspace),
                            OUT(grad_gates), OUT(grad_cell)) {
  BEGIN
  R grad_h = 0, grad_c = 0;
#ifdef WITH_GRAD_NEXT
  grad_h = READ(grad_next, row * p.stride[0] + x);
#endif
#ifdef WITH_GRAD_CELL
  grad_c = READ(grad_next_cell, row * p.stride[1] + x);
#endif
  const long gate = row * 4 * w + x;
  const R i = READ(workspace, gate), f = READ(workspace, gate + w);
  const R g = READ(workspace, gate + 2 * w), o = READ(workspace, gate + 3 * w);
  const R t = tanh(READ(next_cell, row * p.stride[3] + x));
  grad_c += grad_h * o * (1 - t * t);
  WRITE(grad_gates, gate, grad_c * g * i * (1 - i));
  WRITE(grad_gates, gate + w, grad_c * READ(cell, row * p.stride[2] + x) * f * (1 - f));
  WRITE(grad_gates, gate + 2 * w, grad_c * i * (1 - g * g));
  WRITE(grad_gates, gate + 3 * w, grad_h * t * o * (1 - o));
  WRITE(grad_cell, own, grad_c * f);
}

__kernel void gru(const Cell p, IN(input), IN(hidden), IN(input_bias), IN(hidden_bias), IN(state), OUT(next),
                  OUT(workspace)) {
  BEGIN
  const R r = sigmoid(INPUT(0) + HIDDEN(0)), z = sigmoid(INPUT(1) + HIDDEN(1));
  const R hidden_n = HIDDEN(2), n = tanh(INPUT(2) + r * hidden_n), h = READ(state, row * p.stride[2] + x);
  WRITE(next, own, n + z * (h - n));
  const long gate = row * 5 * w + x;
  WRITE(workspace, gate, r);
  WRITE(workspace, gate + w, z);
  WRITE(workspace, gate + 2 * w, n);
  WRITE(workspace, gate + 3 * w, h);
  WRITE(workspace, gate + 4 * w, hidden_n);
}

__kernel void gru_backward(const Cell p, IN(grad_next), IN(workspace), OUT(grad_input), OUT(grad_hidden),
                           OUT(grad_state)) {
  BEGIN
  const long kept = row * 5 * w + x, gate = row * 3 * w + x;
  const R r = READ(workspace, kept), z = READ(workspace, kept + w), n = READ(workspace, kept + 2 * w);
  const R h = READ(workspace, kept + 3 * w), hidden_n = READ(workspace, kept + 4 * w);
  const R grad = READ(grad_next, row * p.stride[0] + x);
  const R grad_n = grad * (1 - z) * (1 - n * n), grad_r = grad_n * hidden_n * r * (1 - r);
  const R grad_z = grad * (h - n) * z * (1 - z);
  WRITE(grad_input, gate, grad_r);
  WRITE(grad_input, gate + w, grad_z);
  WRITE(grad_input, gate + 2 * w, grad_n);
  WRITE(grad_hidden, gate, grad_r);
  WRITE(grad_hidden, gate + w, grad_z);
  WRITE(grad_hidden, gate + 2 * w, grad_n * r);
  WRITE(grad_state, own, grad * z);
}
