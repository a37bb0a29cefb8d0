// SPDX-License-Identifier: MIT
// Weights of a convolution of bytes as the panels of gemm/points.cl, quads of channels of a tap side by side, with
// zeros where there are no more channels; what is added to a row's sums: its bias less `zero` times the sum of its
// weights; and its scale. A work-group is one work-item, which takes 16 * VECTORS rows of a group that begins a panel.
// The host also defines
//   BIASED, SCALED   there are biases, and scales
//   ALONG            1: a row's channels lie side by side, 2: rows do; 0: neither
//   VECTORS          4 where rows do, so that lines of the cache are read at once, else 1: rows may share places in it
#include "lib/byte_dot.clh"
#include "lib/types.clh"

typedef struct {
  long rows, channels, quads, width;      // rows of a group; quads of a tap; rows of a panel, a multiple of 16
  long taps[3], stride[3], row, channel;  // row, channel, stride: elements apart
  long panels;                            // words of a group's panels
  int zero;
} Shape;

// The channels from the quad's first on, of `count` rows.
inline int16 some_words(__global const char *x, int count, long channels, const Shape *s) {
  uint words[16] = {0};
  for (int i = 0; i < count; i++)
    for (int c = 0; c < channels; c++) words[i] |= (uint)(uchar)x[i * s->row + c * s->channel] << (8 * c);
  return as_int16(vload16(0, words));
}

// The same of four channels and 16 rows.
inline int16 all_words(__global const char *x, const Shape *s) {
#if ALONG == 1
#define WORD(i) as_int(vload4(0, x + i * s->row))
  return (int16)(WORD(0), WORD(1), WORD(2), WORD(3), WORD(4), WORD(5), WORD(6), WORD(7), WORD(8), WORD(9), WORD(10),
                 WORD(11), WORD(12), WORD(13), WORD(14), WORD(15));
#elif ALONG == 2
  uint16 words = 0;
  for (int c = 0; c < 4; c++)
    words |= convert_uint16(vload16(0, (__global const uchar *)x + c * s->channel)) << (uint)(8 * c);
  return as_int16(words);
#else
  return some_words(x, 16, 4, s);
#endif
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void conv_panels(
    CONST_GLOBAL(char, weights), CONST_GLOBAL(int, bias), CONST_GLOBAL(float, scale), GLOBAL(int, panels),
    GLOBAL(int, start), GLOBAL(float, scales), const Shape s) {
  const long group = get_group_id(1), first = get_group_id(0) * 16 * VECTORS, begin = group * s.rows;
  const long k = s.taps[0] * s.taps[1] * s.taps[2] * s.quads;
  const int vectors = (int)min((s.rows - first + 15) / 16, (long)VECTORS);
  __global int *to[VECTORS];
  int16 sum[VECTORS];
  for (int v = 0; v < vectors; v++) {
    const long m = first + 16 * v;
    to[v] = POINTER(int, panels) + group * s.panels + m / s.width * s.width * k + m % s.width, sum[v] = 0;
  }
  for (long d = 0; d < s.taps[0]; d++)
    for (long h = 0; h < s.taps[1]; h++)
      for (long w = 0; w < s.taps[2]; w++) {
        __global const char *from = CONST_POINTER(char, weights) + (begin + first) * s.row + d * s.stride[0] +
                                    h * s.stride[1] + w * s.stride[2];
        for (long q = 0; q < s.quads; q++)
          for (int v = 0; v < vectors; v++) {
            __global const char *x = from + 16 * v * s.row + 4 * q * s.channel;
            const long channels = min(s.channels - 4 * q, 4L), rows = min(s.rows - first - 16 * v, 16L);
            const int16 words = rows == 16 && channels == 4 ? all_words(x, &s) : some_words(x, (int)rows, channels, &s);
            sum[v] = dot_of_bytes(sum[v], (int16)(0x01010101), words);
            vstore16(words, 0, to[v]);
            to[v] += s.width;
          }
      }
  for (long m = first; m < min(first + 16 * VECTORS, s.rows); m++) {
    int sums[16], value = 0;
    vstore16(sum[(m - first) / 16], 0, sums);
#if BIASED
    value = CONST_POINTER(int, bias)[begin + m];
#endif
    POINTER(int, start)[begin + m] = value - s.zero * sums[m % 16];
#if SCALED
    POINTER(float, scales)[begin + m] = CONST_POINTER(float, scale)[begin + m];
#endif
  }
}
