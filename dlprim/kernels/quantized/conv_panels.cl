// SPDX-License-Identifier: MIT
// Weights of a convolution of bytes as the panels of gemm/points.cl, quads of channels of a tap side by side, with zeros
// where there are no more channels; what is added to a row's sums: its bias less `zero` times the sum of its weights; and
// its scale.
// A work-item is a row. The host also defines
//   BIASED, SCALED   there are biases, and scales

typedef struct {
  long rows, channels, quads, width;      // quads of a tap; rows of a panel
  long taps[3], stride[3], row, channel;  // row, channel, stride: elements apart
  int zero;
} Shape;

#include "lib/types.clh"

__kernel void conv_panels(CONST_GLOBAL(char, weights), CONST_GLOBAL(int, bias), CONST_GLOBAL(float, scale),
                          GLOBAL(int, panels), GLOBAL(int, start), GLOBAL(float, scales), const Shape s) {
  const long m = global_id();
  if (m >= s.rows) return;
  const long k = s.taps[0] * s.taps[1] * s.taps[2] * s.quads;
  __global int *to = POINTER(int, panels) + m / s.width * s.width * k + m % s.width;
  int sum = 0;
  for (long d = 0; d < s.taps[0]; d++)
    for (long h = 0; h < s.taps[1]; h++)
      for (long w = 0; w < s.taps[2]; w++) {
        __global const char *from = CONST_POINTER(char, weights) + m * s.row + d * s.stride[0] + h * s.stride[1] +
                                    w * s.stride[2];
        for (long q = 0; q < s.quads; q++, to += s.width) {
          uint quad = 0;
          for (long c = 4 * q; c < min(4 * q + 4, s.channels); c++) {
            const char weight = from[c * s.channel];
            sum += weight;
            quad |= (uint)(uchar)weight << (8 * (c - 4 * q));
          }
          *to = (int)quad;
        }
      }
  int first = 0;
#if BIASED
  first = CONST_POINTER(int, bias)[m];
#endif
  POINTER(int, start)[m] = first - s.zero * sum;
#if SCALED
  POINTER(float, scales)[m] = CONST_POINTER(float, scale)[m];
#endif
}
