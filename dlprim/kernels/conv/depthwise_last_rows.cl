// SPDX-License-Identifier: MIT
// Depthwise convolution over channels last on CPUs: a work-item computes BLOCKS times 16 channels of some rows of the
// result, OUTPUTS neighbours of a row and 16 channels at once, whose sums stay in registers. T is a vector of 16 floats; the
// host also defines
//   TYPE, TAPS_*, STRIDE_*, DILATION_*, FLIP, BIAS, ACTIVATE(x)    as in conv/depthwise_last.cl
#include "lib/types.clh"
#include "lib/activations.clh"
#include "lib/vectors.clh"

// That of conv/depthwise_last.cl; `strip`: rows of the result, of all images, a work-item computes.
typedef struct {
  int images, channels;
  int from_n, from_h, from_w, to_n, to_h, to_w;
  int in_h, in_w, out_h, out_w, pad_h, pad_w;
  int w_o, w_h, w_w, bias_stride, strip;
} Shape;

#define ELEMENT STORAGE(TYPE)
#define READ(x, s) LOAD16(TYPE, x)
#include "lib/depthwise_rows.clh"

// OUTPUTS sums of 16 channels, from `column` on.
inline void compute(__global const STORAGE(TYPE) *x, int row, int column, __local const float *weight, T start,
                    __global STORAGE(TYPE) *y, const Shape *s) {
  T sum[OUTPUTS];
#pragma unroll
  for (int i = 0; i < OUTPUTS; i++) sum[i] = start;
  add_rows(x, row, column, weight, sum, s);
#pragma unroll
  for (int i = 0; i < OUTPUTS; i++)
    if (column + i < s->out_w) {
      const T result = ACTIVATE(sum[i]);
      vstore16(ENCODE16(TYPE, result), 0, y + (column + i) * s->to_w);
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void conv_depthwise_last_rows(
    CONST_GLOBAL(STORAGE(TYPE), from), CONST_GLOBAL(STORAGE(TYPE), weights), CONST_GLOBAL(STORAGE(TYPE), bias),
    GLOBAL(STORAGE(TYPE), to), const Shape s) {
  __local float weight[BLOCKS * TAPS_H * TAPS_W * 16] __attribute__((aligned(64)));
  __local float addend[BLOCKS * 16] __attribute__((aligned(64)));
  const int channel = (int)get_group_id(0) * (BLOCKS * 16), blocks = min(BLOCKS, (s.channels - channel + 15) / 16);
  const int begin = get_group_id(1) * s.strip, end = min(begin + s.strip, s.images * s.out_h);
  for (int b = 0; b < blocks; b++) {
    const int c0 = min(channel + b * 16, s.channels - 16);  // the last may overlap
    __global const STORAGE(TYPE) *w = CONST_POINTER(STORAGE(TYPE), weights) + c0 * s.w_o;
    for (int t = 0; t < TAPS_H * TAPS_W; t++) {
      const int tap = FLIP ? TAPS_H * TAPS_W - 1 - t : t;
      for (int c = 0; c < 16; c++)
        weight[(b * TAPS_H * TAPS_W + t) * 16 + c] =
            LOAD(TYPE, w, c * s.w_o + tap / TAPS_W * s.w_h + tap % TAPS_W * s.w_w);
    }
    for (int c = 0; c < 16; c++)
      addend[b * 16 + c] = BIAS ? LOAD(TYPE, CONST_POINTER(STORAGE(TYPE), bias), (c0 + c) * s.bias_stride) : 0;
  }

  for (int line = begin; line < end; line++) {
    const int image = line / s.out_h, row = line - image * s.out_h;
    __global const STORAGE(TYPE) *x = CONST_POINTER(STORAGE(TYPE), from) + image * s.from_n;
    __global STORAGE(TYPE) *y = POINTER(STORAGE(TYPE), to) + image * s.to_n + row * s.to_h;
    for (int column = 0; column < s.out_w; column += OUTPUTS)
      for (int b = 0; b < blocks; b++) {  // neighbours in memory follow one another
        const int c0 = min(channel + b * 16, s.channels - 16);
        compute(x + c0, row, column, weight + b * TAPS_H * TAPS_W * 16, vload16(b, addend), y + c0, &s);
      }
  }
}
