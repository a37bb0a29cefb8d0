// SPDX-License-Identifier: MIT
// to[i + j * to_stride] = from[j + i * from_stride] for every matrix of a batch: a copy between a row-major and a
// column-major layout. FROM, TO: tags; CAST(v) converts; BATCH_DIMS dimensions besides the two; on GPUs
// work-groups of TILE x LINES. BITS: 16 or 32 where elements of so many are copied as they are, else 0.
#include "lib/types.clh"
#include "lib/indexing.clh"

typedef struct {
  uint width, height;
  int from_stride, to_stride;
  Divider sizes[MAX_BATCH_DIMS];
  int from_strides[MAX_BATCH_DIMS], to_strides[MAX_BATCH_DIMS];
} Parameters;

#if defined(CPU_DEVICE) && BITS
#define T uint
#define VEC uint16
#include "lib/vec16.clh"
#if BITS == 16
#define AS_STORED(v) convert_ushort16(v)
typedef ushort bits_t;
#else
#define AS_STORED(v) (v)
typedef uint bits_t;
#endif
// Whole blocks of 16 x 16 elements, in registers.
inline void transpose_blocks(__global bits_t *y, int to_stride, __global const bits_t *x, int from_stride, int width,
                             int height) {
  for (int j = 0; j < height; j += 16)
    for (int i = 0; i < width; i += 16) {
      VEC v[16];
      _Pragma("unroll") for (int k = 0; k < 16; k++)
        v[k] = convert_uint16(vload16(0, x + j + (i + k) * from_stride));
      transpose16(v);
      _Pragma("unroll") for (int k = 0; k < 16; k++) vstore16(AS_STORED(v[k]), 0, y + i + (j + k) * to_stride);
    }
}
#endif

#ifndef CPU_DEVICE
__attribute__((reqd_work_group_size(TILE, LINES, 1)))
#elif BITS  // else compilers make vectors of neighbouring tiles
__attribute__((reqd_work_group_size(1, 1, 1)))
#endif
__kernel void transpose(GLOBAL(STORAGE(TO), to), CONST_GLOBAL(STORAGE(FROM), from), const Parameters p) {
  __global STORAGE(TO) *restrict y = POINTER(STORAGE(TO), to);
  __global const STORAGE(FROM) *restrict x = CONST_POINTER(STORAGE(FROM), from);
  uint batch = get_global_id(2);
#pragma unroll
  for (int d = 0; d < BATCH_DIMS; d++) {
    uint at;
    batch = divide_rest(batch, p.sizes[d], &at);
    y += (int)at * p.to_strides[d];
    x += (int)at * p.from_strides[d];
  }
  const uint left = get_group_id(0) * TILE, top = get_group_id(1) * TILE;
#ifdef CPU_DEVICE
  const uint right = min(left + TILE, p.width), bottom = min(top + TILE, p.height);
  uint done_i = 0, done_j = 0;  // of the tile by blocks
#if BITS
  done_i = (right - left) / 16 * 16, done_j = (bottom - top) / 16 * 16;
  transpose_blocks((__global bits_t *)y + left + (int)top * p.to_stride, p.to_stride,
                   (__global const bits_t *)x + top + (int)left * p.from_stride, p.from_stride, done_i, done_j);
#endif
  for (uint j = top; j < bottom; j++)
    for (uint i = j < top + done_j ? left + done_i : left; i < right; i++)
      STORE(TO, y, i + (int)j * p.to_stride, CAST(LOAD(FROM, x, j + (int)i * p.from_stride)));
#else
  __local STORAGE(FROM) block[TILE][TILE + 1];
  const uint column = get_local_id(0);
  for (uint k = get_local_id(1); k < TILE; k += LINES)
    if (left + k < p.width && top + column < p.height)
      block[k][column] = x[top + column + (int)(left + k) * p.from_stride];
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint k = get_local_id(1); k < TILE; k += LINES)
    if (left + column < p.width && top + k < p.height)
      STORE(TO, y, left + column + (int)(top + k) * p.to_stride, CAST(LOAD(FROM, block[column], k)));
#endif
}
