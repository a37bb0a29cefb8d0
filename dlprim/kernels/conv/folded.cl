// SPDX-License-Identifier: MIT
// Sums what a product gave of every window: result[n, c, at] = ACTIVATE(bias[c] + the sum over taps of
// products[n, c, tap, point]), point being (at * scale + offset - tap * step) / unit in each dimension, where that is
// whole and a point. The host defines TYPE, BIAS, ACTIVATE(x), TAPS_D TAPS_H TAPS_W, and UNIT where every unit is 1.
#include "lib/each_line.clh"
#include "lib/types.clh"

#define T ACC(TYPE)
#include "lib/activations.clh"

typedef struct {
  long result_n, result_c, result_stride[3];
  long n, row;  // elements between products of images, of taps
  long bias;
  long channels, size[3], points[3], scale[3], offset[3], step[3], unit[3];
  ulong count;
} Fold;

// The point of a dimension that reaches `at` by a tap; -1: none.
inline int point_of(const Fold *f, int dimension, int at, int tap) {
  const int distance = at * (int)f->scale[dimension] + (int)f->offset[dimension] - tap * (int)f->step[dimension];
#ifdef UNIT
  const int point = distance;
#else
  const int unit = f->unit[dimension], point = distance / unit;
  if (point * unit != distance) return -1;
#endif
  return distance >= 0 && point < (int)f->points[dimension] ? point : -1;
}

__kernel void conv_folded(CONST_GLOBAL(T, products), CONST_GLOBAL(STORAGE(TYPE), bias),
                          GLOBAL(STORAGE(TYPE), result), const Fold f) {
  EACH_LINE(line, f.count, f.size[2]) {
    ulong rest = line;
    const int y = (int)(rest % (ulong)f.size[1]);
    rest /= (ulong)f.size[1];
    const int z = (int)(rest % (ulong)f.size[0]);
    rest /= (ulong)f.size[0];
    const long channel = (long)(rest % (ulong)f.channels), n = (long)(rest / (ulong)f.channels);
    __global const T *from =
        CONST_POINTER(T, products) + n * f.n + channel * (TAPS_D * TAPS_H * TAPS_W) * f.row;
    const long to = n * f.result_n + channel * f.result_c + z * f.result_stride[0] + y * f.result_stride[1];
#if BIAS
    const T start = LOAD(TYPE, CONST_POINTER(STORAGE(TYPE), bias), channel * f.bias);
#else
    const T start = 0;
#endif
    EACH_OF_LINE(x, f.size[2]) {
      T sum = start;
#pragma unroll
      for (int d = 0; d < TAPS_D; d++) {
        const int pd = point_of(&f, 0, z, d);
#pragma unroll
        for (int h = 0; h < TAPS_H; h++) {
          const int ph = point_of(&f, 1, y, h);
          if (pd < 0 || ph < 0) continue;
          __global const T *row = from + (d * TAPS_H + h) * TAPS_W * f.row +
                                          (pd * (int)f.points[1] + ph) * (int)f.points[2];
#pragma unroll
          for (int w = 0; w < TAPS_W; w++) {
            const int pw = point_of(&f, 2, (int)x, w);
            if (pw >= 0) sum += row[w * f.row + pw];
          }
        }
      }
      STORE(TYPE, POINTER(STORAGE(TYPE), result), to + x * f.result_stride[2], ACTIVATE(sum));
    }
  }
}
