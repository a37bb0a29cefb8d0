// SPDX-License-Identifier: MIT
// Distances between rows in p-norms. The host defines T (tag), NORM (0, 1, 2, 3 for infinity, 4 for any other p) and
// INDEX, an unsigned type that holds every offset.
#include "lib/types.clh"
#define V VALUE(T)
#define RUN 2048  // columns added up before they join the sum: one sum of millions would lose the bits of the later ones

inline V distance_of(__global const STORAGE(T) *x, __global const STORAGE(T) *y, INDEX columns, V p) {
  V sum = 0;
  for (INDEX start = 0; start < columns; start += RUN) {
    V part = 0;
    for (INDEX c = start; c < min(start + RUN, columns); c++) {
      const V d = fabs(LOAD(T, x, c) - LOAD(T, y, c));
#if NORM == 0
      part += d != 0;
#elif NORM == 1
      part += d;
#elif NORM == 2
      part += d * d;
#elif NORM == 3
      part = d > part || d != d ? d : part;
#else
      part += pow(d, p);
#endif
    }
#if NORM == 3
    sum = part > sum || part != part ? part : sum;
#else
    sum += part;
#endif
  }
#if NORM == 2
  sum = sqrt(sum);
#elif NORM == 4
  sum = pow(sum, (V)1 / p);
#endif
  return sum;
}

// What the gradient g of `distance` adds to that of one element, d above the other row's.
inline V gradient_of(V g, V d, V distance, V p) {
  if (d == 0 || distance == 0) return 0;
#if NORM == 1
  return g * sign(d);
#elif NORM == 2
  return g * d / distance;
#elif NORM == 3
  return fabs(d) == distance ? g * sign(d) : (V)0;
#elif NORM == 4
  return g * sign(d) * pow(fabs(d) / distance, p - 1);
#else
  return 0;
#endif
}

__kernel void distances(GLOBAL(STORAGE(T), out), CONST_GLOBAL(STORAGE(T), a), CONST_GLOBAL(STORAGE(T), b), ulong count,
                        ulong rows, ulong others, ulong columns, float2 order) {
  if (global_id() >= count) return;
  const INDEX i = global_id(), j = i % (INDEX)others, line = i / (INDEX)others, batch = line / (INDEX)rows;
  __global const STORAGE(T) *x = CONST_POINTER(STORAGE(T), a) + line * (INDEX)columns;
  __global const STORAGE(T) *y = CONST_POINTER(STORAGE(T), b) + (batch * (INDEX)others + j) * (INDEX)columns;
  STORE(T, POINTER(STORAGE(T), out), i, distance_of(x, y, columns, REAL_OF(V, order)));
}

__kernel void distances_backward(GLOBAL(STORAGE(T), grad_a), CONST_GLOBAL(STORAGE(T), grad),
                                 CONST_GLOBAL(STORAGE(T), a), CONST_GLOBAL(STORAGE(T), b),
                                 CONST_GLOBAL(STORAGE(T), out), ulong count, ulong rows, ulong others, ulong columns,
                                 float2 order) {
  if (global_id() >= count) return;
  const V p = REAL_OF(V, order);
  const INDEX i = global_id(), column = i % (INDEX)columns, line = i / (INDEX)columns, batch = line / (INDEX)rows;
  __global const STORAGE(T) *y = CONST_POINTER(STORAGE(T), b) + batch * (INDEX)others * (INDEX)columns + column;
  const V x = LOAD(T, CONST_POINTER(STORAGE(T), a), i);
  V sum = 0;
  for (INDEX j = 0; j < (INDEX)others; j++) {
    const V distance = LOAD(T, CONST_POINTER(STORAGE(T), out), line * (INDEX)others + j);
    const V g = LOAD(T, CONST_POINTER(STORAGE(T), grad), line * (INDEX)others + j);
    sum += gradient_of(g, x - LOAD(T, y, j * (INDEX)columns), distance, p);
  }
  STORE(T, POINTER(STORAGE(T), grad_a), i, sum);
}

// Of the pairs i < j of n rows, in their order: row i has the pairs from i (2 n - i - 1) / 2 on.
__kernel void pair_distances(GLOBAL(STORAGE(T), out), CONST_GLOBAL(STORAGE(T), a), ulong count, ulong rows,
                             ulong columns, float2 order) {
  if (global_id() >= count) return;
  const INDEX at = global_id(), n = rows, rest = (INDEX)count - 1 - at;  // pairs behind this one
  INDEX below = (sqrt(8 * (float)rest + 1) - 1) / 2;  // rows from j on, without j itself: they have all but `rest`
  while (below * (below + 1) / 2 > rest) below--;
  while ((below + 1) * (below + 2) / 2 <= rest) below++;
  const INDEX i = n - 2 - below, j = n - 1 - (rest - below * (below + 1) / 2);
  __global const STORAGE(T) *x = CONST_POINTER(STORAGE(T), a);
  STORE(T, POINTER(STORAGE(T), out), at,
        distance_of(x + i * (INDEX)columns, x + j * (INDEX)columns, columns, REAL_OF(V, order)));
}

__kernel void pair_distances_backward(GLOBAL(STORAGE(T), grad_a), CONST_GLOBAL(STORAGE(T), grad),
                                      CONST_GLOBAL(STORAGE(T), a), CONST_GLOBAL(STORAGE(T), out), ulong count,
                                      ulong rows, ulong columns, float2 order) {
  if (global_id() >= count) return;
  const V p = REAL_OF(V, order);
  const INDEX item = global_id(), n = rows, column = item % (INDEX)columns, i = item / (INDEX)columns;
  __global const STORAGE(T) *y = CONST_POINTER(STORAGE(T), a) + column;
  const V x = LOAD(T, CONST_POINTER(STORAGE(T), a), item);
  V sum = 0;
  INDEX at = i > 0 ? i - 1 : 0;  // of the pair (0, i)
  for (INDEX j = 0; j < n; j++) {
    if (j == i) continue;
    const V distance = LOAD(T, CONST_POINTER(STORAGE(T), out), at), g = LOAD(T, CONST_POINTER(STORAGE(T), grad), at);
    sum += gradient_of(g, x - LOAD(T, y, j * (INDEX)columns), distance, p);
    at += j > i ? 1 : j + 1 < i ? n - j - 2 : n - j - 1;
  }
  STORE(T, POINTER(STORAGE(T), grad_a), item, sum);
}
