// SPDX-License-Identifier: MIT
// Packed weights [rows, k] as numbers of type T. The host defines T, SCALE, ZERO (tags), ZEROS (0 no zero points,
// 1 subtracted, 2 added) and what lib/packed_weights.clh needs.
#include "lib/packed_weights.clh"

typedef struct {
  ulong count, k, group;  // weights; those of a row; those that share a scale
  long scale_n, scale_k, zero_n, zero_k;
  float middle;
  uint unused;
} Parameters;

#define ARGUMENTS                                                                                                 \
  CONST_GLOBAL(uint, w_data), CONST_GLOBAL(STORAGE(SCALE), scales), CONST_GLOBAL(STORAGE(ZERO), zeros),           \
      CONST_GLOBAL(float, table_data), GLOBAL(STORAGE(T), out), const Parameters p

// Weights of number q in a row and group: factor * q + shift.
#define FIND_SCALE(row, group)                                                                                    \
  const float factor =                                                                                            \
      LOAD(SCALE, CONST_POINTER(STORAGE(SCALE), scales), (long)(row) * p.scale_n + (long)(group) * p.scale_k);    \
  FIND_ZERO(row, group)
#define ZERO_OF(row, group) \
  (float)LOAD(ZERO, CONST_POINTER(STORAGE(ZERO), zeros), (long)(row) * p.zero_n + (long)(group) * p.zero_k)
#if ZEROS == 1
#define FIND_ZERO(row, group) const float middle = p.middle + ZERO_OF(row, group), added = 0;
#elif ZEROS == 2
#define FIND_ZERO(row, group) const float middle = p.middle, added = ZERO_OF(row, group);
#else
#define FIND_ZERO(row, group) const float middle = p.middle, added = 0;
#endif
#define WEIGHT(q) ENCODE(T, factor * ((q) - middle) + added)

#if FORMAT == TABLE4
#define TABLE_SIZE 16
#elif FORMAT == TABLE8
#define TABLE_SIZE 256
#endif
#ifdef TABLE_SIZE
#define READ_TABLE                                                       \
  __local float table[TABLE_SIZE];                                       \
  for (uint i = get_local_id(0); i < TABLE_SIZE; i += get_local_size(0)) \
    table[i] = CONST_POINTER(float, table_data)[i];                      \
  barrier(CLK_LOCAL_MEM_FENCE);
#else
#define READ_TABLE
#define table 0
#endif

// A work-item a part of eight weights. Rows and groups are multiples of eight; memory is aligned to 16 bytes.
__kernel void unpack_parts(ARGUMENTS) {
  READ_TABLE
  const ulong part = global_id();
  if (part * 8 >= p.count) return;
  __global const uint *words = CONST_POINTER(uint, w_data) + part * PART_WORDS;
  uint w[PART_WORDS];
  for (uint i = 0; i < PART_WORDS; i++) w[i] = words[i];
  const float8 v = ordered(w, 0, table) * Q_SCALE + Q_SHIFT;
  const float numbers[8] = {v.s0, v.s1, v.s2, v.s3, v.s4, v.s5, v.s6, v.s7};
#if FORMAT == INT4_TILES
  const ulong tile = part / (32 * WORDS), tiles = p.k / (32 * WORDS);  // tiles of eight rows
  const uint lane = part / WORDS % 32;
  const ulong row = tile / tiles * 8 + lane / 4;
  const ulong k = tile % tiles * (32 * WORDS) + 32 * (part % WORDS) + 2 * (lane % 4);
#else
  const ulong row = part * 8 / p.k, k = part * 8 - row * p.k;
#endif
  FIND_SCALE(row, k / p.group)
  __global STORAGE(T) *y = POINTER(STORAGE(T), out) + row * p.k + k;
#if FORMAT == INT4_TILES
  for (uint i = 0; i < 8; i++) y[PART_STEP(i)] = WEIGHT(numbers[i]);
#else
  EIGHT(T) e;
  for (uint i = 0; i < 8; i++) e.each[i] = WEIGHT(numbers[i]);
  STORE_EIGHT(y, e);
#endif
}

// A work-item a weight, of any layout but tiles.
__kernel void unpack_each(ARGUMENTS) {
  READ_TABLE
  const ulong place = global_id();
  if (place >= p.count) return;
  const ulong row = place / p.k, k = place - row * p.k;
#if FORMAT == INT8
  const float q = CONST_POINTER(char, w_data)[place];
#elif FORMAT == TABLE8
  const float q = table[CONST_POINTER(uchar, w_data)[place]];
#elif FORMAT == TABLE4
  const float q = table[CONST_POINTER(uchar, w_data)[place / 2] >> (place % 2 ? 0 : 4) & 15];
#else
  const float q = CONST_POINTER(uchar, w_data)[place / 2] >> (place % 2 ? 4 : 0) & 15;
#endif
  FIND_SCALE(row, k / p.group)
  POINTER(STORAGE(T), out)[place] = WEIGHT(q);
}
