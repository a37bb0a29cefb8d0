// SPDX-License-Identifier: MIT
// Depthwise convolution of images of floats on CPUs: a work-item computes a strip of rows of one channel, in vectors
// along the rows, from a padded copy of what it reads. Defines of conv/depthwise.cl, and
//   V   elements of a vector, 8 or 16; T is that vector of floats    CAPACITY   floats of the copy, V more lie behind
//   UP_H, UP_W   distance at which what is read is laid out among zeros: the stride, for the gradient of the data
// STRIDE_W is 1 or 2, there is one plane, and rows are contiguous on both sides.
#include "lib/types.clh"
#include "lib/depthwise.clh"
#include "lib/activations.clh"
#include "lib/vectors.clh"

#define LOAD_VECTOR CONCAT(vload, V)
#define STORE_VECTOR CONCAT(vstore, V)
#define DECODED CONCAT(LOAD, V)
#define ENCODED CONCAT(ENCODE, V)

// Of a row of the copy with a stride of 2, elements with even numbers come first, `pitch` / 2, then those with odd ones.
#define TAP(row, pitch, column, kw)                                                       \
  LOAD_VECTOR(0, (row) + (kw) * DILATION_W % STRIDE_W * ((pitch) / STRIDE_W) + (column) + \
                     (kw) * DILATION_W / STRIDE_W)

// May write up to V - 1 more.
inline void zeros(__local float *to, int count) {
  for (int i = 0; i < count; i += V) STORE_VECTOR((T)(0), 0, to + i);
}

// A row of `pitch` elements: padding, the image's row, zeros. May write up to V - 1 more; reads stay below `end`.
inline void copy_row(__global const STORAGE(TYPE) *from, INDEX end, bool inside, int padding, int width, int pitch,
                     __local float *to) {
  if (!inside) return zeros(to, pitch);
#if STRIDE_W == 2
  const int half_pitch = pitch / 2;
  for (int odd = 0; odd < 2; odd++, to += half_pitch) {
    const int lead = min((padding - odd + 1) / 2, half_pitch), first = 2 * lead + odd - padding;
    const int count = max(min((width - first + 1) / 2, half_pitch - lead), 0);
    zeros(to, lead);
    int i = 0;  // what is read beyond the row is written over
    for (; i < count && first + 2 * i + 2 * V <= end; i += V)
      STORE_VECTOR(((T)(DECODED(TYPE, from + first + 2 * i).even, DECODED(TYPE, from + first + 2 * i + V).even)), 0,
                   to + lead + i);
    for (; i < count; i++) to[lead + i] = LOAD(TYPE, from, first + 2 * i);
    zeros(to + lead + count, half_pitch - lead - count);
  }
#elif UP_W == 1
  const int count = min(width, pitch - padding);
  zeros(to, padding);
  int i = 0;
  for (; i + V <= count; i += V) STORE_VECTOR(DECODED(TYPE, from + i), 0, to + padding + i);
  if (i < count && i + V <= end) {
    STORE_VECTOR(DECODED(TYPE, from + i), 0, to + padding + i);
    i = count;
  }
  for (; i < count; i++) to[padding + i] = LOAD(TYPE, from, i);
  zeros(to + padding + count, pitch - padding - count);
#else
  const int count = min(width, (pitch - padding + UP_W - 1) / UP_W);
  zeros(to, pitch);
  for (int i = 0; i < count; i++) to[padding + i * UP_W] = LOAD(TYPE, from, i);
#endif
}

// Copies what `rows` rows of the result from row h0 on read of a plane.
inline void copy_rows(__global const STORAGE(TYPE) *from, const Shape *s, INDEX h0, int rows, int pitch,
                      __local float *lines) {
  for (int r = 0; r < (rows - 1) * STRIDE_H + (TAPS_H - 1) * DILATION_H + 1; r++) {
    const INDEX q = h0 * STRIDE_H - s->pad_h + r, h = q / UP_H;
    copy_row(from + h * s->from_h, (s->in_h - 1 - h) * s->from_h + s->in_w,
             q >= 0 && h * UP_H == q && h < s->in_h, (int)s->pad_w, (int)s->in_w, pitch, lines + r * pitch);
  }
}

inline int pitch_of(const Shape *s) {
  return (((int)s->out_w + V - 1) / V * V + ((TAPS_W - 1) * DILATION_W + STRIDE_W - 1) / STRIDE_W) * STRIDE_W;
}

inline void store_some(const STORAGE(TYPE) *from, __global STORAGE(TYPE) *to, int count) {
  int i = 0;
  if (count & 8) vstore8(vload8(0, from), 0, to), i = 8;
  if (count & 4) vstore4(vload4(0, from + i), 0, to + i), i += 4;
  if (count & 2) vstore2(vload2(0, from + i), 0, to + i), i += 2;
  if (count & 1) to[i] = from[i];
}

// `slices` rows a work-item.
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void conv_depthwise_strip(ARGUMENTS) {
  __local float lines[CAPACITY + V];
  const INDEX strips = (s.out_h + s.slices - 1) / s.slices;
  const INDEX item = get_global_id(0), strip = item % strips, plane = item / strips;
  const INDEX channel = plane % s.channels, n = plane / s.channels, h0 = strip * s.slices;
  const int rows = (int)min(s.slices, s.out_h - h0), width = (int)s.out_w;
  const int pitch = pitch_of(&s);
  __global const STORAGE(TYPE) *image = CONST_POINTER(STORAGE(TYPE), from) + n * s.from_n;
  copy_rows(image + channel / s.multiplier * s.from_c, &s, h0, rows, pitch, lines);

  __global const STORAGE(TYPE) *w = CONST_POINTER(STORAGE(TYPE), weights) + channel * s.w_o;
  float weight[TAPS_H][TAPS_W];
  for (int kh = 0; kh < TAPS_H; kh++)
    for (int kw = 0; kw < TAPS_W; kw++)
      weight[kh][kw] = LOAD(TYPE, w, FLIP ? (TAPS_H - 1 - kh) * s.w_h + (TAPS_W - 1 - kw) * s.w_w
                                          : kh * s.w_h + kw * s.w_w);
#if BIAS
  const T start = LOAD(TYPE, CONST_POINTER(STORAGE(TYPE), bias), channel * s.bias_stride);
#else
  const T start = 0;
#endif

  __global STORAGE(TYPE) *y = POINTER(STORAGE(TYPE), to) + n * s.to_n + channel * s.to_c + h0 * s.to_h;
  for (int r = 0; r < rows; r++)
    for (int column = 0; column < width; column += V) {
      T sum = start;
#pragma unroll
      for (int kh = 0; kh < TAPS_H; kh++)
#pragma unroll
        for (int kw = 0; kw < TAPS_W; kw++)
          sum = fma((T)weight[kh][kw], TAP(lines + (r * STRIDE_H + kh * DILATION_H) * pitch, pitch, column, kw), sum);
      sum = ACTIVATE(sum);
      __global STORAGE(TYPE) *result = y + r * s.to_h + column;
      if (column + V <= width) {
        STORE_VECTOR(ENCODED(TYPE, sum), 0, result);
      } else {
        STORAGE(TYPE) last[V];
        STORE_VECTOR(ENCODED(TYPE, sum), 0, last);
        store_some(last, result, width - column);
      }
    }
}

// Rows of the kernel whose sums a loop keeps in registers.
#define AT_ONCE (TAPS_W > 25 ? 1 : 25 / TAPS_W)

// conv_depthwise_weights of one channel and slice of images; `from` is x, `to` its output's gradient.
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void conv_depthwise_strip_weights(
    CONST_GLOBAL(STORAGE(TYPE), from), CONST_GLOBAL(STORAGE(TYPE), to), GLOBAL(float, sums), const Shape s) {
  __local float lines[CAPACITY + V];
  const INDEX channel = get_group_id(0), slice = get_group_id(1);
  const INDEX per_slice = (s.images + s.slices - 1) / s.slices;
  const int width = (int)s.out_w, pitch = pitch_of(&s), reach = (TAPS_H - 1) * DILATION_H + 1;
  const INDEX strip = (CAPACITY / pitch - reach) / STRIDE_H + 1;
  T sum[TAPS_H][TAPS_W];
#pragma unroll
  for (int t = 0; t < TAPS; t++) sum[t / TAPS_W][t % TAPS_W] = 0;
  for (INDEX n = slice * per_slice; n < min((slice + 1) * per_slice, s.images); n++)
    for (INDEX h0 = 0; h0 < s.out_h; h0 += strip) {
      const int rows = (int)min(strip, s.out_h - h0);
      __global const STORAGE(TYPE) *image = CONST_POINTER(STORAGE(TYPE), from) + n * s.from_n;
      copy_rows(image + channel / s.multiplier * s.from_c, &s, h0, rows, pitch, lines);
      __global const STORAGE(TYPE) *gradient =
          CONST_POINTER(STORAGE(TYPE), to) + n * s.to_n + channel * s.to_c + h0 * s.to_h;
#pragma unroll
      for (int first = 0; first < TAPS_H; first += AT_ONCE) {
        __global const STORAGE(TYPE) *row = gradient;
        for (int r = 0; r < rows; r++, row += s.to_h)
          for (int column = 0; column < width; column += V) {
            T g;
            if (column + V <= width) {
              g = DECODED(TYPE, row + column);
            } else {
              float last[V] = {0};
              for (int i = 0; i < width - column; i++) last[i] = LOAD(TYPE, row, column + i);
              g = LOAD_VECTOR(0, last);
            }
#pragma unroll
            for (int kh = first; kh < first + AT_ONCE && kh < TAPS_H; kh++)
#pragma unroll
              for (int kw = 0; kw < TAPS_W; kw++)
                sum[kh][kw] =
                    fma(g, TAP(lines + (r * STRIDE_H + kh * DILATION_H) * pitch, pitch, column, kw), sum[kh][kw]);
          }
      }
    }
#pragma unroll
  for (int t = 0; t < TAPS; t++) {
    float each[V], total = 0;
    STORE_VECTOR(sum[t / TAPS_W][t % TAPS_W], 0, each);
    for (int i = 0; i < V; i++) total += each[i];
    POINTER(float, sums)[(slice * TAPS + t) * s.channels + channel] = total;
  }
}
