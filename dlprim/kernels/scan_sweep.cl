// SPDX-License-Identifier: MIT
// Inclusive scan of dense rows by work-groups that read and write each number once, tile by tile.
//   scan_rows    a work-group takes a row
//   scan_sweep   of long rows a tile each: it tells its total and waits for the totals before it
// The latter is after D. Merrill and M. Garland, "Single-pass parallel prefix scan with decoupled look-back", 2016.
// Unlike there, totals are combined in a fixed order, so that the same input gives the same bits: a tile adds the totals
// of whole blocks of 1024 tiles, of 32 tiles, and of single tiles before it. Work-groups wait for those that took a
// ticket before: a device must go on with a work-group that it has begun.
// Defines: those of lib/scan.clh, ACC_WORDS (ACC_T's size in 32-bit words), GROUP (at least 96), ITEMS (a multiple of
// 4), FOURS: rows begin where vectors of four elements may, SWEEPS: scan_sweep; INDEXED, rows of fewer than 2^32 - 1.
#define SCAN_INDEX uint
#include "lib/scan.clh"
#include "lib/types.clh"
#include "lib/warp.clh"

#define WARPS (GROUP / 32)
#define TILE (GROUP * ITEMS)
#define CHUNKS (ITEMS / 4)
#define BLOCK 32  // tiles whose total is told, and so on

#if ACC_WORDS == 1
typedef uint acc_bits;
#else
typedef ulong acc_bits;
#endif
#define ACC_BITS(v) CONCAT(bits_of_, ACC_TAG)(v)
#define ACC_OF(bits) CONCAT(acc_of_, ACC_TAG)(bits)
#define bits_of_f32(v) as_uint(v)
#define bits_of_i32(v) as_uint(v)
#define bits_of_u32(v) (v)
#define bits_of_f64(v) as_ulong(v)
#define bits_of_i64(v) as_ulong(v)
#define bits_of_u64(v) (v)
#define bits_of_c64(v) as_ulong(v)
#define acc_of_f32(bits) as_float(bits)
#define acc_of_i32(bits) as_int(bits)
#define acc_of_u32(bits) (bits)
#define acc_of_f64(bits) as_double(bits)
#define acc_of_i64(bits) as_long(bits)
#define acc_of_u64(bits) (bits)
#define acc_of_c64(bits) as_float2(bits)

#ifdef NV_PTX
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("nounroll")  // or compilers take minutes over shuffles by local memory
#endif

// What a work-item keeps of its elements: running totals, or where those take more registers the numbers themselves.
#if INDEXED || PAIRS
typedef VALUE(T_TAG) kept_t;
#define KEEP(value, index) (value)
#define ACC_OF_KEPT(kept, index) to_acc(kept, index)
#else
typedef acc_t kept_t;
#define KEEP(value, index) to_acc(value, index)
#define ACC_OF_KEPT(kept, index) (kept)
#endif

// The total of the work-item `far` before this one in the warp, its own where there is none; and the last one's.
#ifdef NV_PTX
inline acc_t from_before(acc_t acc, uint far, __local acc_t *scratch) {
  acc.v = ACC_OF(shuffle_up(ACC_BITS(acc.v), far));
#if INDEXED
  acc.i = shuffle_up(acc.i, far);
#endif
  return acc;
}
inline acc_t from_last(acc_t acc, __local acc_t *scratch) {
  acc.v = ACC_OF(shuffle_last(ACC_BITS(acc.v)));
#if INDEXED
  acc.i = shuffle_last(acc.i);
#endif
  return acc;
}
#else
inline acc_t from_item(acc_t acc, uint item, __local acc_t *scratch) {
  barrier(CLK_LOCAL_MEM_FENCE);
  scratch[get_local_id(0)] = acc;
  barrier(CLK_LOCAL_MEM_FENCE);
  return scratch[item];
}
inline acc_t from_before(acc_t acc, uint far, __local acc_t *scratch) {
  const uint item = get_local_id(0);
  return from_item(acc, item % 32 >= far ? item - far : item, scratch);
}
inline acc_t from_last(acc_t acc, __local acc_t *scratch) { return from_item(acc, get_local_id(0) | 31, scratch); }
#endif

// Totals of the warp up to this work-item, by a function of (earlier, later).
#define SCAN_WARP(acc, by, scratch)                         \
  UNROLL for (uint far = 1; far < 32; far *= 2) {           \
    const acc_t prior = from_before(acc, far, scratch);    \
    if (get_local_id(0) % 32 >= far) acc = by(prior, acc); \
  }

// What follows holds arrays in registers, and so must become part of the kernels.
// A work-item's elements of a tile begin at OWN, OWN + 128, ..., four each; the tile has `count`, begins at `first`.
#define OWN (get_local_id(0) / 32 * (32 * ITEMS) + get_local_id(0) % 32 * 4)

__attribute__((always_inline))
inline void load_tile(__global const STORAGE(T_TAG) *from, uint count, uint first, kept_t *kept) {
#pragma unroll
  for (uint c = 0; c < CHUNKS; c++) {
    const uint at = OWN + c * 128;
#if FOURS
    if (at + 4 <= count) {
      const FOUR(T_TAG) four = *(__global const FOUR(T_TAG) *)(from + at);
      kept[4 * c] = KEEP(DECODE(T_TAG, four.x), first + at);
      kept[4 * c + 1] = KEEP(DECODE(T_TAG, four.y), first + at + 1);
      kept[4 * c + 2] = KEEP(DECODE(T_TAG, four.z), first + at + 2);
      kept[4 * c + 3] = KEEP(DECODE(T_TAG, four.w), first + at + 3);
    } else
#endif
#pragma unroll
      for (uint k = 0; k < 4; k++) {  // what comes after the last element does not matter
        VALUE(T_TAG) value = 0;
        if (at + k < count) value = LOAD(T_TAG, from, at + k);
        kept[4 * c + k] = KEEP(value, first + at + k);
      }
  }
}

// before[c]: the warp's elements before those of number 4 * c. *of_warps: warps before this one; *of_tile: the tile.
__attribute__((always_inline))
inline void scan_tile(kept_t *kept, uint first, acc_t *before, acc_t *of_warps, acc_t *of_tile,
                      __local acc_t *warp_totals, __local acc_t *scratch) {
  const uint lane = get_local_id(0) % 32, warp = get_local_id(0) / 32;
#pragma unroll
  for (uint c = 0; c < CHUNKS; c++) {
    acc_t four = ACC_OF_KEPT(kept[4 * c], first + OWN + c * 128);
    for (uint k = 1; k < 4; k++) {
      four = combine(four, ACC_OF_KEPT(kept[4 * c + k], first + OWN + c * 128 + k));
#if !INDEXED && !PAIRS
      kept[4 * c + k] = four;
#endif
    }
    SCAN_WARP(four, combine, scratch)
    before[c] = four;
  }
  acc_t total = no_elements();
#pragma unroll
  for (uint c = 0; c < CHUNKS; c++) {
    const acc_t up_to = before[c], earlier = from_before(up_to, 1, scratch);
    before[c] = lane > 0 ? combine(total, earlier) : total;
    total = combine(total, from_last(up_to, scratch));
  }
  if (lane == 31) warp_totals[warp] = total;
  barrier(CLK_LOCAL_MEM_FENCE);
  *of_warps = *of_tile = no_elements();
  for (uint w = 0; w < WARPS; w++) {
    if (w == warp) *of_warps = *of_tile;
    *of_tile = combine(*of_tile, warp_totals[w]);
  }
}

// `earlier`: of all elements before the warp's.
__attribute__((always_inline))
inline void store_tile(__global STORAGE(T_TAG) *to, __global long *indices, uint count, uint first,
                       const kept_t *kept, const acc_t *before, acc_t earlier) {
#pragma unroll
  for (uint c = 0; c < CHUNKS; c++) {
    const uint at = OWN + c * 128;
    const acc_t prefix = combine_any(earlier, before[c]);
    acc_t result[4];
    for (uint k = 0; k < 4; k++) {
#if INDEXED || PAIRS
      result[k] = combine(k > 0 ? result[k - 1] : prefix, to_acc(kept[4 * c + k], first + at + k));
#else
      result[k] = combine(prefix, kept[4 * c + k]);
#endif
    }
#if FOURS
    if (at + 4 <= count) {
      FOUR(T_TAG) four;
      four.x = ENCODE(T_TAG, ACC_VALUE(result[0])), four.y = ENCODE(T_TAG, ACC_VALUE(result[1]));
      four.z = ENCODE(T_TAG, ACC_VALUE(result[2])), four.w = ENCODE(T_TAG, ACC_VALUE(result[3]));
      *(__global FOUR(T_TAG) *)(to + at) = four;
#if INDEXED
      *(__global long4 *)(indices + at) = (long4)(result[0].i, result[1].i, result[2].i, result[3].i);
#endif
    } else
#endif
      for (uint k = 0; k < 4; k++) {
        if (at + k >= count) continue;
        STORE(T_TAG, to, at + k, ACC_VALUE(result[k]));
#if INDEXED
        indices[at + k] = result[k].i;
#endif
      }
  }
}

#if SWEEPS

// A total as others see it: words of which each tells that it is there, by its upper bits or by an index above 0.
#define THERE (1UL << 32)
#if INDEXED && ACC_WORDS == 1
#define STATE_WORDS 1
#else
#define STATE_WORDS (ACC_WORDS + INDEXED)
#endif

inline void tell(volatile __global ulong *at, acc_t total) {
  const acc_bits bits = ACC_BITS(total.v);
#if INDEXED && ACC_WORDS == 1
  at[0] = (ulong)bits << 32 | (total.i + 1);
#else
  at[0] = THERE | (uint)bits;
#if ACC_WORDS == 2
  at[1] = THERE | bits >> 32;
#endif
#if INDEXED
  at[2] = THERE | total.i;
#endif
#endif
}

inline acc_t wait_for(volatile __global ulong *at) {
  acc_t total;
  ulong word;
#if INDEXED && ACC_WORDS == 1
  do word = at[0];
  while (!(uint)word);
  total.v = ACC_OF((acc_bits)(word >> 32)), total.i = (uint)word - 1;
#else
  do word = at[0];
  while (!(word & THERE));
  acc_bits bits = (uint)word;
#if ACC_WORDS == 2
  do word = at[1];
  while (!(word & THERE));
  bits |= word << 32;
#endif
  total.v = ACC_OF(bits);
#if INDEXED
  do word = at[2];
  while (!(word & THERE));
  total.i = (uint)word;
#endif
#endif
  return total;
}

// states, zero at first: for each row, totals of its tiles, of blocks, and of blocks of blocks.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void scan_sweep(GLOBAL(STORAGE(T_TAG), y), GLOBAL(long, indices), CONST_GLOBAL(STORAGE(T_TAG), x),
                GLOBAL(ulong, states), GLOBAL(uint, ticket), ulong n, uint tiles) {
  __local acc_t scratch[GROUP], warp_totals[WARPS], before_levels[3];
  __local uint taken;
  const uint item = get_local_id(0), lane = item % 32, warp = item / 32;
  if (item == 0) taken = atomic_inc((volatile __global uint *)POINTER(uint, ticket));
  barrier(CLK_LOCAL_MEM_FENCE);
  const uint tile = taken % tiles, row = taken / tiles, block = tile / BLOCK, blocks = (tiles - 1) / BLOCK + 1;
  const ulong begin = (ulong)row * n + (ulong)tile * TILE;
  const uint count = (uint)min(n - (ulong)tile * TILE, (ulong)TILE), first = tile * TILE;

  kept_t kept[ITEMS];
  acc_t before[CHUNKS], of_warps, of_tile;
  load_tile(CONST_POINTER(STORAGE(T_TAG), x) + begin, count, first, kept);
  scan_tile(kept, first, before, &of_warps, &of_tile, warp_totals, scratch);

  // The first three warps look at a level each.
  volatile __global ulong *level0 =
      POINTER(ulong, states) + (ulong)row * STATE_WORDS * (tiles + blocks + (blocks - 1) / BLOCK + 1);
  volatile __global ulong *level1 = level0 + (ulong)STATE_WORDS * tiles, *level2 = level1 + STATE_WORDS * blocks;
  if (item == 0) tell(level0 + (ulong)STATE_WORDS * tile, of_tile);
  volatile __global ulong *level = warp == 0   ? level0 + (ulong)STATE_WORDS * block * BLOCK
                                   : warp == 1 ? level1 + STATE_WORDS * (block / BLOCK * BLOCK)
                                               : level2;
  const uint known = warp == 0 ? tile % BLOCK : warp == 1 ? block % BLOCK : warp == 2 ? block / BLOCK : 0;
  acc_t sum = no_elements();
  for (uint i = lane; i < known; i += 32) sum = combine_any(sum, wait_for(level + STATE_WORDS * i));
  SCAN_WARP(sum, combine_any, scratch)
  if (lane == 31 && warp < 3) before_levels[warp] = sum;
  if (item == 31 && tile % BLOCK == BLOCK - 1) tell(level1 + STATE_WORDS * block, combine_any(sum, of_tile));
  barrier(CLK_LOCAL_MEM_FENCE);
  const acc_t of_block = combine_any(before_levels[1], before_levels[0]);
  if (item == 0 && tile % (BLOCK * BLOCK) == BLOCK * BLOCK - 1)
    tell(level2 + STATE_WORDS * (block / BLOCK), combine_any(of_block, of_tile));
  const acc_t earlier = combine_any(combine_any(before_levels[2], of_block), of_warps);
  store_tile(POINTER(STORAGE(T_TAG), y) + begin, POINTER(long, indices) + begin, count, first, kept, before, earlier);
}

#else

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void scan_rows(GLOBAL(STORAGE(T_TAG), y), GLOBAL(long, indices), CONST_GLOBAL(STORAGE(T_TAG), x), ulong n,
               uint tiles) {
  __local acc_t scratch[GROUP], warp_totals[2 * WARPS];
  acc_t carry = no_elements();
  for (uint tile = 0; tile < tiles; tile++) {
    const ulong begin = (ulong)get_group_id(0) * n + (ulong)tile * TILE;
    const uint count = (uint)min(n - (ulong)tile * TILE, (ulong)TILE), first = tile * TILE;
    kept_t kept[ITEMS];
    acc_t before[CHUNKS], of_warps, of_tile;
    load_tile(CONST_POINTER(STORAGE(T_TAG), x) + begin, count, first, kept);
    // Two halves in turn, so that no warp writes its total where others still read the last ones.
    scan_tile(kept, first, before, &of_warps, &of_tile, warp_totals + tile % 2 * WARPS, scratch);
    store_tile(POINTER(STORAGE(T_TAG), y) + begin, POINTER(long, indices) + begin, count, first, kept, before,
               combine_any(carry, of_warps));
    carry = combine(carry, of_tile);
  }
}

#endif
