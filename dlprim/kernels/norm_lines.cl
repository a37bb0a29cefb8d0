// SPDX-License-Identifier: MIT
// Layer, group and root-mean-square norm on CPUs. Defines: X_TAG, G_TAG, Y_TAG (result), S_TAG (statistics), W_TAG,
// HAS_WEIGHT, HAS_BIAS, CENTER as for norm_rows.cl; SPANS where a parameter belongs to `inner` neighbours, else to one
// element; SUMS: the gradients of the parameters, too.
#include "lib/lines.clh"

typedef struct {
  ulong rows, length, inner, groups;
  float2 eps;  // TwoFloats
} row_shape;

// The elements from `begin` to `end` of a row, whose parameters are `first` and those after it.
#if SPANS
#define EACH_SPAN for (ulong begin = 0, end = shape.inner; begin < length; begin = end, end += shape.inner, first++)
#define PARAMETER(data, r, v) (v) = (float16)LOAD(W_TAG, data, first)
#else
#define EACH_SPAN for (ulong begin = 0, end = length; begin < length; begin = end)
#define PARAMETER(data, r, v) GET_LINE(W_TAG, (data) + first, r, end, 0, v)
#endif
#define WIDTH (length / shape.inner)

// Runs of lines are added up, then the runs: one sum of all would lose bits of the later ones.
#define RUN 1024
#define EACH_RUN(start, stop, begin, end)                                             \
  for (ulong start = (begin), stop = min((ulong)(end), start + RUN); start < (end);   \
       start = stop, stop = min((ulong)(end), start + RUN))
#define FIRST_PARAMETER(o) ((o) % shape.groups * WIDTH)

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void norm_lines_forward(const row_shape shape, GLOBAL(STORAGE(Y_TAG), y_data), GLOBAL(STORAGE(S_TAG), mean_data),
                        GLOBAL(STORAGE(S_TAG), rstd_data), CONST_GLOBAL(STORAGE(X_TAG), x_data),
                        CONST_GLOBAL(STORAGE(W_TAG), weight_data), CONST_GLOBAL(STORAGE(W_TAG), bias_data)) {
  __global const STORAGE(W_TAG) *weight = CONST_POINTER(STORAGE(W_TAG), weight_data);
  __global const STORAGE(W_TAG) *bias = CONST_POINTER(STORAGE(W_TAG), bias_data);
  const ulong length = shape.length;
  EACH_OWN_ROW(o, shape.rows) {
    __global STORAGE(Y_TAG) *y = POINTER(STORAGE(Y_TAG), y_data) + o * length;
    __global const STORAGE(X_TAG) *x = CONST_POINTER(STORAGE(X_TAG), x_data) + o * length;
    float16 v, sums = 0, squares = 0;
    float mean = 0, variance;
#if CENTER
    EACH_RUN(start, stop, 0, length) {
      float16 part = 0;
      EACH_LINE(r, start, stop) {
        GET_LINE(X_TAG, x, r, stop, 0, v);
        part += v;
      }
      sums += part;
    }
    mean = line_sum(sums) / (float)length;
    sums = 0;
#endif
    EACH_RUN(start, stop, 0, length) {
      float16 part = 0, squares_part = 0;
      EACH_LINE(r, start, stop) {
        GET_LINE(X_TAG, x, r, stop, mean, v);
        v -= mean;
        part += v, squares_part += v * v;
      }
      sums += part, squares += squares_part;
    }
    variance = line_sum(squares) / (float)length;
#if CENTER  // by what the mean was off
    const float off = line_sum(sums) / (float)length;
    mean += off, variance -= off * off;
    STORE(S_TAG, POINTER(STORAGE(S_TAG), mean_data), o, mean);
#endif
    const float rstd = 1 / sqrt(variance + REAL_OF(float, shape.eps));
    STORE(S_TAG, POINTER(STORAGE(S_TAG), rstd_data), o, rstd);
    ulong first = FIRST_PARAMETER(o);
    EACH_SPAN EACH_LINE(r, begin, end) {
      float16 w = 1, b = 0;
      GET_LINE(X_TAG, x, r, end, 0, v);
      if (HAS_WEIGHT) PARAMETER(weight, r, w);
      if (HAS_BIAS) PARAMETER(bias, r, b);
      v = (v - mean) * rstd * w + b;
      PUT_LINE(Y_TAG, y, r, end, v);
    }
  }
}

// Adds the 16 elements of `more` to those of p, or all of them to the one of p.
#if SPANS
#define ADD(p, r, more) (p)[first] += line_sum(more)
#else
#define ADD(p, r, more)                            \
  do {                                             \
    float16 sum_;                                  \
    GET_LINE(f32, (p) + first, r, end, 0, sum_);   \
    sum_ += (more);                                \
    PUT_LINE(f32, (p) + first, r, end, sum_);      \
  } while (0)
#endif

// partial: [2 (weight, bias; weight alone without CENTER), work-items, parameters].
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void norm_lines_backward(const row_shape shape, GLOBAL(STORAGE(Y_TAG), gx_data), CONST_GLOBAL(STORAGE(G_TAG), gy_data),
                         CONST_GLOBAL(STORAGE(X_TAG), x_data), CONST_GLOBAL(STORAGE(S_TAG), mean_data),
                         CONST_GLOBAL(STORAGE(S_TAG), rstd_data), CONST_GLOBAL(STORAGE(W_TAG), weight_data),
                         GLOBAL(float, partial_data)) {
  __global const STORAGE(W_TAG) *weight = CONST_POINTER(STORAGE(W_TAG), weight_data);
  const ulong length = shape.length;
#if SUMS
  const ulong parameters = shape.groups * WIDTH;
  __global float *dots_of = POINTER(float, partial_data) + get_group_id(0) * parameters;
  __global float *sums_of = dots_of + get_num_groups(0) * parameters;
  for (ulong i = 0; i < parameters; i++) {
    dots_of[i] = 0;
    if (CENTER) sums_of[i] = 0;
  }
#endif
  EACH_OWN_ROW(o, shape.rows) {
    __global STORAGE(Y_TAG) *gx = POINTER(STORAGE(Y_TAG), gx_data) + o * length;
    __global const STORAGE(G_TAG) *gy = CONST_POINTER(STORAGE(G_TAG), gy_data) + o * length;
    __global const STORAGE(X_TAG) *x = CONST_POINTER(STORAGE(X_TAG), x_data) + o * length;
    const float rstd = LOAD(S_TAG, CONST_POINTER(STORAGE(S_TAG), rstd_data), o);
    const float mean = CENTER ? LOAD(S_TAG, CONST_POINTER(STORAGE(S_TAG), mean_data), o) : 0;
    float16 g, h, w = 1, sums = 0, dots = 0;
    ulong first = FIRST_PARAMETER(o);
    EACH_SPAN {
#if SPANS && SUMS
      float16 span_dots = 0, span_sums = 0;
#endif
      EACH_RUN(start, stop, begin, end) {
        float16 sums_part = 0, dots_part = 0;
        EACH_LINE(r, start, stop) {
          GET_LINE(G_TAG, gy, r, end, 0, g);
          GET_LINE(X_TAG, x, r, end, mean, h);
          h = (h - mean) * rstd;
#if SPANS && SUMS
          span_dots += g * h, span_sums += g;
#elif SUMS
          ADD(dots_of, r, g * h);
          if (CENTER) ADD(sums_of, r, g);
#endif
          if (HAS_WEIGHT) PARAMETER(weight, r, w);
          g *= w;
          sums_part += g, dots_part += g * h;
        }
        sums += sums_part, dots += dots_part;
      }
#if SPANS && SUMS
      ADD(dots_of, 0, span_dots);
      if (CENTER) ADD(sums_of, 0, span_sums);
#endif
    }
    const float sum = CENTER ? line_sum(sums) / (float)length : 0, dot = line_sum(dots) / (float)length;
    first = FIRST_PARAMETER(o);
    EACH_SPAN EACH_LINE(r, begin, end) {
      GET_LINE(G_TAG, gy, r, end, 0, g);
      GET_LINE(X_TAG, x, r, end, mean, h);
      h = (h - mean) * rstd;
      if (HAS_WEIGHT) PARAMETER(weight, r, w);
      g = rstd * (g * w - sum - h * dot);
      PUT_LINE(Y_TAG, gx, r, end, g);
    }
  }
}
