// SPDX-License-Identifier: MIT
// Depthwise convolution: each channel of x makes `multiplier` channels of y with a kernel of its own. The host defines
//   TYPE, T, INDEX, TAPS_D TAPS_H TAPS_W, STRIDE_*, DILATION_*, BIAS, ACTIVATE(x), CHANNELS_LAST
//   ROWS   rows of the result a work-item computes, sharing what they read        GROUP  work-items that sum weights
//   FLIP   flips the kernel: the data gradient at stride 1 is such a convolution of y's gradient
//   LINE   whether there is one row of work-items only            BLOCKS  see conv_depthwise_data
#include "lib/types.clh"

#include "lib/depthwise.clh"
#include "lib/activations.clh"

typedef struct {
  INDEX n, channel, d, h, w;
} Position;

// Position number `id` among depth x height x width of each channel; lanes follow memory.
inline Position position(INDEX id, INDEX depth, INDEX height, INDEX width, const Shape *s) {
  Position at;
  INDEX rest;
#if CHANNELS_LAST
  rest = id / s->channels, at.channel = id - rest * s->channels, id = rest;
#endif
  rest = id / width, at.w = id - rest * width, id = rest;
#if LINE
  at.h = at.d = 0;
#else
  rest = id / height, at.h = id - rest * height, id = rest;
  rest = id / depth, at.d = id - rest * depth, id = rest;
#endif
#if CHANNELS_LAST
  at.n = id;
#else
  at.n = id / s->channels, at.channel = id - at.n * s->channels;
#endif
  return at;
}

#if BIAS
#define BIAS_OF(channel) LOAD(TYPE, CONST_POINTER(STORAGE(TYPE), bias), (channel) * s.bias_stride)
#else
#define BIAS_OF(channel) 0
#endif

#define TAP(k, taps) (FLIP ? (taps) - 1 - (k) : (k))

__kernel void conv_depthwise(ARGUMENTS) {
  Position at = position(get_global_id(0), s.out_d, (s.out_h + ROWS - 1) / ROWS, s.out_w, &s);
  if (at.n >= s.images) return;
  at.h *= ROWS;
  __global const STORAGE(TYPE) *W = CONST_POINTER(STORAGE(TYPE), weights) + at.channel * s.w_o;
  __global const STORAGE(TYPE) *from_plane =
      CONST_POINTER(STORAGE(TYPE), from) + at.n * s.from_n + at.channel / s.multiplier * s.from_c;
  T sum[ROWS];
#pragma unroll
  for (int v = 0; v < ROWS; v++) sum[v] = BIAS_OF(at.channel);
#pragma unroll
  for (int kd = 0; kd < TAPS_D; kd++) {
    const INDEX fd = at.d * STRIDE_D - s.pad_d + kd * DILATION_D;
    if (fd < 0 || fd >= s.in_d) continue;
    T weight[TAPS_H][TAPS_W];
#pragma unroll
    for (int kh = 0; kh < TAPS_H; kh++)
#pragma unroll
      for (int kw = 0; kw < TAPS_W; kw++)
        weight[kh][kw] = LOAD(TYPE, W, TAP(kd, TAPS_D) * s.w_d + TAP(kh, TAPS_H) * s.w_h + TAP(kw, TAPS_W) * s.w_w);
#pragma unroll
    for (int r = 0; r <= (ROWS - 1) * STRIDE_H + (TAPS_H - 1) * DILATION_H; r++) {
      const INDEX fh = at.h * STRIDE_H - s.pad_h + r;
      const bool row = fh >= 0 && fh < s.in_h;
      __global const STORAGE(TYPE) *line = from_plane + fd * s.from_d + fh * s.from_h;
#pragma unroll
      for (int kw = 0; kw < TAPS_W; kw++) {
        const INDEX fw = at.w * STRIDE_W - s.pad_w + kw * DILATION_W;
        const T x = row && fw >= 0 && fw < s.in_w ? (T)LOAD(TYPE, line, fw * s.from_w) : (T)0;
#pragma unroll
        for (int v = 0; v < ROWS; v++) {
          const int above = r - v * STRIDE_H;
          if (above >= 0 && above % DILATION_H == 0 && above / DILATION_H < TAPS_H)
            sum[v] = fma(weight[above / DILATION_H][kw], x, sum[v]);
        }
      }
    }
  }
  __global STORAGE(TYPE) *result = POINTER(STORAGE(TYPE), to) + at.n * s.to_n + at.channel * s.to_c + at.d * s.to_d +
                                   at.h * s.to_h + at.w * s.to_w;
#pragma unroll
  for (int v = 0; v < ROWS; v++)
    if (at.h + v < s.out_h) STORE(TYPE, result, v * s.to_h, ACTIVATE(sum[v]));
}

// The data gradient at any stride and multiplier: `to` is x's gradient, `from` y's. With BLOCKS a work-item computes, of each
// dimension, as many neighbours as the stride is long: they share what they read, and each tap belongs to one of them.
// SIDE: elements along a dimension; COUNT: work-items; FIRST: the first element of work-item `at`; SOURCE: what a tap at
// distance `tap` meets in `from`, -1 for nothing.
#if BLOCKS
#define SIDE(stride) (stride)
#define COUNT(size, padding, stride) (((size) - 1 + (padding)) / (stride) + 1)
#define FIRST(at, padding, stride) ((at) * (stride) - (padding))
#define SOURCE(at, padding, tap, stride) ((at) - (tap) / (stride))
#else
#define SIDE(stride) 1
#define COUNT(size, padding, stride) (size)
#define FIRST(at, padding, stride) (at)
#define SOURCE(at, padding, tap, stride) \
  (((at) + (padding) - (tap)) % (stride) ? -1 : ((at) + (padding) - (tap)) / (stride))
#endif
#define EACH_OF_BLOCK                                        \
  _Pragma("unroll") for (int i = 0; i < SIDE(STRIDE_D); i++)   \
    _Pragma("unroll") for (int j = 0; j < SIDE(STRIDE_H); j++) \
      _Pragma("unroll") for (int k = 0; k < SIDE(STRIDE_W); k++)

__kernel void conv_depthwise_data(ARGUMENTS) {
  const Position at = position(get_global_id(0), COUNT(s.out_d, s.pad_d, STRIDE_D), COUNT(s.out_h, s.pad_h, STRIDE_H),
                               COUNT(s.out_w, s.pad_w, STRIDE_W), &s);
  if (at.n >= s.images) return;
  T sum[SIDE(STRIDE_D)][SIDE(STRIDE_H)][SIDE(STRIDE_W)];
  EACH_OF_BLOCK sum[i][j][k] = BIAS_OF(at.channel);
  for (INDEX o = at.channel * s.multiplier; o < (at.channel + 1) * s.multiplier; o++) {
    __global const STORAGE(TYPE) *W = CONST_POINTER(STORAGE(TYPE), weights) + o * s.w_o;
    __global const STORAGE(TYPE) *from_plane = CONST_POINTER(STORAGE(TYPE), from) + at.n * s.from_n + o * s.from_c;
#pragma unroll
    for (int t = 0; t < TAPS; t++) {
      const int kd = t / (TAPS_H * TAPS_W), kh = t / TAPS_W % TAPS_H, kw = t % TAPS_W;
      const int d = kd * DILATION_D, h = kh * DILATION_H, w = kw * DILATION_W;
      const INDEX fd = SOURCE(at.d, s.pad_d, d, STRIDE_D), fh = SOURCE(at.h, s.pad_h, h, STRIDE_H);
      const INDEX fw = SOURCE(at.w, s.pad_w, w, STRIDE_W);
      if (fd < 0 || fh < 0 || fw < 0 || fd >= s.in_d || fh >= s.in_h || fw >= s.in_w) continue;
      T *of = &sum[d % SIDE(STRIDE_D)][h % SIDE(STRIDE_H)][w % SIDE(STRIDE_W)];
      *of = fma((T)LOAD(TYPE, W, kd * s.w_d + kh * s.w_h + kw * s.w_w),
                (T)LOAD(TYPE, from_plane, fd * s.from_d + fh * s.from_h + fw * s.from_w), *of);
    }
  }
  __global STORAGE(TYPE) *plane = POINTER(STORAGE(TYPE), to) + at.n * s.to_n + at.channel * s.to_c;
  EACH_OF_BLOCK {
    const INDEX d = FIRST(at.d, s.pad_d, STRIDE_D) + i, h = FIRST(at.h, s.pad_h, STRIDE_H) + j;
    const INDEX w = FIRST(at.w, s.pad_w, STRIDE_W) + k;
    if (d >= 0 && h >= 0 && w >= 0 && d < s.out_d && h < s.out_h && w < s.out_w)
      STORE(TYPE, plane, d * s.to_d + h * s.to_h + w * s.to_w, sum[i][j][k]);
  }
}

// Position number `i` of the images of a channel.
inline Position position_of_channel(INDEX i, const Shape *s) {
  Position at = {0, 0, 0, 0, 0};
  INDEX rest = i / s->out_w;
  at.w = i - rest * s->out_w, i = rest;
  rest = i / s->out_h, at.h = i - rest * s->out_h, i = rest;
  at.n = i / s->out_d, at.d = i - at.n * s->out_d;
  return at;
}

// Goes on by `step` positions: sums of digits of which each carries once at most.
inline void advance(Position *at, const Position *step, const Shape *s) {
  at->w += step->w, at->h += step->h, at->d += step->d, at->n += step->n;
  if (at->w >= s->out_w) at->w -= s->out_w, at->h++;
  if (at->h >= s->out_h) at->h -= s->out_h, at->d++;
  if (at->d >= s->out_d) at->d -= s->out_d, at->n++;
}

// Sums dy * x over a slice of a channel's positions; sums[slice, tap, channel]. Here `from` is x, `to` dy.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void conv_depthwise_weights(CONST_GLOBAL(STORAGE(TYPE), from), CONST_GLOBAL(STORAGE(TYPE), to),
                            GLOBAL(T, sums), const Shape s) {
  __local T partial[GROUP];
  const INDEX channel = get_group_id(0), slice = get_group_id(1);
  const int item = get_local_id(0);
  T sum[TAPS];
#pragma unroll
  for (int t = 0; t < TAPS; t++) sum[t] = 0;
  const INDEX positions = s.images * s.out_d * s.out_h * s.out_w, share = (positions + s.slices - 1) / s.slices;
  const INDEX begin = slice * share, end = min(begin + share, positions);
  const Position step = position_of_channel(GROUP, &s);
  Position at = position_of_channel(begin + item, &s);
  for (INDEX i = begin + item; i < end; i += GROUP, advance(&at, &step, &s)) {
    const INDEX n = at.n, d = at.d, h = at.h, w = at.w;
    const T g = LOAD(TYPE, CONST_POINTER(STORAGE(TYPE), to),
                     n * s.to_n + channel * s.to_c + d * s.to_d + h * s.to_h + w * s.to_w);
    __global const STORAGE(TYPE) *x =
        CONST_POINTER(STORAGE(TYPE), from) + n * s.from_n + channel / s.multiplier * s.from_c;
#pragma unroll
    for (int t = 0; t < TAPS; t++) {
      const INDEX fd = d * STRIDE_D - s.pad_d + t / (TAPS_H * TAPS_W) * DILATION_D;
      const INDEX fh = h * STRIDE_H - s.pad_h + t / TAPS_W % TAPS_H * DILATION_H;
      const INDEX fw = w * STRIDE_W - s.pad_w + t % TAPS_W * DILATION_W;
      const bool ok = fd >= 0 && fd < s.in_d && fh >= 0 && fh < s.in_h && fw >= 0 && fw < s.in_w;
      sum[t] += ok ? g * LOAD(TYPE, x, fd * s.from_d + fh * s.from_h + fw * s.from_w) : (T)0;
    }
  }
  for (int t = 0; t < TAPS; t++) {
    partial[item] = sum[t];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int step = GROUP / 2; step > 0; step /= 2) {
      if (item < step) partial[item] += partial[item + step];
      barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (item == 0) POINTER(T, sums)[(slice * TAPS + t) * s.channels + channel] = partial[0];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
}

// A group finishes 16 sums, GROUP / 16 work-items for each.
__kernel __attribute__((reqd_work_group_size(16, GROUP / 16, 1)))
void conv_depthwise_finish(CONST_GLOBAL(T, sums), GLOBAL(STORAGE(TYPE), weights), const Shape s) {
  __local T partial[GROUP];
  const INDEX id = get_global_id(0), size = s.channels * TAPS;
  const int column = get_local_id(0), first = get_local_id(1);
  T sum = 0;
#pragma unroll 4
  for (INDEX slice = first; slice < s.slices && id < size; slice += GROUP / 16)
    sum += CONST_POINTER(T, sums)[slice * size + id];
  partial[first * 16 + column] = sum;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (first > 0 || id >= size) return;
  for (int i = 1; i < GROUP / 16; i++) sum += partial[i * 16 + column];
  const INDEX t = id / s.channels, channel = id - t * s.channels;
  STORE(TYPE, POINTER(STORAGE(TYPE), weights),
        channel * s.w_o + t / (TAPS_H * TAPS_W) * s.w_d + t / TAPS_W % TAPS_H * s.w_h + t % TAPS_W * s.w_w, sum);
}
