// SPDX-License-Identifier: MIT
// Layer, group and root-mean-square norm: each row is normalized by its own statistics (lib/rows.clh).
// Defines: X_TAG, G_TAG, Y_TAG (result), S_TAG (statistics), W_TAG, REAL, HAS_WEIGHT, HAS_BIAS, CENTER; CHANNELWISE
// where a parameter belongs to each element of a row, else to `inner` neighbours of group row % groups; PACK elements are
// loaded at once.
#include "lib/rows.clh"
#include "lib/packs.clh"

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
#define EACH_ITEM(i, r) for (uint i = 0, r = lane * PACK; i < ITEMS; i += PACK, r += LANES * PACK)
#define EACH_OF_PACK(k) for (uint k = 0; k < PACK; k++)
#define EACH_ELEMENT(r) for (IDX r = lane; r < length; r += LANES)

// A lane adds up runs of its elements, then the runs: one sum of all would lose bits of the later ones.
#define RUN ((IDX)LANES * 128)
#define EACH_RUN(start) for (IDX start = lane; start < length; start += RUN)
#define EACH_OF_RUN(r, start) for (IDX r = start, end = min(length, start + RUN); r < end; r += LANES)

#if CHANNELWISE
#define CHANNEL(r) (r)
#define LOAD_PARAMETERS(data, i, values) LOAD_PACK(W_TAG, data, i, values)
#else
#define LOAD_PARAMETERS(data, i, values) ((values)[0] = LOAD(W_TAG, data, CHANNEL(i)))
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
    EACH_OF_PACK(k) v[i + k] = 0;
    if (r < length) LOAD_PACK(X_TAG, x, base + r, v + i);
    EACH_OF_PACK(k) mean += v[i + k];
  }
#else
  if (CENTER) EACH_RUN(start) {
    REAL part = 0;
    EACH_OF_RUN(r, start) part += LOAD(X_TAG, x, base + r);
    mean += part;
  }
#endif
#if CENTER
  ALL_LANES(REAL, PLUS, scratch, mean, lane, row);
  mean /= (REAL)length;
#else
  mean = 0;
#endif
#if ITEMS > 0
#pragma unroll
  EACH_ITEM(i, r) EACH_OF_PACK(k) squares += r < length ? (v[i + k] - mean) * (v[i + k] - mean) : 0;
#else
  REAL off = 0;
  EACH_RUN(start) {
    REAL part = 0, squares_part = 0;
    EACH_OF_RUN(r, start) {
      const REAL d = LOAD(X_TAG, x, base + r) - mean;
      part += d, squares_part += d * d;
    }
    off += part, squares += squares_part;
  }
#endif
  ALL_LANES(REAL, PLUS, scratch, squares, lane, row);
  REAL variance = squares / (REAL)length;
#if CENTER && ITEMS == 0  // by what the mean of a long row was off
  ALL_LANES(REAL, PLUS, scratch, off, lane, row);
  off /= (REAL)length;
  mean += off, variance -= off * off;
#endif
  const REAL rstd = 1 / sqrt(variance + REAL_OF(REAL, shape.eps));
  if (!valid) return;
  if (lane == 0) {
    if (CENTER) STORE(S_TAG, POINTER(STORAGE(S_TAG), mean_data), o, mean);
    STORE(S_TAG, POINTER(STORAGE(S_TAG), rstd_data), o, rstd);
  }
#if ITEMS > 0
#pragma unroll
  EACH_ITEM(i, r) if (r < length) {
    REAL w[PACK], b[PACK], out[PACK];
    EACH_OF_PACK(k) w[k] = 1, b[k] = 0;
    if (HAS_WEIGHT) LOAD_PARAMETERS(weight, r, w);
    if (HAS_BIAS) LOAD_PARAMETERS(bias, r, b);
    EACH_OF_PACK(k) out[k] = (v[i + k] - mean) * rstd * w[k] + b[k];
    STORE_PACK(Y_TAG, y, base + r, out);
  }
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
    REAL w[PACK];
    EACH_OF_PACK(k) g[i + k] = h[i + k] = 0, w[k] = 1;
    if (r < length) {
      LOAD_PACK(G_TAG, gy, base + r, g + i);
      LOAD_PACK(X_TAG, x, base + r, h + i);
      if (HAS_WEIGHT) LOAD_PARAMETERS(weight, r, w);
    }
    EACH_OF_PACK(k) {
      g[i + k] *= w[k];
      h[i + k] = (h[i + k] - mean) * rstd;
      sum += g[i + k];
      dot += g[i + k] * h[i + k];  // of nothing beyond the row: g is 0
    }
  }
#else
  EACH_RUN(start) {
    REAL sum_part = 0, dot_part = 0;
    EACH_OF_RUN(r, start) {
      const REAL g = LOAD(G_TAG, gy, base + r) * WEIGHT(r);
      sum_part += g;
      dot_part += g * (LOAD(X_TAG, x, base + r) - mean) * rstd;
    }
    sum += sum_part;
    dot += dot_part;
  }
#endif
  ALL_LANES(REAL, PLUS, scratch, sum, lane, row);
  ALL_LANES(REAL, PLUS, scratch, dot, lane, row);
  sum = CENTER ? sum / (REAL)length : 0;
  dot /= (REAL)length;
  if (!valid) return;
#if ITEMS > 0
#pragma unroll
  EACH_ITEM(i, r) if (r < length) {
    REAL out[PACK];
    EACH_OF_PACK(k) out[k] = rstd * (g[i + k] - sum - h[i + k] * dot);
    STORE_PACK(Y_TAG, gx, base + r, out);
  }
#else
  EACH_ELEMENT(r) {
    const REAL g = LOAD(G_TAG, gy, base + r) * WEIGHT(r), h = (LOAD(X_TAG, x, base + r) - mean) * rstd;
    STORE(Y_TAG, gx, base + r, rstd * (g - sum - h * dot));
  }
#endif
}

#if ITEMS > 0 && CHANNELWISE
// gx and sums of all gradients in one pass: each row of work-items walks over every get_num_groups(0) * ROWS-th row and
// keeps its share of the sums in registers. partial: [2 (weight, bias), get_num_groups(0) * ROWS, length].
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void norm_rows_gradients(const row_shape shape, GLOBAL(STORAGE(Y_TAG), gx_data), CONST_GLOBAL(STORAGE(G_TAG), gy_data),
               CONST_GLOBAL(STORAGE(X_TAG), x_data), CONST_GLOBAL(STORAGE(S_TAG), mean_data),
               CONST_GLOBAL(STORAGE(S_TAG), rstd_data), CONST_GLOBAL(STORAGE(W_TAG), weight_data),
               GLOBAL(REAL, partial_data)) {
  __global STORAGE(Y_TAG) *gx = POINTER(STORAGE(Y_TAG), gx_data);
  __global const STORAGE(G_TAG) *gy = CONST_POINTER(STORAGE(G_TAG), gy_data);
  __global const STORAGE(X_TAG) *x = CONST_POINTER(STORAGE(X_TAG), x_data);
  __global const STORAGE(W_TAG) *weight = CONST_POINTER(STORAGE(W_TAG), weight_data);
  __local REAL scratch[GROUP];
  const uint row = ROW_OF(get_local_id(0)), lane = LANE_OF(get_local_id(0));
  const IDX length = (IDX)shape.length, rows = (IDX)shape.rows, slots = (IDX)get_num_groups(0) * ROWS;
  const IDX slot = (IDX)get_group_id(0) * ROWS + row;
  REAL w[ITEMS], weights[ITEMS], biases[ITEMS];
#pragma unroll
  EACH_ITEM(i, r) {
    EACH_OF_PACK(k) weights[i + k] = biases[i + k] = 0, w[i + k] = 1;
    if (HAS_WEIGHT && r < length) LOAD_PARAMETERS(weight, r, w + i);
  }
  for (IDX first = (IDX)get_group_id(0) * ROWS; first < rows; first += slots) {
    const bool valid = first + row < rows;
    const IDX o = min(first + row, rows - 1), base = o * length;
    const REAL rstd = LOAD(S_TAG, CONST_POINTER(STORAGE(S_TAG), rstd_data), o);
    const REAL mean = CENTER ? LOAD(S_TAG, CONST_POINTER(STORAGE(S_TAG), mean_data), o) : 0;
    REAL g[ITEMS], h[ITEMS], sum = 0, dot = 0;
#pragma unroll
    EACH_ITEM(i, r) {
      EACH_OF_PACK(k) g[i + k] = h[i + k] = 0;
      if (valid && r < length) {
        LOAD_PACK(G_TAG, gy, base + r, g + i);
        LOAD_PACK(X_TAG, x, base + r, h + i);
        EACH_OF_PACK(k) h[i + k] = (h[i + k] - mean) * rstd;
      }
      EACH_OF_PACK(k) {
        weights[i + k] += g[i + k] * h[i + k];
        if (CENTER) biases[i + k] += g[i + k];
        g[i + k] *= w[i + k];
        sum += g[i + k];
        dot += g[i + k] * h[i + k];
      }
    }
    if (CENTER) ALL_LANES(REAL, PLUS, scratch, sum, lane, row);
    ALL_LANES(REAL, PLUS, scratch, dot, lane, row);
    sum = CENTER ? sum / (REAL)length : 0;
    dot /= (REAL)length;
#pragma unroll
    EACH_ITEM(i, r) if (valid && r < length) {
      REAL out[PACK];
      EACH_OF_PACK(k) out[k] = rstd * (g[i + k] - sum - h[i + k] * dot);
      STORE_PACK(Y_TAG, gx, base + r, out);
    }
  }
  __global REAL *weight_sums = POINTER(REAL, partial_data) + (ulong)slot * length;
  __global REAL *bias_sums = weight_sums + (ulong)slots * length;
#pragma unroll
  EACH_ITEM(i, r) EACH_OF_PACK(k) if (r < length) {
    weight_sums[r + k] = weights[i + k];
    if (CENTER) bias_sums[r + k] = biases[i + k];
  }
}
#endif
