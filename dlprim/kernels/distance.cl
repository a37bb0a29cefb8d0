// SPDX-License-Identifier: MIT
// Distances between rows in p-norms. The host defines T (tag), NORM (0, 1, 2, 3 for infinity, 4 for any other p).
#include "lib/types.clh"
#define V VALUE(T)
#define RUN 2048  // columns added up before they join the sum: one sum of millions would lose the bits of the later ones

__kernel void distances(GLOBAL(STORAGE(T), out), CONST_GLOBAL(STORAGE(T), a), CONST_GLOBAL(STORAGE(T), b), ulong count,
                        ulong rows, ulong others, ulong columns, float2 order) {
  const ulong i = global_id();
  const V p = REAL_OF(V, order);
  if (i >= count) return;
  const ulong j = i % others, line = i / others, batch = line / rows;
  __global const STORAGE(T) *x = CONST_POINTER(STORAGE(T), a) + line * columns;
  __global const STORAGE(T) *y = CONST_POINTER(STORAGE(T), b) + (batch * others + j) * columns;
  V sum = 0;
  for (ulong start = 0; start < columns; start += RUN) {
    V part = 0;
    for (ulong c = start; c < min(start + RUN, columns); c++) {
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
  STORE(T, POINTER(STORAGE(T), out), i, sum);
}

__kernel void distances_backward(GLOBAL(STORAGE(T), grad_a), CONST_GLOBAL(STORAGE(T), grad),
                                 CONST_GLOBAL(STORAGE(T), a), CONST_GLOBAL(STORAGE(T), b),
                                 CONST_GLOBAL(STORAGE(T), out), ulong count, ulong rows, ulong others, ulong columns,
                                 float2 order) {
  const ulong i = global_id();
  const V p = REAL_OF(V, order);
  if (i >= count) return;
  const ulong column = i % columns, line = i / columns, batch = line / rows;
  __global const STORAGE(T) *y = CONST_POINTER(STORAGE(T), b) + batch * others * columns + column;
  const V x = LOAD(T, CONST_POINTER(STORAGE(T), a), i);
  V sum = 0;
  for (ulong j = 0; j < others; j++) {
    const V d = x - LOAD(T, y, j * columns), distance = LOAD(T, CONST_POINTER(STORAGE(T), out), line * others + j);
    const V g = LOAD(T, CONST_POINTER(STORAGE(T), grad), line * others + j);
    if (d == 0 || distance == 0) continue;
#if NORM == 1
    sum += g * sign(d);
#elif NORM == 2
    sum += g * d / distance;
#elif NORM == 3
    sum += fabs(d) == distance ? g * sign(d) : (V)0;
#elif NORM == 4
    sum += g * sign(d) * pow(fabs(d) / distance, p - 1);
#endif
  }
  STORE(T, POINTER(STORAGE(T), grad_a), i, sum);
}
