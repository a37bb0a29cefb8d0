// SPDX-License-Identifier: MIT
// Weights in the order a product reads them: to[group, row, column, tap] or, with TAP_OUTER, to[group, row, tap, column].
#include "lib/types.clh"

typedef struct {
  long groups, rows, columns, taps[3];
  long group_stride, row_stride, column_stride, tap_stride[3];
} Shape;

// One work-item a (group, row, column): it copies all taps.
__kernel void conv_weights(CONST_GLOBAL(STORAGE(TYPE), from), GLOBAL(STORAGE(TYPE), to), const Shape s) {
  const uint column = get_global_id(0), row = get_global_id(1), group = get_global_id(2);
  if (column >= s.columns) return;
  const int taps_d = s.taps[0], taps_h = s.taps[1], taps_w = s.taps[2], taps = taps_d * taps_h * taps_w;
  __global const STORAGE(TYPE) *source = CONST_POINTER(STORAGE(TYPE), from) + group * s.group_stride +
                                         row * s.row_stride + column * s.column_stride;
  __global STORAGE(TYPE) *target = POINTER(STORAGE(TYPE), to) + (group * s.rows + row) * s.columns * taps;
#if TAP_OUTER
  target += column;
  const long step = s.columns;
#else
  target += (long)column * taps;
  const long step = 1;
#endif
  for (int d = 0; d < taps_d; d++)
    for (int h = 0; h < taps_h; h++)
      for (int w = 0; w < taps_w; w++, target += step)
        *target = source[d * s.tap_stride[0] + h * s.tap_stride[1] + w * s.tap_stride[2]];
}
