// SPDX-License-Identifier: MIT
// Softmax of dense rows or of columns, its logarithm and their gradients on CPUs. Defines: X_TAG, Y_TAG, G_TAG, LOG,
// SAFE as for softmax.cl; KEEPS where y is wide enough to hold exponentials until their sum is known.
#include "lib/lines.clh"

// Numbers below the normal ones, as masks leave, take CPUs 20 times as long. Beside the rest of a row, which adds up to
// 1, such a probability changes no gradient.
#define NORMAL(v) (fabs(v) < FLT_MIN ? (float16)0 : (v))

#define HELD 128  // vectors of exponentials of a row that y is too narrow for

typedef struct {
  ulong rows, length, inner;
} softmax_shape;

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void softmax_lines_forward(const softmax_shape shape, GLOBAL(STORAGE(Y_TAG), y_data),
                           CONST_GLOBAL(STORAGE(X_TAG), x_data)) {
  const ulong length = shape.length;
  EACH_OWN_ROW(o, shape.rows) {
    __global STORAGE(Y_TAG) *y = POINTER(STORAGE(Y_TAG), y_data) + o * length;
    __global const STORAGE(X_TAG) *x = CONST_POINTER(STORAGE(X_TAG), x_data) + o * length;
    float16 v, high = -INFINITY, sums = 0;
    EACH_LINE(r, 0, length) {
      GET_LINE(X_TAG, x, r, length, -INFINITY, v);
      high = fmax(high, v);
    }
    float largest = line_max(high);  // of NaN nothing is left, but its exponential is NaN
    float16 held[HELD];
    const bool holds = !KEEPS && !LOG && length <= HELD * 16;
#if SAFE
    if (largest == -INFINITY) largest = 0;
#endif
    EACH_LINE(r, 0, length) {
      GET_LINE(X_TAG, x, r, length, -INFINITY, v);
      v = exp(v - largest);
      sums += v;
      if (KEEPS) PUT_LINE(Y_TAG, y, r, length, v);
      if (holds) held[r / 16] = v;
    }
    const float sum = line_sum(sums), norm = LOG ? log(sum) : sum;
    EACH_LINE(r, 0, length) {
      if (KEEPS) {
        GET_LINE(Y_TAG, y, r, length, 0, v);
      } else if (holds) {
        v = held[r / 16];
      } else {
        GET_LINE(X_TAG, x, r, length, -INFINITY, v);
        v = LOG ? v - largest : exp(v - largest);
      }
      v = LOG ? v - norm : SAFE && norm == 0 ? (float16)0 : v / norm;
      PUT_LINE(Y_TAG, y, r, length, v);
    }
  }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void softmax_lines_backward(const softmax_shape shape, GLOBAL(STORAGE(X_TAG), gx_data),
                            CONST_GLOBAL(STORAGE(G_TAG), gy_data), CONST_GLOBAL(STORAGE(Y_TAG), y_data)) {
  const ulong length = shape.length;
  EACH_OWN_ROW(o, shape.rows) {
    __global STORAGE(X_TAG) *gx = POINTER(STORAGE(X_TAG), gx_data) + o * length;
    __global const STORAGE(G_TAG) *gy = CONST_POINTER(STORAGE(G_TAG), gy_data) + o * length;
    __global const STORAGE(Y_TAG) *y = CONST_POINTER(STORAGE(Y_TAG), y_data) + o * length;
    float16 g, v, sums = 0;
    EACH_LINE(r, 0, length) {
      GET_LINE(G_TAG, gy, r, length, 0, g);
      if (!LOG) GET_LINE(Y_TAG, y, r, length, 0, v);
      sums += LOG ? g : g * NORMAL(v);
    }
    const float sum = line_sum(sums);
    EACH_LINE(r, 0, length) {
      GET_LINE(G_TAG, gy, r, length, 0, g);
      GET_LINE(Y_TAG, y, r, length, 0, v);
      g = LOG ? g - exp(v) * sum : (g - sum) * NORMAL(v);
      PUT_LINE(X_TAG, gx, r, length, g);
    }
  }
}

// Columns lie next to each other: a work-item takes 4 vectors of them at once, fewer at the end of a row of them.
#define WIDTH 4
#define EACH_OF(W, k) _Pragma("unroll") for (uint k = 0; k < (W); k++)
#define EACH_ROW(r) for (ulong r = 0; r < length; r++)
#define GET(tag, p, k, beyond) GET_LINE(tag, (p) + r * inner, column + (k) * 16, inner, beyond, v)
#define PUT(tag, p, k) PUT_LINE(tag, (p) + r * inner, column + (k) * 16, inner, v)

#define FORWARD(W)                                                                \
  do {                                                                            \
    float16 v, high[W], sums[W];                                                  \
    EACH_OF(W, k) high[k] = -INFINITY, sums[k] = 0;                               \
    EACH_ROW(r) EACH_OF(W, k) {                                                   \
      GET(X_TAG, x, k, 0);                                                        \
      high[k] = fmax(high[k], v);                                                 \
    }                                                                             \
    if (SAFE) EACH_OF(W, k) high[k] = high[k] == -INFINITY ? (float16)0 : high[k]; \
    EACH_ROW(r) EACH_OF(W, k) {                                                   \
      GET(X_TAG, x, k, 0);                                                        \
      v = exp(v - high[k]);                                                       \
      sums[k] += v;                                                               \
      if (KEEPS) PUT(Y_TAG, y, k);                                                \
    }                                                                             \
    EACH_OF(W, k) sums[k] = LOG ? log(sums[k]) : sums[k];                         \
    EACH_ROW(r) EACH_OF(W, k) {                                                   \
      if (KEEPS) {                                                                \
        GET(Y_TAG, y, k, 0);                                                      \
      } else {                                                                    \
        GET(X_TAG, x, k, 0);                                                      \
        v = LOG ? v - high[k] : exp(v - high[k]);                                 \
      }                                                                           \
      v = LOG ? v - sums[k] : v / sums[k];                                        \
      if (SAFE) v = sums[k] == 0 ? (float16)0 : v;                                \
      PUT(Y_TAG, y, k);                                                           \
    }                                                                             \
  } while (0)

#define BACKWARD(W)                                                               \
  do {                                                                            \
    float16 v, g, sums[W];                                                        \
    EACH_OF(W, k) sums[k] = 0;                                                    \
    EACH_ROW(r) EACH_OF(W, k) {                                                   \
      GET(G_TAG, gy, k, 0);                                                       \
      g = v;                                                                      \
      if (!LOG) GET(Y_TAG, y, k, 0);                                              \
      sums[k] += LOG ? g : g * NORMAL(v);                                         \
    }                                                                             \
    EACH_ROW(r) EACH_OF(W, k) {                                                   \
      GET(G_TAG, gy, k, 0);                                                       \
      g = v;                                                                      \
      GET(Y_TAG, y, k, 0);                                                        \
      v = LOG ? g - exp(v) * sums[k] : (g - sums[k]) * NORMAL(v);                 \
      PUT(X_TAG, gx, k);                                                          \
    }                                                                             \
  } while (0)

// Tile `tile` of a row of columns begins at `column`, behind `start` elements.
#define BEGIN_TILE                                                                 \
  const ulong length = shape.length, inner = shape.inner;                          \
  const ulong tiles = (inner + WIDTH * 16 - 1) / (WIDTH * 16);                     \
  EACH_OWN_ROW(tile, shape.rows / inner * tiles) {                                 \
    const ulong start = tile / tiles * inner * length;                             \
    ulong column = tile % tiles * (WIDTH * 16);                                    \
    const ulong end = min(column + WIDTH * 16, inner);

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void softmax_columns_forward(const softmax_shape shape, GLOBAL(STORAGE(Y_TAG), y_data),
                             CONST_GLOBAL(STORAGE(X_TAG), x_data)) {
  BEGIN_TILE
    __global STORAGE(Y_TAG) *y = POINTER(STORAGE(Y_TAG), y_data) + start;
    __global const STORAGE(X_TAG) *x = CONST_POINTER(STORAGE(X_TAG), x_data) + start;
    if (column + WIDTH * 16 <= end) FORWARD(WIDTH);
    else
      for (; column < end; column += 16) FORWARD(1);
  }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void softmax_columns_backward(const softmax_shape shape, GLOBAL(STORAGE(X_TAG), gx_data),
                              CONST_GLOBAL(STORAGE(G_TAG), gy_data), CONST_GLOBAL(STORAGE(Y_TAG), y_data)) {
  BEGIN_TILE
    __global STORAGE(X_TAG) *gx = POINTER(STORAGE(X_TAG), gx_data) + start;
    __global const STORAGE(G_TAG) *gy = CONST_POINTER(STORAGE(G_TAG), gy_data) + start;
    __global const STORAGE(Y_TAG) *y = CONST_POINTER(STORAGE(Y_TAG), y_data) + start;
    if (column + WIDTH * 16 <= end) BACKWARD(WIDTH);
    else
      for (; column < end; column += 16) BACKWARD(1);
  }
}
