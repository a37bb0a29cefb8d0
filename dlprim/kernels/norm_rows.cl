// SPDX-License-Identifier: MIT
// Layer, group and root-mean-square norm: each row is normalized by its own statistics (lib/rows.clh).
// Defines: X_TAG, G_TAG, Y_TAG (result), S_TAG (statistics), W_TAG, REAL, HAS_WEIGHT, HAS_BIAS, CENTER; CHANNELWISE
// where a parameter belongs to each element of a row, else to `inner` neighbours of group row % groups.
#include "lib/rows.clh"

typedef struct {
  ulong rows, length, inner, groups;
  float2 eps;  // TwoFloats
} row_shape;

#define BEGIN_ROWS                                                                          \
  __local REAL scratch[GROUP];                                                              \
  const uint row = ROW_OF(get_local_id(0)), lane = LANE_OF(get_local_id(0));                \
  const IDX length = (IDX)shape.length, rows = (IDX)shape.rows;                             \
  const IDX wanted = (IDX)get_group_id(0) * ROWS + row, o = min(wanted, rows - 1);          \
  const bool valid = wanted < rows;                                                         \
  const IDX base = o * length;
#define EACH_ITEM(i, r) for (uint i = 0, r = lane; i < ITEMS; i++, r += LANES)
#define EACH_ELEMENT(r) for (IDX r = lane; r < length; r += LANES)

#if CHANNELWISE
#define CHANNEL(r) (r)
#else
#define CHANNEL(r) (o % (IDX)shape.groups * (length / (IDX)shape.inner) + (r) / (IDX)shape.inner)
#endif
#define WEIGHT(r) (HAS_WEIGHT ? LOAD(W_TAG, weight, CHANNEL(r)) : 1)
#define BIAS(r) (HAS_BIAS ? LOAD(W_TAG, bias, CHANNEL(r)) : 0)

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void norm_rows_forward(const row_shape shape, GLOBAL(STORAGE(Y_TAG), y_data), GLOBAL(STORAGE(S_TAG), mean_data),
             GLOBAL(STORAGE(S_TAG), rstd_data), CONST_GLOBAL(STORAGE(X_TAG), x_data),
             CONST_GLOBAL(STORAGE(W_TAG), weight_data), CONST_GLOBAL(STORAGE(W_TAG), bias_data)) {
  __global STORAGE(Y_TAG) *y = POINTER(STORAGE(Y_TAG), y_data);
  __global const STORAGE(X_TAG) *x = CONST_POINTER(STORAGE(X_TAG), x_data);
  __global const STORAGE(W_TAG) *weight = CONST_POINTER(STORAGE(W_TAG), weight_data);
  __global const STORAGE(W_TAG) *bias = CONST_POINTER(STORAGE(W_TAG), bias_data);
  BEGIN_ROWS
  REAL mean = 0, squares = 0;
#if ITEMS > 0
  REAL v[ITEMS];
#pragma unroll
  EACH_ITEM(i, r) {
    v[i] = r < length ? LOAD(X_TAG, x, base + r) : 0;
    mean += v[i];
  }
#define ELEMENT(i, r) v[i]
#else
  if (CENTER) EACH_ELEMENT(r) mean += LOAD(X_TAG, x, base + r);
#endif
#if CENTER
  ALL_LANES(REAL, PLUS, scratch, mean, lane, row);
  mean /= (REAL)length;
#else
  mean = 0;
#endif
#if ITEMS > 0
#pragma unroll
  EACH_ITEM(i, r) squares += r < length ? (v[i] - mean) * (v[i] - mean) : 0;
#else
  EACH_ELEMENT(r) {
    const REAL d = LOAD(X_TAG, x, base + r) - mean;
    squares += d * d;
  }
#endif
  ALL_LANES(REAL, PLUS, scratch, squares, lane, row);
  const REAL rstd = 1 / sqrt(squares / (REAL)length + REAL_OF(REAL, shape.eps));
  if (!valid) return;
  if (lane == 0) {
    if (CENTER) STORE(S_TAG, POINTER(STORAGE(S_TAG), mean_data), o, mean);
    STORE(S_TAG, POINTER(STORAGE(S_TAG), rstd_data), o, rstd);
  }
#if ITEMS > 0
#pragma unroll
  EACH_ITEM(i, r) if (r < length) STORE(Y_TAG, y, base + r, (v[i] - mean) * rstd * WEIGHT(r) + BIAS(r));
#else
  EACH_ELEMENT(r) STORE(Y_TAG, y, base + r, (LOAD(X_TAG, x, base + r) - mean) * rstd * WEIGHT(r) + BIAS(r));
#endif
}

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void norm_rows_backward(const row_shape shape, GLOBAL(STORAGE(Y_TAG), gx_data), CONST_GLOBAL(STORAGE(G_TAG), gy_data),
              CONST_GLOBAL(STORAGE(X_TAG), x_data), CONST_GLOBAL(STORAGE(S_TAG), mean_data),
              CONST_GLOBAL(STORAGE(S_TAG), rstd_data), CONST_GLOBAL(STORAGE(W_TAG), weight_data)) {
  __global STORAGE(Y_TAG) *gx = POINTER(STORAGE(Y_TAG), gx_data);
  __global const STORAGE(G_TAG) *gy = CONST_POINTER(STORAGE(G_TAG), gy_data);
  __global const STORAGE(X_TAG) *x = CONST_POINTER(STORAGE(X_TAG), x_data);
  __global const STORAGE(W_TAG) *weight = CONST_POINTER(STORAGE(W_TAG), weight_data);
  BEGIN_ROWS
  const REAL rstd = LOAD(S_TAG, CONST_POINTER(STORAGE(S_TAG), rstd_data), o);
  const REAL mean = CENTER ? LOAD(S_TAG, CONST_POINTER(STORAGE(S_TAG), mean_data), o) : 0;
  REAL sum = 0, dot = 0;
#if ITEMS > 0
  REAL g[ITEMS], h[ITEMS];
#pragma unroll
  EACH_ITEM(i, r) {
    g[i] = r < length ? LOAD(G_TAG, gy, base + r) * WEIGHT(r) : 0;
    h[i] = r < length ? (LOAD(X_TAG, x, base + r) - mean) * rstd : 0;
    sum += g[i];
    dot += g[i] * h[i];
  }
#else
  EACH_ELEMENT(r) {
    const REAL g = LOAD(G_TAG, gy, base + r) * WEIGHT(r);
    sum += g;
    dot += g * (LOAD(X_TAG, x, base + r) - mean) * rstd;
  }
#endif
  ALL_LANES(REAL, PLUS, scratch, sum, lane, row);
  ALL_LANES(REAL, PLUS, scratch, dot, lane, row);
  sum = CENTER ? sum / (REAL)length : 0;
  dot /= (REAL)length;
  if (!valid) return;
#if ITEMS > 0
#pragma unroll
  EACH_ITEM(i, r) if (r < length) STORE(Y_TAG, gx, base + r, rstd * (g[i] - sum - h[i] * dot));
#else
  EACH_ELEMENT(r) {
    const REAL g = LOAD(G_TAG, gy, base + r) * WEIGHT(r), h = (LOAD(X_TAG, x, base + r) - mean) * rstd;
    STORE(Y_TAG, gx, base + r, rstd * (g - sum - h * dot));
  }
#endif
}
