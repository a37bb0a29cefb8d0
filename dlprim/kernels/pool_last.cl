// SPDX-License-Identifier: MIT
// Largest bytes of sliding windows over images on CPUs whose channels lie side by side, without indices: a work-group
// is one work-item, which computes some rows of the result, 16 channels at once. Windows without an element give
// LOWEST. Defines: T uchar or char; T16 its vector; LOWEST of T.
#include "lib/types.clh"

// Mirrored by LastRows of primitives/pool_last.cpp.
typedef struct {
  long in_n, in_h, in_w, out_n, out_h, out_w;
  int channels, height, width, rows, columns, lines, share;  // of x; rows and columns of y; lines: rows of all images
  int kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
} LastRows;

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void max_last(CONST_GLOBAL(T, x), GLOBAL(T, y),
                                                                      const LastRows p) {
  const int begin = get_group_id(0) * p.share, end = min(begin + p.share, p.lines);
  for (int line = begin; line < end; line++) {
    const int image = line / p.rows, row = line - image * p.rows;
    __global const T *in = CONST_POINTER(T, x) + image * p.in_n;
    __global T *out = POINTER(T, y) + image * p.out_n + row * p.out_h;
    for (int column = 0; column < p.columns; column++, out += p.out_w)
      for (int c = 0; c < p.channels; c += 16) {
        const int channel = min(c, p.channels - 16);  // the last may overlap
        T16 best = (T)LOWEST;
        for (int i = 0; i < p.kernel_h; i++) {
          const int h = row * p.stride_h - p.pad_h + i * p.dilation_h;
          if (h < 0 || h >= p.height) continue;
          for (int j = 0; j < p.kernel_w; j++) {
            const int w = column * p.stride_w - p.pad_w + j * p.dilation_w;
            if (w >= 0 && w < p.width) best = max(best, vload16(0, in + h * p.in_h + w * p.in_w + channel));
          }
        }
        vstore16(best, 0, out + channel);
      }
  }
}
