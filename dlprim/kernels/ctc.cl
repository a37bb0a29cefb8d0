// SPDX-License-Identifier: MIT
// Connectionist temporal classification: A. Graves, S. Fernandez, F. Gomez, J. Schmidhuber, ICML 2006. States are the
// labels with blanks between and around them: 2 S + 1. One work-group a sequence walks time.
// Defines: T tag (f32 or f64); GROUP work-items of a group.
#include "lib/types.clh"

#define R VALUE(T)

typedef struct {
  long step, row, class_step;  // strides of the log-probabilities (time, batch, class)
  long grad_step, grad_row, grad_class;
  int steps, batch, classes, states, blank, zero_infinity, code, unused;
} Ctc;

inline R log_add(R a, R b) {
  const R high = fmax(a, b);
  return high == -INFINITY ? high : high + log1p(exp(fmin(a, b) - high));
}

// The class of a state. A label that is no class is reported and taken for the blank.
inline long label_of(__global const long *labels, int state, const Ctc *p, __global int *status) {
  if (state % 2 == 0) return p->blank;
  const long label = labels[state / 2];
  if (label >= 0 && label < p->classes) return label;
  REPORT(status, p->code, label);
  return p->blank;
}
#define LABEL(state) label_of(labels, state, &p, POINTER(int, status))

// lengths: input and target length and first label of every sequence, (batch, 3).
#define SEQUENCE                                                                              \
  const int b = get_group_id(0), id = get_local_id(0);                                       \
  __global const long *lengths = CONST_POINTER(long, lengths) + 3 * b;                       \
  const int steps = lengths[0], states = 2 * (int)lengths[1] + 1;                            \
  __global const long *labels = CONST_POINTER(long, targets) + lengths[2];                   \
  __global const STORAGE(T) *in = CONST_POINTER(STORAGE(T), in) + b * p.row;

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void ctc_forward(
    CONST_GLOBAL(STORAGE(T), in), CONST_GLOBAL(long, targets), CONST_GLOBAL(long, lengths),
    GLOBAL(STORAGE(T), alpha), GLOBAL(STORAGE(T), losses), GLOBAL(int, status), Ctc p) {
  SEQUENCE
  __global STORAGE(T) *alpha = POINTER(STORAGE(T), alpha) + (long)b * p.steps * p.states;
  for (int t = 0; t < p.steps; t++) {
    __global STORAGE(T) *now = alpha + (long)t * p.states, *before = now - p.states;
    for (int s = id; s < p.states; s += GROUP) {
      R value = -INFINITY;
      if (t < steps && s < states) {
        const long label = LABEL(s);
        if (t == 0) {
          if (s < 2) value = LOAD(T, in, label * p.class_step);
        } else {
          value = before[s];
          if (s > 0) value = log_add(value, before[s - 1]);
          if (s > 1 && label != LABEL(s - 2)) value = log_add(value, before[s - 2]);
          value += LOAD(T, in, t * p.step + label * p.class_step);
        }
      }
      now[s] = value;
    }
    barrier(CLK_GLOBAL_MEM_FENCE);
  }
  if (id == 0) {
    R loss = states == 1 ? 0 : INFINITY;
    if (steps > 0) {
      __global STORAGE(T) *last = alpha + (long)(steps - 1) * p.states;
      loss = -(states > 1 ? log_add(last[states - 1], last[states - 2]) : last[0]);
    }
    POINTER(STORAGE(T), losses)[b] = p.zero_infinity && loss == INFINITY ? 0 : loss;
  }
}

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void ctc_beta(
    CONST_GLOBAL(STORAGE(T), in), CONST_GLOBAL(long, targets), CONST_GLOBAL(long, lengths), GLOBAL(STORAGE(T), beta),
    GLOBAL(int, status), Ctc p) {
  SEQUENCE
  __global STORAGE(T) *beta = POINTER(STORAGE(T), beta) + (long)b * p.steps * p.states;
  for (int t = steps - 1; t >= 0; t--) {
    __global STORAGE(T) *now = beta + (long)t * p.states, *after = now + p.states;
    for (int s = id; s < states; s += GROUP) {
      const long label = LABEL(s);
      const R here = LOAD(T, in, t * p.step + label * p.class_step);
      R value = -INFINITY;
      if (t == steps - 1) {
        if (s >= states - 2) value = here;
      } else {
        value = after[s];
        if (s + 1 < states) value = log_add(value, after[s + 1]);
        if (s + 2 < states && label != LABEL(s + 2)) value = log_add(value, after[s + 2]);
        value += here;
      }
      now[s] = value;
    }
    barrier(CLK_GLOBAL_MEM_FENCE);
  }
}

// One work-item a sequence and step: sums alpha beta over the states of every class, then the gradient.
__kernel void ctc_gradient(CONST_GLOBAL(STORAGE(T), in), CONST_GLOBAL(long, targets), CONST_GLOBAL(long, lengths),
                           CONST_GLOBAL(STORAGE(T), alpha), CONST_GLOBAL(STORAGE(T), beta),
                           CONST_GLOBAL(STORAGE(T), losses), CONST_GLOBAL(STORAGE(T), grad_out), long grad_out_stride,
                           GLOBAL(STORAGE(T), grad_in), GLOBAL(int, status), Ctc p) {
  const int t = get_global_id(0), b = get_global_id(1);
  if (t >= p.steps || b >= p.batch) return;
  __global const long *lengths = CONST_POINTER(long, lengths) + 3 * b;
  __global const long *labels = CONST_POINTER(long, targets) + lengths[2];
  const int states = 2 * (int)lengths[1] + 1;
  __global const STORAGE(T) *in = CONST_POINTER(STORAGE(T), in) + b * p.row + t * p.step;
  __global STORAGE(T) *grad = POINTER(STORAGE(T), grad_in) + b * p.grad_row + t * p.grad_step;
  const long at = ((long)b * p.steps + t) * p.states;
  __global const STORAGE(T) *alpha = CONST_POINTER(STORAGE(T), alpha) + at;
  __global const STORAGE(T) *beta = CONST_POINTER(STORAGE(T), beta) + at;
  const R loss = CONST_POINTER(STORAGE(T), losses)[b], scale = CONST_POINTER(STORAGE(T), grad_out)[b * grad_out_stride];
  const bool used = t < lengths[0] && !(p.zero_infinity && loss == INFINITY);
  for (int c = 0; c < p.classes; c++) grad[c * p.grad_class] = used ? -INFINITY : 0;
  if (!used) return;
  for (int s = 0; s < states; s++) {
    const long c = LABEL(s) * p.grad_class;
    grad[c] = log_add(grad[c], alpha[s] + beta[s]);
  }
  for (int c = 0; c < p.classes; c++) {
    const R log_p = LOAD(T, in, c * p.class_step);
    grad[c * p.grad_class] = (exp(log_p) - exp(grad[c * p.grad_class] + loss - log_p)) * scale;
  }
}
