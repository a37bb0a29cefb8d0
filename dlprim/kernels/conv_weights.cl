// SPDX-License-Identifier: MIT
// Weights in the order a product reads them: to[group, row, column, tap] or, with TAP_OUTER, to[group, row, tap, column].
#include "lib/types.clh"

typedef struct {
  long groups, rows, columns, taps[3];
  long group_stride, row_stride, column_stride, tap_stride[3];
} Shape;

__kernel void conv_weights(CONST_GLOBAL(STORAGE(TYPE), from), GLOBAL(STORAGE(TYPE), to), const Shape s) {
  const long taps = s.taps[0] * s.taps[1] * s.taps[2];
  const long id = get_global_id(0);
  if (id >= s.groups * s.rows * s.columns * taps) return;
#if TAP_OUTER
  long rest = id / s.columns;
  const long column = id - rest * s.columns;
  const long tap = rest % taps;
  rest /= taps;
#else
  long rest = id / taps;
  const long tap = id - rest * taps;
  const long column = rest % s.columns;
  rest /= s.columns;
#endif
  const long row = rest % s.rows, group = rest / s.rows;
  const long w = tap % s.taps[2], h = tap / s.taps[2] % s.taps[1], d = tap / (s.taps[2] * s.taps[1]);
  POINTER(STORAGE(TYPE), to)[id] =
      CONST_POINTER(STORAGE(TYPE), from)[group * s.group_stride + row * s.row_stride + column * s.column_stride +
                                         d * s.tap_stride[0] + h * s.tap_stride[1] + w * s.tap_stride[2]];
}
