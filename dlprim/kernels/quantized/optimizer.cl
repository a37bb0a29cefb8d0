// SPDX-License-Identifier: MIT
// A step of an optimizer whose states are bytes, names of entries of tables that ascend, times a scale for each block
// (T. Dettmers et al., "8-bit Optimizers via Block-wise Quantization", 2022). A work-group of ITEMS a block of BLOCK
// elements: states become numbers, the parameter steps, the states' largest magnitudes are their scales, and the entries
// nearest to what is left are stored. The host defines
//   T, GRADIENT  tags of the parameter and its gradient
//   ALGORITHM    ADAM, ADEMAMIX, MOMENTUM, RMSPROP, LION or ADAGRAD; STATES  how many states that has
//   BLOCK, ITEMS
#include "lib/types.clh"

#define ADAM 0
#define ADEMAMIX 1
#define MOMENTUM 2
#define RMSPROP 3
#define LION 4
#define ADAGRAD 5

typedef struct {
  ulong count;
  float lr, beta1, beta2, beta3, alpha, eps, weight_decay, gradient_scale;
  float rest1, rest2, rest3;       // 1 - beta1 ..., rounded once
  float correction1, correction2;  // 1 - beta1^step, sqrt(1 - beta2^step)
  int first;
} Parameters;

#define OWN (BLOCK / ITEMS)
#define EACH(i, n) _Pragma("unroll") for (int i = 0; i < n; i++)

// Changes an element's states and returns the parameter's new value.
inline float step_of(float w, float g, float s[STATES], const Parameters *p) {
#if ALGORITHM == MOMENTUM || ALGORITHM == RMSPROP || ALGORITHM == ADAGRAD
  g += p->weight_decay * w;
#else
  w *= 1 - p->lr * p->weight_decay;
#endif
#if ALGORITHM == ADAM
  s[0] = p->beta1 * s[0] + p->rest1 * g;
  s[1] = p->beta2 * s[1] + p->rest2 * g * g;
  return w - p->lr / p->correction1 * s[0] / (sqrt(s[1]) / p->correction2 + p->eps);
#elif ALGORITHM == ADEMAMIX  // fast and slow means, then squares
  s[0] = p->beta1 * s[0] + p->rest1 * g;
  s[1] = p->beta3 * s[1] + p->rest3 * g;
  s[2] = p->beta2 * s[2] + p->rest2 * g * g;
  return w - p->lr * (s[0] / p->correction1 + p->alpha * s[1]) / (sqrt(s[2]) / p->correction2 + p->eps);
#elif ALGORITHM == MOMENTUM
  s[0] = p->first ? g : p->beta1 * s[0] + g;
  return w - p->lr * s[0];
#elif ALGORITHM == RMSPROP
  s[0] = p->beta1 * s[0] + p->rest1 * g * g;
  return w - p->lr * g / (sqrt(s[0]) + p->eps);
#elif ALGORITHM == LION
  const float direction = p->beta1 * s[0] + p->rest1 * g;
  s[0] = p->beta2 * s[0] + p->rest2 * g;
  return w - p->lr * sign(direction);
#else
  s[0] += g * g;
  return w - p->lr * g / (sqrt(s[0]) + p->eps);
#endif
}

// The entry of the table nearest to v, the lower one halfway.
inline uchar nearest(float v, __local const float *table) {
  uint place = 0;
  for (uint step = 128; step > 0; step /= 2)
    if ((table[place + step - 1] + table[place + step]) / 2 < v) place += step;
  return (uchar)place;
}

#define STATE_ARGUMENTS(i) GLOBAL(uchar, bytes##i), GLOBAL(float, scales##i), CONST_GLOBAL(float, table##i)
#define TAKE(i)                                                                                        \
  bytes[i] = POINTER(uchar, bytes##i) + begin, scales[i] = POINTER(float, scales##i) + get_group_id(0); \
  for (uint e = item; e < 256; e += ITEMS) tables[i][e] = CONST_POINTER(float, table##i)[e];

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
void optimizer_of_bytes(GLOBAL(STORAGE(T), parameter), CONST_GLOBAL(STORAGE(GRADIENT), gradient), STATE_ARGUMENTS(0),
                        STATE_ARGUMENTS(1), STATE_ARGUMENTS(2), const Parameters p) {
  __local float tables[STATES][256], largest[STATES][ITEMS];
  __global uchar *bytes[STATES];
  __global float *scales[STATES];
  const uint item = get_local_id(0);
  const ulong begin = (ulong)get_group_id(0) * BLOCK;
  TAKE(0)
#if STATES > 1
  TAKE(1)
#endif
#if STATES > 2
  TAKE(2)
#endif
  barrier(CLK_LOCAL_MEM_FENCE);
  __global STORAGE(T) *w = POINTER(STORAGE(T), parameter) + begin;
  __global const STORAGE(GRADIENT) *g = CONST_POINTER(STORAGE(GRADIENT), gradient) + begin;
  float states[OWN][STATES], most[STATES];
  EACH(s, STATES) most[s] = 0;
  EACH(o, OWN) {
    const uint i = o * ITEMS + item;
    const bool inside = begin + i < p.count;
    EACH(s, STATES) states[o][s] = inside ? tables[s][bytes[s][i]] * *scales[s] : 0;
    if (inside) STORE(T, w, i, step_of(LOAD(T, w, i), p.gradient_scale * LOAD(GRADIENT, g, i), states[o], &p));
    EACH(s, STATES) most[s] = inside ? fmax(most[s], fabs(states[o][s])) : most[s];
  }
  EACH(s, STATES) largest[s][item] = most[s];
  for (uint half_way = ITEMS / 2; half_way > 0; half_way /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item < half_way)
      EACH(s, STATES) largest[s][item] = fmax(largest[s][item], largest[s][item + half_way]);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  EACH(s, STATES) {
    const float scale = largest[s][0];
    if (item == 0) *scales[s] = scale;
    EACH(o, OWN) {
      const uint i = o * ITEMS + item;
      if (begin + i < p.count) bytes[s][i] = nearest(scale > 0 ? states[o][s] / scale : 0, tables[s]);
    }
  }
}
