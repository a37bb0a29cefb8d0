// SPDX-License-Identifier: MIT
// Depthwise convolution of bytes over channels last by dot products of CPUs (lib/byte_dot.clh): bytes of up to four
// rows that lie above each other are interleaved to quads, 64 channels at once, of which each column of weights takes
// its products. A work-group is one work-item, which computes 64 channels of some rows of the result, OUTPUTS
// neighbours at once. What depthwise_panels prepares of the weights, and all sums, are in the order that interleaving
// gives: lane 4 l + t of vector v is channel 16 l + 4 v + t. The host also defines
//   SIGNED_X                       x is int8
//   LOWEST_BYTE                    of y's type (lib/saturate.clh)
//   TAPS_*, STRIDE_*, DILATION_*   of H and W
//   BIASED                         there are biases
#include "lib/byte_dot.clh"
#include "lib/depthwise_columns.clh"
#include "lib/saturate.clh"
#include "lib/types.clh"
#include "quantized/depthwise.clh"

#define QUADS ((TAPS_H + 3) / 4)

typedef uchar Bytes __attribute__((ext_vector_type(64)));
// Of both halves of each 16 bytes, single ones or pairs in turns.
#define LOW_BYTES(a, b)                                                                                         \
  __builtin_shufflevector(a, b, 0, 64, 1, 65, 2, 66, 3, 67, 4, 68, 5, 69, 6, 70, 7, 71,                         \
      16, 80, 17, 81, 18, 82, 19, 83, 20, 84, 21, 85, 22, 86, 23, 87,                                           \
      32, 96, 33, 97, 34, 98, 35, 99, 36, 100, 37, 101, 38, 102, 39, 103,                                       \
      48, 112, 49, 113, 50, 114, 51, 115, 52, 116, 53, 117, 54, 118, 55, 119)
#define HIGH_BYTES(a, b)                                                                                        \
  __builtin_shufflevector(a, b, 8, 72, 9, 73, 10, 74, 11, 75, 12, 76, 13, 77, 14, 78, 15, 79,                   \
      24, 88, 25, 89, 26, 90, 27, 91, 28, 92, 29, 93, 30, 94, 31, 95,                                           \
      40, 104, 41, 105, 42, 106, 43, 107, 44, 108, 45, 109, 46, 110, 47, 111,                                   \
      56, 120, 57, 121, 58, 122, 59, 123, 60, 124, 61, 125, 62, 126, 63, 127)
#define LOW_PAIRS(a, b)                                                                                         \
  __builtin_shufflevector(a, b, 0, 1, 64, 65, 2, 3, 66, 67, 4, 5, 68, 69, 6, 7, 70, 71,                         \
      16, 17, 80, 81, 18, 19, 82, 83, 20, 21, 84, 85, 22, 23, 86, 87,                                           \
      32, 33, 96, 97, 34, 35, 98, 99, 36, 37, 100, 101, 38, 39, 102, 103,                                       \
      48, 49, 112, 113, 50, 51, 114, 115, 52, 53, 116, 117, 54, 55, 118, 119)
#define HIGH_PAIRS(a, b)                                                                                        \
  __builtin_shufflevector(a, b, 8, 9, 72, 73, 10, 11, 74, 75, 12, 13, 76, 77, 14, 15, 78, 79,                   \
      24, 25, 88, 89, 26, 27, 90, 91, 28, 29, 92, 93, 30, 31, 94, 95,                                           \
      40, 41, 104, 105, 42, 43, 106, 107, 44, 45, 108, 109, 46, 47, 110, 111,                                   \
      56, 57, 120, 121, 58, 59, 122, 123, 60, 61, 124, 125, 62, 63, 126, 127)
// Bytes that four vectors of sums have become, in the order of the channels.
#define IN_ORDER(a)                                                                                             \
  __builtin_shufflevector(a, a, 0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15,                           \
      16, 20, 24, 28, 17, 21, 25, 29, 18, 22, 26, 30, 19, 23, 27, 31,                                           \
      32, 36, 40, 44, 33, 37, 41, 45, 34, 38, 42, 46, 35, 39, 43, 47,                                           \
      48, 52, 56, 60, 49, 53, 57, 61, 50, 54, 58, 62, 51, 55, 59, 63)

// Where a block's weights begin, [TAPS_W][QUADS][4][16], and the sums' first values and their factors, [4][16] each.
#define WEIGHTS_OF(block) ((block) * TAPS_W * QUADS * 64)

__kernel void depthwise_panels(CONST_GLOBAL(char, weights), CONST_GLOBAL(int, bias), CONST_GLOBAL(float, scale),
                               GLOBAL(uint, panels), GLOBAL(int, start), GLOBAL(float, scales), const Shape s) {
  const int lane = (int)global_id(), blocks = (s.channels + 63) / 64;
  if (lane >= blocks * 64) return;
  const int block = lane / 64, vector = lane % 64 / 16, l = lane % 16 / 4, t = lane % 4;
  const int channel = min(block * 64, s.channels - 64) + 16 * l + 4 * vector + t;
  __global const char *w = CONST_POINTER(char, weights) + channel * s.w_o;
  int sum = 0;
  for (int i = 0; i < TAPS_W; i++)
    for (int q = 0; q < QUADS; q++) {
      uint quad = 0;
      for (int h = 4 * q; h < min(4 * q + 4, TAPS_H); h++) {
        const char v = w[h * s.w_h + i * s.w_w];
        sum += v, quad |= (uint)(uchar)v << (8 * (h - 4 * q));
      }
      POINTER(uint, panels)[WEIGHTS_OF(block) + (i * QUADS + q) * 64 + lane % 64] = quad;
    }
  int first = 0;
#if BIASED
  first = CONST_POINTER(int, bias)[channel];
#endif
  POINTER(int, start)[lane] = first - (s.x_zero + 128 * SIGNED_X) * sum;
  POINTER(float, scales)[lane] = CONST_POINTER(float, scale)[channel];
}

inline Bytes load(__global const uchar *x) {
  const int16 v = vload16(0, (__global const int *)x);
#if SIGNED_X
  return __builtin_astype(v ^ (int)0x80808080, Bytes);
#else
  return __builtin_astype(v, Bytes);
#endif
}

// OUTPUTS results of 64 channels, from `column` on; rows that lie outside are at `outside`, 64 zero points.
inline void compute(__global const uchar *x, __global const uchar *outside, int row, int column,
                    __global const int *weights, __global const int *start, __global const float *scales,
                    __global uchar *y, const Shape *s) {
  const int first = column * STRIDE_W - s->pad_w;
  const bool inside = first >= 0 && first + SPAN <= s->in_w;
  int16 sum[OUTPUTS][4];
  EACH(i, OUTPUTS) EACH(v, 4) sum[i][v] = vload16(v, start);
  EACH(q, QUADS) {
    __global const uchar *line[4];
    long step[4];
    EACH(k, 4) {
      const int at = row * STRIDE_H - s->pad_h + (4 * q + k) * DILATION_H;
      const bool there = 4 * q + k < TAPS_H && at >= 0 && at < s->in_h;
      line[k] = there ? x + at * s->from_h + first * s->from_w : outside;
      step[k] = there ? s->from_w : 0;
    }
    EACH(j, COLUMNS) {
      const bool there = inside || (first + AT(j) >= 0 && first + AT(j) < s->in_w);
      Bytes r[4];
      EACH(k, 4) {
        if (4 * q + k < TAPS_H) r[k] = load(there ? line[k] + AT(j) * step[k] : outside);
        else r[k] = (Bytes)(0);
      }
      const Bytes low01 = LOW_BYTES(r[0], r[1]), high01 = HIGH_BYTES(r[0], r[1]);
      const Bytes low23 = LOW_BYTES(r[2], r[3]), high23 = HIGH_BYTES(r[2], r[3]);
      const Bytes quads[4] = {LOW_PAIRS(low01, low23), HIGH_PAIRS(low01, low23), LOW_PAIRS(high01, high23),
                              HIGH_PAIRS(high01, high23)};
      EACH(i, OUTPUTS) {
        const int reach = AT(j) - i * STRIDE_W;
        if (reach >= 0 && reach % DILATION_W == 0 && reach / DILATION_W < TAPS_W)
          EACH(v, 4)
        sum[i][v] = dot_of_bytes(sum[i][v], __builtin_astype(quads[v], int16),
                                 vload16((reach / DILATION_W * QUADS + q) * 4 + v, weights));
      }
    }
  }
  EACH(i, OUTPUTS) {
    if (column + i >= s->out_w) break;
    int16 bytes = 0;
    EACH(v, 4) {
      const int16 whole = whole_in_bounds(convert_float16(sum[i][v]) * vload16(v, scales), s->y_zero);
      bytes |= (v < 3 ? whole & 255 : whole) << (8 * v);
    }
    const Bytes ordered = IN_ORDER(__builtin_astype(bytes, Bytes));
    vstore16(__builtin_astype(ordered, int16), 0, (__global int *)(y + (column + i) * s->to_w));
  }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void depthwise_quads(
    CONST_GLOBAL(uchar, from), CONST_GLOBAL(int, panels), CONST_GLOBAL(uchar, outside), CONST_GLOBAL(int, start),
    CONST_GLOBAL(float, scales), GLOBAL(uchar, to), const Shape s) {
  const int block = (int)get_group_id(0), channel = min(block * 64, s.channels - 64);  // the last may overlap
  const int begin = get_group_id(1) * s.strip, end = min(begin + s.strip, s.images * s.out_h);
  __global const int *weights = CONST_POINTER(int, panels) + WEIGHTS_OF(block);
  __global const int *firsts = CONST_POINTER(int, start) + block * 64;
  __global const float *factors = CONST_POINTER(float, scales) + block * 64;
  for (int line = begin; line < end; line++) {
    const int image = line / s.out_h, row = line - image * s.out_h;
    __global const uchar *x = CONST_POINTER(uchar, from) + image * s.from_n + channel;
    __global uchar *y = POINTER(uchar, to) + image * s.to_n + row * s.to_h + channel;
    for (int column = 0; column < s.out_w; column += OUTPUTS)
      compute(x, CONST_POINTER(uchar, outside), row, column, weights, firsts, factors, y, &s);
  }
}
