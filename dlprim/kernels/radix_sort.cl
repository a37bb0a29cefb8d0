// SPDX-License-Identifier: MIT
// Stable radix sort, 4 bits a pass, after D. Merrill, A. Grimshaw, "High performance and scalable radix sorting", 2011.
// A work-group sorts a tile of GROUP * ITEMS elements by one digit in local memory; segments of one tile go through all
// digits there, longer ones through `radix_count`, a scan of the counts and `radix_scatter` for every digit.
// Defines: those of lib/sort_keys.clh; GROUP, ITEMS; FIRST, LAST: of the passes.
#include "lib/sort_keys.clh"

#define TILE (GROUP * ITEMS)
#define DIGIT(key, shift) ((uint)((key) >> (shift)) & 15)

// 16 counters of 16 bits.
typedef struct {
  ulong part[4];
} counters;
#define EACH_FIELD 0x0001000100010001UL

inline uint counter(const counters *c, uint digit) {
  const ulong low = digit & 4 ? c->part[1] : c->part[0], high = digit & 4 ? c->part[3] : c->part[2];
  return (uint)((digit & 8 ? high : low) >> (16 * (digit & 3))) & 0xffff;
}

inline void count_digit(counters *c, uint digit) {
  const ulong one = 1UL << (16 * (digit & 3));
#pragma unroll
  for (uint i = 0; i < 4; i++) c->part[i] += digit >> 2 == i ? one : 0;
}

// Counters of all smaller digits.
inline counters before_digit(const counters *c) {
  counters result;
  ulong carry = 0;
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const ulong sums = c->part[i] * EACH_FIELD;
    result.part[i] = (sums << 16) + carry * EACH_FIELD;
    carry += sums >> 48;
  }
  return result;
}

// Positions of a work-item's elements in the tile sorted by a digit; `starts` becomes the first position of each digit.
// `scratch` holds 4 * GROUP numbers; a barrier is needed before it is used again.
inline void find_places(const sort_key *keys, uint shift, __local ulong *scratch, uint *places, counters *starts) {
  const uint item = get_local_id(0);
  counters own = {{0, 0, 0, 0}}, sum;
#pragma unroll
  for (int i = 0; i < ITEMS; i++) {
    places[i] = counter(&own, DIGIT(keys[i], shift));
    count_digit(&own, DIGIT(keys[i], shift));
  }
  sum = own;
  for (uint far = 1; far < GROUP; far *= 2) {
#pragma unroll
    for (int i = 0; i < 4; i++) scratch[i * GROUP + item] = sum.part[i];
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
    for (int i = 0; i < 4; i++) sum.part[i] += item >= far ? scratch[i * GROUP + item - far] : 0;
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  counters all;
  if (item == GROUP - 1)
    for (int i = 0; i < 4; i++) scratch[i] = sum.part[i];
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int i = 0; i < 4; i++) all.part[i] = scratch[i];
  *starts = before_digit(&all);
#pragma unroll
  for (int i = 0; i < 4; i++) sum.part[i] += starts->part[i] - own.part[i];
#pragma unroll
  for (int i = 0; i < ITEMS; i++) places[i] += counter(&sum, DIGIT(keys[i], shift));
}

// Local memory of a tile, without bank conflicts when each work-item reads ITEMS neighbours.
#define TILE_MEMORY (TILE + TILE / ITEMS)
#define SLOT(place) ((place) + (place) / ITEMS)
#define KEEP(memory, values, place)                                    \
  do {                                                                 \
    barrier(CLK_LOCAL_MEM_FENCE);                                      \
    for (uint i = 0; i < ITEMS; i++) memory[SLOT(place)] = values[i];  \
    barrier(CLK_LOCAL_MEM_FENCE);                                      \
  } while (0)
#define READ_NEIGHBOURS(memory, values) \
  for (uint i = 0; i < ITEMS; i++) values[i] = memory[SLOT(item * ITEMS + i)]

#if FIRST
#define READ_KEY(i) key_of(LOAD(T, CONST_POINTER(STORAGE(T), keys), base + (i)))
#define READ_INDEX(i) (uint)(i)
typedef STORAGE(T) key_in;
#else
#define READ_KEY(i) CONST_POINTER(sort_key, keys)[base + (i)]
#define READ_INDEX(i) CONST_POINTER(uint, from)[base + (i)]
typedef sort_key key_in;
#endif

#define BEGIN_TILE                                                                                     \
  const uint item = get_local_id(0), tile = get_group_id(0) % tiles;                                   \
  const ulong segment = get_group_id(0) / tiles, base = segment * n;                                   \
  const uint begin = tile * TILE;                                                                      \
  sort_key key[ITEMS];                                                                                 \
  _Pragma("unroll") for (uint i = 0; i < ITEMS; i++) key[i] = OWN(i) < n ? READ_KEY(OWN(i)) : LAST_KEY;
#define OWN(i) (begin + item + (i) * GROUP)

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void radix_tile(CONST_GLOBAL(key_in, keys), GLOBAL(long, order), uint n) {
  __local ulong scratch[4 * GROUP];
  __local sort_key key_memory[TILE_MEMORY];
  __local uint index_memory[TILE_MEMORY];
  const uint tiles = 1;
  BEGIN_TILE
  uint index[ITEMS], places[ITEMS];
  for (uint i = 0; i < ITEMS; i++) index[i] = item * ITEMS + i;
  KEEP(key_memory, key, item + i * GROUP);
  READ_NEIGHBOURS(key_memory, key);
  counters starts;
  for (uint shift = FIRST_BIT; shift < KEY_BITS; shift += 4) {
    find_places(key, shift, scratch, places, &starts);
    KEEP(key_memory, key, places[i]);
    KEEP(index_memory, index, places[i]);
    READ_NEIGHBOURS(key_memory, key);
    READ_NEIGHBOURS(index_memory, index);
  }
  __global long *order = POINTER(long, order) + base;
  for (uint i = item; i < n; i += GROUP) order[i] = index_memory[SLOT(i)];
}

// counts[segment, digit, tile]
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void radix_count(CONST_GLOBAL(key_in, keys), GLOBAL(int, counts), uint n, uint tiles, uint shift) {
  __local ulong scratch[4][GROUP];
  BEGIN_TILE
  counters c = {{0, 0, 0, 0}};
#pragma unroll
  for (int i = 0; i < ITEMS; i++)
    if (OWN(i) < n) count_digit(&c, DIGIT(key[i], shift));
  for (int i = 0; i < 4; i++) scratch[i][item] = c.part[i];
  for (uint far = GROUP / 2; far > 0; far /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item < far)
      for (int i = 0; i < 4; i++) scratch[i][item] += scratch[i][item + far];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  if (item < 16)
    POINTER(int, counts)[(segment * 16 + item) * tiles + tile] =
        (int)(scratch[item / 4][0] >> (16 * (item % 4)) & 0xffff);
}

// Moves keys and positions to where the running sums of the counts say.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void radix_scatter(CONST_GLOBAL(key_in, keys), CONST_GLOBAL(uint, from), CONST_GLOBAL(int, sums),
                   GLOBAL(sort_key, keys_out), GLOBAL(uint, to), GLOBAL(long, order), uint n, uint tiles, uint shift) {
  __local ulong scratch[4 * GROUP];
  __local sort_key key_memory[TILE_MEMORY];
  __local uint index_memory[TILE_MEMORY];
  __local ulong digit_base[16];
  BEGIN_TILE
  uint index[ITEMS], places[ITEMS];
#pragma unroll
  for (uint i = 0; i < ITEMS; i++) index[i] = OWN(i) < n ? READ_INDEX(OWN(i)) : 0;
  KEEP(key_memory, key, item + i * GROUP);
  KEEP(index_memory, index, item + i * GROUP);
  READ_NEIGHBOURS(key_memory, key);
  READ_NEIGHBOURS(index_memory, index);
  counters starts;
  find_places(key, shift, scratch, places, &starts);
  if (item < 16) {
    const ulong counter_at = (segment * 16 + item) * tiles + tile;
    const ulong before = counter_at == 0 ? 0 : (ulong)(uint)CONST_POINTER(int, sums)[counter_at - 1];
    digit_base[item] = before - counter(&starts, item);
  }
  KEEP(key_memory, key, places[i]);
  KEEP(index_memory, index, places[i]);
  const uint count = min(n - begin, (uint)TILE);
  for (uint i = item; i < count; i += GROUP) {
    const ulong at = digit_base[DIGIT(key_memory[SLOT(i)], shift)] + i;
#if LAST
    POINTER(long, order)[at] = index_memory[SLOT(i)];
#else
    POINTER(sort_key, keys_out)[at] = key_memory[SLOT(i)];
    POINTER(uint, to)[at] = index_memory[SLOT(i)];
#endif
  }
}
