// SPDX-License-Identifier: MIT
// Softmax of dense rows, its logarithm and their gradients on CPUs. Defines: X_TAG, Y_TAG, G_TAG, LOG, SAFE as for
// softmax.cl.
#include "lib/lines.clh"

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
#if SAFE
    if (largest == -INFINITY) largest = 0;
#endif
    EACH_LINE(r, 0, length) {
      GET_LINE(X_TAG, x, r, length, -INFINITY, v);
      sums += exp(v - largest);
    }
    const float sum = line_sum(sums), norm = LOG ? log(sum) : sum;
    EACH_LINE(r, 0, length) {
      GET_LINE(X_TAG, x, r, length, -INFINITY, v);
      v -= largest;
      v = LOG ? v - norm : SAFE && norm == 0 ? (float16)0 : exp(v) / norm;
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
      sums += LOG ? g : g * v;
    }
    const float sum = line_sum(sums);
    EACH_LINE(r, 0, length) {
      GET_LINE(G_TAG, gy, r, length, 0, g);
      GET_LINE(Y_TAG, y, r, length, 0, v);
      g = LOG ? g - exp(v) * sum : (g - sum) * v;
      PUT_LINE(X_TAG, gx, r, length, g);
    }
  }
}
