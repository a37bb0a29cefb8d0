// SPDX-License-Identifier: MIT
// Losses over classes. Input (rows n, classes c, positions s), targets and losses (n, s), any strides.
// Defines: T tag of input and losses, LABEL tag of the targets, WEIGHTS when class weights are given, one of NLL_EACH,
// NLL_REDUCE, NLL_FINISH, NLL_BACKWARD, ENTROPY, ENTROPY_BACKWARD, MARGIN, MULTILABEL; GROUP work-items of a group.
#include "lib/types.clh"

typedef struct {
  long in_stride[3], target_stride[2], loss_stride[2];
  long rows, classes, places, ignored;
  int mean;
} Labels;

// The row of target i, and its position in that. CPUs divide slowly by 64-bit numbers.
#ifdef CPU_DEVICE
#define ROW(i) (p.places == 1 ? (i) : (i) / p.places)
#define PLACE(i) (p.places == 1 ? 0 : (i) % p.places)
#else
#define ROW(i) ((i) / p.places)
#define PLACE(i) ((i) % p.places)
#endif

inline long label_at(__global const STORAGE(LABEL) *target, Labels p, long i) {
  return target[ROW(i) * p.target_stride[0] + PLACE(i) * p.target_stride[1]];
}
inline long input_at(Labels p, long i, long c) {
  return ROW(i) * p.in_stride[0] + c * p.in_stride[1] + PLACE(i) * p.in_stride[2];
}
inline long loss_at(Labels p, long i) { return ROW(i) * p.loss_stride[0] + PLACE(i) * p.loss_stride[1]; }

#ifdef WEIGHTS
#define WEIGHT(t) LOAD(T, weights, t)
#else
#define WEIGHT(t) 1
#endif
#define COMMON                                                                                            \
  CONST_GLOBAL(STORAGE(LABEL), target), CONST_GLOBAL(STORAGE(T), weights), GLOBAL(int, status), int code, \
      Labels p
#define POINTERS                                                                   \
  __global const STORAGE(LABEL) *target = CONST_POINTER(STORAGE(LABEL), target);  \
  __global const STORAGE(T) *weights = CONST_POINTER(STORAGE(T), weights);        \
  __global int *status = POINTER(int, status);

// Whether element i counts; reports labels out of range.
inline bool counts(long label, Labels p, __global int *status, int code) {
  if (label == p.ignored) return false;
  if (label >= 0 && label < p.classes) return true;
  REPORT(status, code, label);
  return false;
}

#ifdef NLL_EACH
__kernel void nll_each(CONST_GLOBAL(STORAGE(T), in), GLOBAL(STORAGE(T), losses), COMMON) {
  POINTERS
  const long i = (long)global_id();
  if (i >= p.rows * p.places) return;
  const long label = label_at(target, p, i);
  const bool used = counts(label, p, status, code);
  STORE(T, POINTER(STORAGE(T), losses), loss_at(p, i),
        used ? -WEIGHT(label) * LOAD(T, CONST_POINTER(STORAGE(T), in), input_at(p, i, label)) : 0);
}
#endif

#if defined(NLL_REDUCE) || defined(NLL_FINISH)
// Sums two values over the work-group; the result is right in work-item 0.
inline void sum_group(ACC(T) *a, ACC(T) *b, __local ACC(T) *scratch) {
  const int id = get_local_id(0);
  scratch[id] = *a, scratch[GROUP + id] = *b;
  for (int half_size = GROUP / 2; half_size > 0; half_size /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (id < half_size) {
      scratch[id] += scratch[id + half_size];
      scratch[GROUP + id] += scratch[GROUP + id + half_size];
    }
  }
  if (id == 0) *a = scratch[0], *b = scratch[GROUP];  // the others may be behind the last sum
}
#endif

#ifdef NLL_REDUCE
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void nll_reduce(CONST_GLOBAL(STORAGE(T), in),
                                                                            GLOBAL(ACC(T), partials), COMMON) {
  POINTERS
  __local ACC(T) scratch[2 * GROUP];
  __global const STORAGE(T) *in = CONST_POINTER(STORAGE(T), in);
  ACC(T) loss = 0, total = 0;
  for (long i = get_global_id(0); i < p.rows * p.places; i += get_global_size(0)) {
    const long label = label_at(target, p, i);
    if (counts(label, p, status, code)) {
      const ACC(T) weight = WEIGHT(label);
      loss -= weight * LOAD(T, in, input_at(p, i, label));
      total += weight;
    }
  }
  sum_group(&loss, &total, scratch);
  if (get_local_id(0) == 0) {
    __global ACC(T) *partials = POINTER(ACC(T), partials);
    partials[2 * get_group_id(0)] = loss, partials[2 * get_group_id(0) + 1] = total;
  }
}
#endif

#ifdef NLL_FINISH
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void nll_finish(CONST_GLOBAL(ACC(T), partials), int count,
                                                                            int mean, GLOBAL(STORAGE(T), out),
                                                                            GLOBAL(STORAGE(T), total_weight)) {
  __local ACC(T) scratch[2 * GROUP];
  __global const ACC(T) *partials = CONST_POINTER(ACC(T), partials);
  ACC(T) loss = 0, total = 0;
  for (int i = get_local_id(0); i < count; i += GROUP) loss += partials[2 * i], total += partials[2 * i + 1];
  sum_group(&loss, &total, scratch);
  if (get_local_id(0) == 0) {
    STORE(T, POINTER(STORAGE(T), out), 0, mean ? loss / total : loss);
    STORE(T, POINTER(STORAGE(T), total_weight), 0, total);
  }
}
#endif

#ifdef NLL_BACKWARD
// The gradient of the one class of each target that has any; grad_in is 0.
__kernel void nll_backward(CONST_GLOBAL(STORAGE(T), grad_out), CONST_GLOBAL(STORAGE(T), total_weight),
                           GLOBAL(STORAGE(T), grad_in), COMMON) {
  POINTERS
  const long i = (long)global_id();
  if (i >= p.rows * p.places) return;
  const long label = label_at(target, p, i);
  if (!counts(label, p, status, code)) return;
  ACC(T) grad = -WEIGHT(label) * LOAD(T, CONST_POINTER(STORAGE(T), grad_out), loss_at(p, i));
  if (p.mean) grad /= LOAD(T, CONST_POINTER(STORAGE(T), total_weight), 0);
  STORE(T, POINTER(STORAGE(T), grad_in), input_at(p, i, label), grad);
}
#endif

#if defined(ENTROPY) || defined(ENTROPY_BACKWARD)
// log(sum(exp(x))) of a row by its work-group, the maximum taken out first.
inline ACC(T) log_sum_exp(__global const STORAGE(T) *in, Labels p, long i, __local ACC(T) *scratch) {
  const int id = get_local_id(0);
  ACC(T) high = -INFINITY, sum = 0;
  for (long c = id; c < p.classes; c += GROUP) high = fmax(high, LOAD(T, in, input_at(p, i, c)));
  scratch[id] = high;
  for (int half_size = GROUP / 2; half_size > 0; half_size /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (id < half_size) scratch[id] = fmax(scratch[id], scratch[id + half_size]);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  high = scratch[0];
  barrier(CLK_LOCAL_MEM_FENCE);
  for (long c = id; c < p.classes; c += GROUP) sum += exp(LOAD(T, in, input_at(p, i, c)) - high);
  scratch[id] = sum;
  for (int half_size = GROUP / 2; half_size > 0; half_size /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (id < half_size) scratch[id] += scratch[id + half_size];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  return high + log(scratch[0]);
}

#ifdef ENTROPY
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void entropy(CONST_GLOBAL(STORAGE(T), in),
                                                                         GLOBAL(STORAGE(T), losses), COMMON) {
  POINTERS
  __local ACC(T) scratch[GROUP];
  __global const STORAGE(T) *in = CONST_POINTER(STORAGE(T), in);
  const long i = get_group_id(0);
  const ACC(T) total = log_sum_exp(in, p, i, scratch);
  if (get_local_id(0) == 0) {
    const long label = label_at(target, p, i);
    const bool used = counts(label, p, status, code);
    STORE(T, POINTER(STORAGE(T), losses), loss_at(p, i), used ? total - LOAD(T, in, input_at(p, i, label)) : 0);
  }
}
#else
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void entropy_backward(CONST_GLOBAL(STORAGE(T), in),
                                                                                  CONST_GLOBAL(STORAGE(T), grad_out),
                                                                                  GLOBAL(STORAGE(T), grad_in), COMMON) {
  POINTERS
  __local ACC(T) scratch[GROUP];
  __global const STORAGE(T) *in = CONST_POINTER(STORAGE(T), in);
  __global STORAGE(T) *grad_in = POINTER(STORAGE(T), grad_in);
  const long i = get_group_id(0), label = label_at(target, p, i);
  const ACC(T) total = log_sum_exp(in, p, i, scratch);
  const ACC(T) grad =
      counts(label, p, status, code) ? LOAD(T, CONST_POINTER(STORAGE(T), grad_out), loss_at(p, i)) : 0;
  for (long c = get_local_id(0); c < p.classes; c += GROUP) {
    const long at = input_at(p, i, c);
    STORE(T, grad_in, at, grad * (exp(LOAD(T, in, at) - total) - (c == label)));
  }
}
#endif
#endif

#ifdef MARGIN
// One work-item a row: sum over c != t of w[t] max(0, margin - x[t] + x[c])^power / C, or its gradient times grad.
__kernel void margin(CONST_GLOBAL(STORAGE(T), in), CONST_GLOBAL(STORAGE(T), grad_out), GLOBAL(STORAGE(T), out), COMMON,
                     int power, float2 margin_width, int backward) {
  POINTERS
  const long i = (long)global_id();
  if (i >= p.rows) return;
  __global const STORAGE(T) *in = CONST_POINTER(STORAGE(T), in);
  __global STORAGE(T) *out = POINTER(STORAGE(T), out);
  const long label = label_at(target, p, i);
  p.ignored = p.classes;  // no label is ignored here
  const bool valid = counts(label, p, status, code);
  const ACC(T) right = valid ? LOAD(T, in, input_at(p, i, label)) : 0;
  const ACC(T) weight = valid ? (ACC(T))WEIGHT(label) / p.classes : 0;
  const ACC(T) grad = backward ? LOAD(T, CONST_POINTER(STORAGE(T), grad_out), loss_at(p, i)) * weight : 0;
  ACC(T) sum = 0;
  for (long c = 0; c < p.classes; c++) {
    const ACC(T) z = REAL_OF(ACC(T), margin_width) - right + LOAD(T, in, input_at(p, i, c));
    const bool active = valid && c != label && z > 0;
    const ACC(T) slope = active ? (power == 1 ? grad : 2 * z * grad) : 0;
    if (backward && c != label) STORE(T, out, input_at(p, i, c), slope);
    sum += backward ? slope : active ? (power == 1 ? z : z * z) : 0;
  }
  if (!backward) STORE(T, out, loss_at(p, i), sum * weight);
  else if (valid) STORE(T, out, input_at(p, i, label), -sum);
}
#endif

#ifdef MULTILABEL
// One work-item a row. Targets are the labels of a row up to the first -1; `flags` (rows, classes) marks them.
__kernel void multilabel(CONST_GLOBAL(STORAGE(T), in), CONST_GLOBAL(STORAGE(T), grad_out), GLOBAL(STORAGE(T), out),
                         GLOBAL(STORAGE(T), flags), COMMON, int backward) {
  POINTERS
  const long i = (long)global_id();
  if (i >= p.rows) return;
  __global const STORAGE(T) *in = CONST_POINTER(STORAGE(T), in);
  __global STORAGE(T) *out = POINTER(STORAGE(T), out);
  __global STORAGE(T) *flags = POINTER(STORAGE(T), flags) + i * p.classes;
  const ACC(T) grad = backward ? LOAD(T, CONST_POINTER(STORAGE(T), grad_out), loss_at(p, i)) / p.classes : 0;
  p.ignored = p.classes;
  for (long c = 0; c < p.classes; c++) {
    if (backward) STORE(T, out, input_at(p, i, c), 0);
    else STORE(T, flags, c, 0);
  }
  if (!backward)
    for (long k = 0; k < p.classes; k++) {
      const long label = target[i * p.target_stride[0] + k * p.target_stride[1]];
      if (label == -1) break;
      if (counts(label, p, status, code)) STORE(T, flags, label, 1);
    }
  ACC(T) sum = 0;
  for (long k = 0; k < p.classes; k++) {
    const long label = target[i * p.target_stride[0] + k * p.target_stride[1]];
    if (label < 0 || label >= p.classes) break;
    const ACC(T) right = LOAD(T, in, input_at(p, i, label));
    for (long c = 0; c < p.classes; c++) {
      const ACC(T) z = 1 - right + LOAD(T, in, input_at(p, i, c));
      if (LOAD(T, flags, c) != 0 || !(z > 0)) continue;
      sum += z;
      if (backward) {
        STORE(T, out, input_at(p, i, c), LOAD(T, out, input_at(p, i, c)) + grad);
        STORE(T, out, input_at(p, i, label), LOAD(T, out, input_at(p, i, label)) - grad);
      }
    }
  }
  if (!backward) STORE(T, out, loss_at(p, i), sum / p.classes);
}
#endif
