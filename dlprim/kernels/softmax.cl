// SPDX-License-Identifier: MIT
// Softmax, its logarithm, their gradients. Defines: X_TAG, Y_TAG, G_TAG (tags), REAL, LOG, LANES, ROWS, ITEMS, COLUMNS,
// SAFE (rows of -infinity alone become zeros).
#include "lib/rows.clh"

typedef struct {
  ulong rows, length, inner;
} softmax_shape;

#define BEGIN_ROWS                                                                             \
  __local REAL scratch[GROUP];                                                                 \
  const uint row = ROW_OF(get_local_id(0)), lane = LANE_OF(get_local_id(0));                   \
  const IDX rows = (IDX)shape.rows, length = (IDX)shape.length;                                \
  const IDX inner = COLUMNS ? (IDX)shape.inner : 1;                                            \
  const IDX wanted = (IDX)get_group_id(0) * ROWS + row, o = min(wanted, rows - 1);             \
  const bool valid = wanted < rows;                                                            \
  const IDX base = COLUMNS ? o / inner * inner * length + o % inner : o * length;

#define EACH_ITEM(i, r) for (uint i = 0, r = lane; i < ITEMS; i++, r += LANES)
#define EACH_ELEMENT(r) for (IDX r = lane; r < length; r += LANES)

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void forward(const softmax_shape shape, GLOBAL(STORAGE(Y_TAG), y_data), CONST_GLOBAL(STORAGE(X_TAG), x_data)) {
  __global STORAGE(Y_TAG) *y = POINTER(STORAGE(Y_TAG), y_data);
  __global const STORAGE(X_TAG) *x = CONST_POINTER(STORAGE(X_TAG), x_data);
  BEGIN_ROWS
  REAL largest = -INFINITY, sum = 0;
#if ITEMS > 0
  REAL v[ITEMS];
#pragma unroll
  EACH_ITEM(i, r) {
    v[i] = r < length ? LOAD(X_TAG, x, base + r * inner) : -(REAL)INFINITY;
    largest = v[i] > largest || v[i] != v[i] ? v[i] : largest;
  }
  ALL_LANES(REAL, LARGER, scratch, largest, lane, row);
#if SAFE
  if (largest == -INFINITY) largest = 0;  // so that the sum is 0, or NaN with a NaN
#endif
#pragma unroll
  EACH_ITEM(i, r) {
    const REAL e = exp(v[i] - largest);
    sum += r < length ? e : 0;
#if LOG
    v[i] -= largest;
#else
    v[i] = e;
#endif
  }
  ALL_LANES(REAL, PLUS, scratch, sum, lane, row);
  if (!valid) return;
  const REAL norm = LOG ? log(sum) : sum;
#pragma unroll
  EACH_ITEM(i, r)
    if (r < length) STORE(Y_TAG, y, base + r * inner, LOG ? v[i] - norm : SAFE && norm == 0 ? 0 : v[i] / norm);
#else
  EACH_ELEMENT(r) {
    const REAL v = LOAD(X_TAG, x, base + r * inner);
    const REAL e = v == largest ? 1 : exp(-fabs(v - largest));
    sum = v > largest ? sum * e + 1 : sum + e;
    largest = fmax(largest, v);
  }
  const REAL own = largest;
  ALL_LANES(REAL, LARGER, scratch, largest, lane, row);
  sum *= own == largest ? 1 : exp(own - largest);
  ALL_LANES(REAL, PLUS, scratch, sum, lane, row);
  if (!valid) return;
  const REAL norm = LOG ? log(sum) : sum;
  const bool empty = SAFE && largest == -INFINITY && sum == sum;
  EACH_ELEMENT(r) {
    const REAL v = LOAD(X_TAG, x, base + r * inner) - largest;
    STORE(Y_TAG, y, base + r * inner, LOG ? v - norm : empty ? 0 : exp(v) / norm);
  }
#endif
}

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void backward(const softmax_shape shape, GLOBAL(STORAGE(X_TAG), gx_data), CONST_GLOBAL(STORAGE(G_TAG), gy_data),
              CONST_GLOBAL(STORAGE(Y_TAG), y_data)) {
  __global STORAGE(X_TAG) *gx = POINTER(STORAGE(X_TAG), gx_data);
  __global const STORAGE(G_TAG) *gy = CONST_POINTER(STORAGE(G_TAG), gy_data);
  __global const STORAGE(Y_TAG) *y = CONST_POINTER(STORAGE(Y_TAG), y_data);
  BEGIN_ROWS
  REAL sum = 0;
#if ITEMS > 0
  REAL g[ITEMS], v[ITEMS];
#pragma unroll
  EACH_ITEM(i, r) {
    g[i] = r < length ? LOAD(G_TAG, gy, base + r * inner) : 0;
    v[i] = r < length ? LOAD(Y_TAG, y, base + r * inner) : 0;
    sum += LOG ? g[i] : g[i] * v[i];
  }
#else
  EACH_ELEMENT(r) {
    const REAL g = LOAD(G_TAG, gy, base + r * inner);
    sum += LOG ? g : g * LOAD(Y_TAG, y, base + r * inner);
  }
#endif
  ALL_LANES(REAL, PLUS, scratch, sum, lane, row);
  if (!valid) return;
#if ITEMS > 0
#pragma unroll
  EACH_ITEM(i, r)
    if (r < length) STORE(X_TAG, gx, base + r * inner, LOG ? g[i] - exp(v[i]) * sum : (g[i] - sum) * v[i]);
#else
  EACH_ELEMENT(r) {
    const REAL g = LOAD(G_TAG, gy, base + r * inner), v = LOAD(Y_TAG, y, base + r * inner);
    STORE(X_TAG, gx, base + r * inner, LOG ? g - exp(v) * sum : (g - sum) * v);
  }
#endif
}
