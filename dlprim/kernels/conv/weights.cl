// SPDX-License-Identifier: MIT
// Weights in the order a product reads: to[group, row, column, tap] or, with TAP_OUTER, to[group, row, tap, column].
#include "lib/types.clh"

typedef struct {
  long groups, rows, columns, taps[3];
  long group_stride, row_stride, column_stride, tap_stride[3];
} Shape;

#if TAP_OUTER && defined(CPU_DEVICE)
// A work-item takes BLOCK rows and columns of a tap, 16 of each at a time: in vectors where weights lie along rows, as
// those of channels last do. BYTES: of an element.
#if BYTES == 2 || BYTES == 4
#define T uint
#define VEC uint16
#include "lib/vec16.clh"
#if BYTES == 2
#define STORED(v) convert_ushort16(v)
#else
#define STORED(v) (v)
#endif
inline void swap_block(__global const STORAGE(TYPE) *source, long step, __global STORAGE(TYPE) *target, long pitch) {
  VEC v[16];
  _Pragma("nounroll") for (int k = 0; k < 16; k++) v[k] = convert_uint16(vload16(0, source + k * step));
  transpose16(v);
  _Pragma("unroll") for (int k = 0; k < 16; k++) vstore16(STORED(v[k]), 0, target + k * pitch);
}
#else
#define swap_block(source, step, target, pitch)
#endif

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void conv_weights(CONST_GLOBAL(STORAGE(TYPE), from),
                                                                         GLOBAL(STORAGE(TYPE), to), const Shape s) {
  const long taps = s.taps[0] * s.taps[1] * s.taps[2], plane = s.taps[1] * s.taps[2];
  const long z = get_global_id(2), group = z / taps, tap = z - group * taps, d = tap / plane;
  const long h = (tap - d * plane) / s.taps[2], w = tap - d * plane - h * s.taps[2];
  const long first_row = get_global_id(1) * BLOCK, first = get_global_id(0) * BLOCK, pitch = taps * s.columns;
  __global const STORAGE(TYPE) *source = CONST_POINTER(STORAGE(TYPE), from) + group * s.group_stride +
                                         d * s.tap_stride[0] + h * s.tap_stride[1] + w * s.tap_stride[2];
  __global STORAGE(TYPE) *target = POINTER(STORAGE(TYPE), to) + group * s.rows * pitch + tap * s.columns;
  const long end = min(first_row + BLOCK, s.rows), last = min(first + BLOCK, s.columns);
  for (long row = first_row; row < end; row += 16)
    for (long column = first; column < last; column += 16) {
      if ((BYTES == 2 || BYTES == 4) && s.row_stride == 1 && row + 16 <= end && column + 16 <= last) {
        swap_block(source + row + column * s.column_stride, s.column_stride, target + row * pitch + column, pitch);
        continue;
      }
      for (long i = row; i < min(row + 16, end); i++)
        for (long j = column; j < min(column + 16, last); j++)
          target[i * pitch + j] = source[i * s.row_stride + j * s.column_stride];
    }
}
#elif TAP_OUTER
// A work-group takes 32 rows and columns of a tap through local memory: lanes read along rows, where weights of
// channels last lie, and write along columns. The host defines STEP, the rows that a group copies at once.
#define TILE 32
__kernel __attribute__((reqd_work_group_size(TILE, STEP, 1)))
void conv_weights(CONST_GLOBAL(STORAGE(TYPE), from), GLOBAL(STORAGE(TYPE), to), const Shape s) {
  __local STORAGE(TYPE) tile[TILE][TILE + 1];
  const int x = get_local_id(0), y = get_local_id(1);
  const int first_column = get_group_id(0) * TILE, first_row = get_group_id(1) * TILE;
  const int taps = s.taps[0] * s.taps[1] * s.taps[2], z = get_global_id(2), group = z / taps, tap = z - group * taps;
  const int plane = s.taps[1] * s.taps[2], d = tap / plane, h = (tap - d * plane) / s.taps[2];
  const int w = tap - d * plane - h * s.taps[2];
  __global const STORAGE(TYPE) *source = CONST_POINTER(STORAGE(TYPE), from) + group * s.group_stride +
                                         d * s.tap_stride[0] + h * s.tap_stride[1] + w * s.tap_stride[2];
#pragma unroll
  for (int k = 0; k < TILE; k += STEP) {
    const int row = first_row + x, column = first_column + y + k;
    if (row < s.rows && column < s.columns) tile[y + k][x] = source[row * s.row_stride + column * s.column_stride];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  __global STORAGE(TYPE) *target = POINTER(STORAGE(TYPE), to);
#pragma unroll
  for (int k = 0; k < TILE; k += STEP) {
    const long row = first_row + y + k;
    const int column = first_column + x;
    if (row < s.rows && column < s.columns)
      target[((group * s.rows + row) * taps + tap) * s.columns + column] = tile[x][y + k];
  }
}
#else
// All taps of a (group, row, column).
inline void copy_taps(__global const STORAGE(TYPE) *from, __global STORAGE(TYPE) *to, long group, long row, long column,
                      const Shape *s) {
  const int taps_d = s->taps[0], taps_h = s->taps[1], taps_w = s->taps[2];
  __global const STORAGE(TYPE) *source =
      from + group * s->group_stride + row * s->row_stride + column * s->column_stride;
  __global STORAGE(TYPE) *target = to + ((group * s->rows + row) * s->columns + column) * (taps_d * taps_h * taps_w);
  for (int d = 0; d < taps_d; d++)
    for (int h = 0; h < taps_h; h++)
      for (int w = 0; w < taps_w; w++, target++)
        *target = source[d * s->tap_stride[0] + h * s->tap_stride[1] + w * s->tap_stride[2]];
}

#ifdef CPU_DEVICE
// A work-item takes BLOCK rows and columns, so that it uses whole lines of the cache on both sides.
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void conv_weights(CONST_GLOBAL(STORAGE(TYPE), from),
                                                                         GLOBAL(STORAGE(TYPE), to), const Shape s) {
  const long column = get_global_id(0) * BLOCK, row = get_global_id(1) * BLOCK, group = get_global_id(2);
  const long end = min(row + BLOCK, s.rows), last = min(column + BLOCK, s.columns);
  __global const STORAGE(TYPE) *source = CONST_POINTER(STORAGE(TYPE), from);
  __global STORAGE(TYPE) *target = POINTER(STORAGE(TYPE), to);
  if (s.taps[0] * s.taps[1] * s.taps[2] > 1) {
    for (long i = row; i < end; i++)
      for (long j = column; j < last; j++) copy_taps(source, target, group, i, j, &s);
    return;
  }
  source += group * s.group_stride, target += group * s.rows * s.columns;
  for (long i = row; i < end; i++)
    for (long j = column; j < last; j++)
      target[i * s.columns + j] = source[i * s.row_stride + j * s.column_stride];
}
#else
__kernel void conv_weights(CONST_GLOBAL(STORAGE(TYPE), from), GLOBAL(STORAGE(TYPE), to), const Shape s) {
  if (get_global_id(0) < s.columns)
    copy_taps(CONST_POINTER(STORAGE(TYPE), from), POINTER(STORAGE(TYPE), to), get_global_id(2), get_global_id(1),
              get_global_id(0), &s);
}
#endif
#endif
