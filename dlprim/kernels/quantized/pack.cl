// SPDX-License-Identifier: MIT
// Making packed weights.
#include "lib/types.clh"

// A work-item a word of the result, see WeightFormat::int4_tiles; `words` (1, 2 or 4) are a lane's in a tile. Bytes hold
// two numbers, the first in the high bits; `columns` of them are a row.
__kernel void interleave(GLOBAL(uint, out), CONST_GLOBAL(uchar, weights), ulong count, ulong rows, ulong columns,
                         uint words) {
  const ulong i = global_id();
  if (i >= count) return;
  const ulong tile = i / (32 * words), tiles = columns / (16 * words);
  const uint lane = i / words % 32;
  const ulong row = tile / tiles * 8 + lane / 4;
  const ulong column = tile % tiles * (16 * words) + i % words * 16 + lane % 4;
  uint word = 0;
  if (row < rows) {
    __global const uchar *from = CONST_POINTER(uchar, weights) + row * columns + column;
    for (uint j = 0; j < 4; j++) {
      const uint pair = from[4 * j];
      word |= (pair >> 4) << 4 * j | (pair & 15) << (16 + 4 * j);
    }
  }
  POINTER(uint, out)[i] = word;
}

#ifdef ENTRIES
// A work-group of ITEMS work-items a block: the largest magnitude, then the positions of the nearest entries of a table
// that ascends. The host defines T (tag of x), ENTRIES (16 or 256), NAMED where entries have other names than their
// positions.
#define LEVELS (ENTRIES == 16 ? 4 : 8)

inline uint nearest(float v, __local const float *bounds, CONST_GLOBAL(uchar, names)) {
  uint place = 0;  // how many of the ENTRIES - 1 bounds are below v
  for (uint step = ENTRIES / 2; step > 0; step /= 2)
    if (bounds[place + step - 1] < v) place += step;
#ifdef NAMED
  return CONST_POINTER(uchar, names)[place];
#else
  return place;
#endif
}

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
void quantize_blocks(GLOBAL(uchar, out), GLOBAL(float, scales), CONST_GLOBAL(STORAGE(T), x_data),
                     CONST_GLOBAL(float, table), CONST_GLOBAL(uchar, names), ulong count, uint block) {
  __local float bounds[ENTRIES], largest[ITEMS];
  const uint item = get_local_id(0);
  __global const float *entries = CONST_POINTER(float, table);
  for (uint i = item; i + 1 < ENTRIES; i += ITEMS) bounds[i] = (entries[i] + entries[i + 1]) / 2;
  const ulong first = (ulong)get_group_id(0) * block;
  const uint here = (uint)min(count - first, (ulong)block);
  __global const STORAGE(T) *x = CONST_POINTER(STORAGE(T), x_data) + first;
  float magnitude = 0;
  for (uint i = item; i < here; i += ITEMS) {
    const float v = fabs(LOAD(T, x, i));
    magnitude = v > magnitude || v != v ? v : magnitude;
  }
  largest[item] = magnitude;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint half_way = ITEMS / 2; half_way > 0; half_way /= 2) {
    if (item < half_way) {
      const float a = largest[item], b = largest[item + half_way];
      largest[item] = b > a || b != b ? b : a;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  const float positive = fmax(largest[0], 1e-38f), factor = 1 / positive;
  if (item == 0) POINTER(float, scales)[get_group_id(0)] = here < block ? positive : largest[0];
#define PLACE(i) nearest(clamp(LOAD(T, x, i) * factor, -1.0f, 1.0f), bounds, names_memory, names_offset)
#if ENTRIES == 256
  __global uchar *y = POINTER(uchar, out) + first;
  for (uint i = item; i < here; i += ITEMS) y[i] = (uchar)PLACE(i);
#else
  __global uchar *y = POINTER(uchar, out) + first / 2;  // blocks are even
  for (uint i = item; i < (here + 1) / 2; i += ITEMS) {
    const uint high = PLACE(2 * i);
    const uint low = 2 * i + 1 < here ? PLACE(2 * i + 1) : nearest(0, bounds, names_memory, names_offset);
    y[i] = (uchar)(high << 4 | low);
  }
#endif
}
#endif
