// SPDX-License-Identifier: MIT
// An image of few channels as convolutions of bytes read it (primitives/quantized_conv.cpp): channels side by side in
// `quads` words a position, bytes of no channel 0, and rows with what lies outside of them, the zero point. A
// work-group is one work-item, which writes some rows. The host also defines
//   SIDE   1: neighbours of a row lie side by side
#include "lib/types.clh"

typedef struct {
  long strides[5];  // of x: images, channels, two spatial dimensions before the rows, positions of a row
  long lines, share;
  int sizes[2], channels, quads, width, before, columns, zero;  // sizes of those two; width of x, columns of the result
} Shape;

inline uint word_of(__global const uchar *x, long channel, int count) {
  uint word = 0;
  for (int c = 0; c < count; c++) word |= (uint)x[c * channel] << (8 * c);
  return word;
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void merge_rows(CONST_GLOBAL(uchar, x), GLOBAL(uint, y),
                                                                        const Shape s) {
  const long begin = get_group_id(0) * s.share, end = min(begin + s.share, s.lines);
  for (long line = begin; line < end; line++) {
    const long h = line % s.sizes[1], d = line / s.sizes[1] % s.sizes[0], n = line / s.sizes[1] / s.sizes[0];
    __global const uchar *row = CONST_POINTER(uchar, x) + n * s.strides[0] + d * s.strides[2] + h * s.strides[3];
    __global uint *to = POINTER(uint, y) + line * s.columns * s.quads;
    for (int q = 0; q < s.quads; q++) {
      const int count = min(4, s.channels - 4 * q);
      const uint outside = (uint)s.zero * (count == 4 ? 0x01010101u : (1u << 8 * count) / 255);
      __global const uchar *from = row + 4 * q * s.strides[1];
      for (int w = 0; w < s.before; w++) to[(long)w * s.quads + q] = outside;
      for (int w = s.before + s.width; w < s.columns; w++) to[(long)w * s.quads + q] = outside;
      int w = 0;
#if SIDE
      if (s.quads == 1)
        for (; w + 16 <= s.width; w += 16) {
          uint16 words = 0;
          for (int c = 0; c < count; c++)
            words |= convert_uint16(vload16(0, from + c * s.strides[1] + w)) << (uint)(8 * c);
          vstore16(words, 0, to + s.before + w);
        }
#endif
      for (; w < s.width; w++)
        to[(long)(s.before + w) * s.quads + q] = word_of(from + w * s.strides[4], s.strides[1], count);
    }
  }
}
