// SPDX-License-Identifier: MIT
// A convolution's windows along the last dimension, laid side by side: to[row, window, element], rows being images, d and
// h, the element tap * CHANNELS + channel, of LENGTH elements; zero outside of the image and beyond the last tap. A
// work-group takes WINDOWS windows of a row, whose pixels it holds in local memory, and writes CHUNK elements at once. The
// host defines T and its vector VECTOR of CHUNK elements, CHANNELS, TAPS, LENGTH, STRIDE, WINDOWS and ITEMS.
#include "lib/types.clh"

typedef struct {
  long x_stride[5];  // outer, channel, d, h, w
  long depth, height, width, windows, padding, segments;
} Rows;

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
void row_windows(CONST_GLOBAL(T, x), GLOBAL(VECTOR, to), const Rows r) {
  __local T pixels[((WINDOWS - 1) * STRIDE + TAPS) * CHANNELS + CHUNK];
  const long group = get_group_id(0), row = group / r.segments, plane = row / r.height, n = plane / r.depth;
  const long first = (group - row * r.segments) * WINDOWS, left = first * STRIDE - r.padding;
  __global const T *line = CONST_POINTER(T, x) + n * r.x_stride[0] + (plane - n * r.depth) * r.x_stride[2] +
                           (row - plane * r.height) * r.x_stride[3];
  const int windows = min((long)WINDOWS, r.windows - first);
  for (int i = get_local_id(0); i < ((windows - 1) * STRIDE + TAPS) * CHANNELS; i += ITEMS) {
    const int pixel = i / CHANNELS, channel = i - pixel * CHANNELS;
    const long at = left + pixel;
    pixels[i] = at >= 0 && at < r.width ? line[at * r.x_stride[4] + channel * r.x_stride[1]] : 0;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  const int chunks = LENGTH / CHUNK;
  __global VECTOR *target = POINTER(VECTOR, to) + (row * r.windows + first) * chunks;
  for (int i = get_local_id(0); i < windows * chunks; i += ITEMS) {
    const int window = i / chunks, element = (i - window * chunks) * CHUNK;
    union {
      T each[CHUNK];
      VECTOR all;
    } values;
#pragma unroll
    for (int k = 0; k < CHUNK; k++)
      values.each[k] = element + k < TAPS * CHANNELS ? pixels[window * STRIDE * CHANNELS + element + k] : 0;
    target[i] = values.all;
  }
}
