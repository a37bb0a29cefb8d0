// SPDX-License-Identifier: MIT
// Depthwise convolution of bytes over channels last on CPUs: a work-item computes BLOCKS times 16 channels of some rows
// of the result, OUTPUTS neighbours of a row and 16 channels at once, whose sums stay in registers, as floats: those of
// so few products are exact. The host also defines
//   X, Y                                   tags of both images, u8 or i8, Y also f32
//   TAPS_*, STRIDE_*, DILATION_*           of H and W
//   BIASED                                 there are biases
#include "lib/saturate.clh"
#include "lib/types.clh"
#include "quantized/depthwise.clh"

inline float16 load(__global const STORAGE(X) *x) { return convert_float16(vload16(0, x)); }

inline void store(float16 v, __global STORAGE(Y) *y, const Shape *s) {
#if Y_IS_FLOAT
  vstore16(v, 0, y);
#else
  vstore16(SATURATE(v, s->y_zero), 0, y);
#endif
}

// Adds what a row of the kernel makes of a row of elements, of which those from number `first` on belong to the first
// sum; CHECKED: of elements that may lie outside.
#define DEFINE_ADD_ROW(name, CHECKED)                                                                                  \
  inline void name(__global const STORAGE(X) *from, int first, __local const float *weights, float16 *sum,             \
                   const Shape *s) {                                                                                   \
    float16 weight[TAPS_W];                                                                                            \
    EACH(k, TAPS_W) weight[k] = vload16(k, weights);                                                                   \
    EACH(j, COLUMNS) {                                                                                                 \
      float16 x = (float)s->x_zero;                                                                                    \
      if (!CHECKED || (first + AT(j) >= 0 && first + AT(j) < s->in_w)) x = load(from + (first + AT(j)) * s->from_w);   \
      EACH(i, OUTPUTS) {                                                                                               \
        const int reach = AT(j) - i * STRIDE_W;                                                                        \
        if (reach >= 0 && reach % DILATION_W == 0 && reach / DILATION_W < TAPS_W)                                      \
          sum[i] = fma(x, weight[reach / DILATION_W], sum[i]);                                                         \
      }                                                                                                                \
    }                                                                                                                  \
  }
DEFINE_ADD_ROW(add_row, 0)
DEFINE_ADD_ROW(add_row_at_edge, 1)

// OUTPUTS results of 16 channels, from `column` on.
inline void compute(__global const STORAGE(X) *x, int row, int column, __local const float *weight, int16 start,
                    float16 scale, __global STORAGE(Y) *y, const Shape *s) {
  const int first = column * STRIDE_W - s->pad_w;
  const bool inside = first >= 0 && first + SPAN <= s->in_w;
  float16 sum[OUTPUTS];
  EACH(i, OUTPUTS) sum[i] = 0;
  for (int k = 0; k < TAPS_H; k++, weight += TAPS_W * 16) {
    const int at = row * STRIDE_H - s->pad_h + k * DILATION_H;
    if (at < 0 || at >= s->in_h) {
      float16 outside = 0;
      EACH(j, TAPS_W) outside += vload16(j, weight);
      EACH(i, OUTPUTS) sum[i] = fma(outside, (float)s->x_zero, sum[i]);
    } else if (inside) {
      add_row(x + at * s->from_h, first, weight, sum, s);
    } else {
      add_row_at_edge(x + at * s->from_h, first, weight, sum, s);
    }
  }
  EACH(i, OUTPUTS) {
    const float16 result = convert_float16(convert_int16(sum[i]) + start) * scale;
    if (column + i < s->out_w) store(result, y + (column + i) * s->to_w, s);
  }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void quantized_depthwise(
    CONST_GLOBAL(STORAGE(X), from), CONST_GLOBAL(char, weights), CONST_GLOBAL(int, bias), CONST_GLOBAL(float, scales),
    GLOBAL(STORAGE(Y), to), const Shape s) {
  __local float weight[BLOCKS * TAPS_H * TAPS_W * 16] __attribute__((aligned(64)));
  __local int start[BLOCKS * 16] __attribute__((aligned(64)));
  const int channel = (int)get_group_id(0) * (BLOCKS * 16), blocks = min(BLOCKS, (s.channels - channel + 15) / 16);
  const int begin = get_group_id(1) * s.strip, end = min(begin + s.strip, s.images * s.out_h);
  for (int b = 0; b < blocks; b++) {
    const int c0 = min(channel + b * 16, s.channels - 16);  // the last may overlap
    for (int c = 0; c < 16; c++) {
      __global const char *w = CONST_POINTER(char, weights) + (c0 + c) * s.w_o;
      int sum = 0;
      for (int t = 0; t < TAPS_H * TAPS_W; t++) {
        const char v = w[t / TAPS_W * s.w_h + t % TAPS_W * s.w_w];
        weight[(b * TAPS_H * TAPS_W + t) * 16 + c] = v;
        sum += v;
      }
      start[b * 16 + c] = -s.x_zero * sum;
#if BIASED
      start[b * 16 + c] += CONST_POINTER(int, bias)[c0 + c];
#endif
    }
  }
  for (int line = begin; line < end; line++) {
    const int image = line / s.out_h, row = line - image * s.out_h;
    for (int column = 0; column < s.out_w; column += OUTPUTS)
      for (int b = 0; b < blocks; b++) {
        const int c0 = min(channel + b * 16, s.channels - 16);
        __global const STORAGE(X) *x = CONST_POINTER(STORAGE(X), from) + image * s.from_n + c0;
        __global STORAGE(Y) *y = POINTER(STORAGE(Y), to) + image * s.to_n + row * s.to_h + c0;
        compute(x, row, column, weight + b * TAPS_H * TAPS_W * 16, vload16(b, start),
                vload16(0, CONST_POINTER(float, scales) + c0), y, &s);
      }
  }
}
