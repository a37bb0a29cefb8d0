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

#define ELEMENT STORAGE(X)
#define READ(x, s) (convert_float16(vload16(0, x)) - (float)(s)->x_zero)
#include "lib/depthwise_rows.clh"

inline void store(float16 v, __global STORAGE(Y) *y, const Shape *s) {
#if Y_IS_FLOAT
  vstore16(v, 0, y);
#else
  vstore16(SATURATE(v, s->y_zero), 0, y);
#endif
}

// OUTPUTS results of 16 channels, from `column` on.
inline void compute(__global const STORAGE(X) *x, int row, int column, __local const float *weight, int16 start,
                    float16 scale, __global STORAGE(Y) *y, const Shape *s) {
  float16 sum[OUTPUTS];
  EACH(i, OUTPUTS) sum[i] = 0;
  add_rows(x, row, column, weight, sum, s);
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
      for (int t = 0; t < TAPS_H * TAPS_W; t++)
        weight[(b * TAPS_H * TAPS_W + t) * 16 + c] = w[t / TAPS_W * s.w_h + t % TAPS_W * s.w_w];
#if BIASED
      start[b * 16 + c] = CONST_POINTER(int, bias)[c0 + c];
#else
      start[b * 16 + c] = 0;
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
