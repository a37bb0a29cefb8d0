// SPDX-License-Identifier: MIT
// Inclusive scan of long rows in one sweep: each number is read and written once. A work-group scans a tile, tells its
// total and waits for the totals before it, after D. Merrill and M. Garland, "Single-pass parallel prefix scan with
// decoupled look-back", 2016. Unlike there, totals are combined in a fixed order, so that the same input gives the same
// bits: a tile adds the totals of whole blocks of 1024 tiles, of 32 tiles, and of single tiles before it.
// Work-groups wait for those that took a ticket before: a device must go on with a work-group that it has begun.
// Defines: T_TAG, ACC_TAG, ACC_T, ACC_WORDS (its size in 32-bit words), IDENTITY, COMBINE (of a, then b), GROUP (at least
// 96), ITEMS (a multiple of 4), FOURS: rows begin where vectors of four elements may.
#include "lib/scan.clh"
#include "lib/types.clh"
#include "lib/warp.clh"

#define WARPS (GROUP / 32)
#define TILE (GROUP * ITEMS)
#define CHUNKS (ITEMS / 4)
#define BLOCK 32  // tiles whose total is told, and so on

#if ACC_WORDS == 1
typedef uint acc_bits;
#define ACC_BITS(v) as_uint(v)
#else
typedef ulong acc_bits;
#define ACC_BITS(v) as_ulong(v)
#endif
#define ACC_OF(bits) CONCAT(acc_of_, ACC_TAG)(bits)
#define acc_of_f32(bits) as_float(bits)
#define acc_of_i32(bits) as_int(bits)
#define acc_of_f64(bits) as_double(bits)
#define acc_of_i64(bits) as_long(bits)

#ifdef NV_PTX
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("nounroll")  // or compilers take minutes over shuffles by local memory
#endif

inline ACC_T combine(ACC_T a, ACC_T b) { return COMBINE; }

// The value of the work-item `far` before this one in the warp, its own where there is none; and the last one's.
#ifdef NV_PTX
#define FROM_BEFORE(v, far, scratch) ACC_OF(shuffle_up(ACC_BITS(v), far))
#define FROM_LAST(v, scratch) ACC_OF(shuffle_last(ACC_BITS(v)))
#else
#define FROM_BEFORE(v, far, scratch) from_item(v, get_local_id(0) % 32 >= far ? get_local_id(0) - far : get_local_id(0), scratch)
#define FROM_LAST(v, scratch) from_item(v, get_local_id(0) | 31, scratch)
inline ACC_T from_item(ACC_T v, uint item, __local ACC_T *scratch) {
  barrier(CLK_LOCAL_MEM_FENCE);
  scratch[get_local_id(0)] = v;
  barrier(CLK_LOCAL_MEM_FENCE);
  return scratch[item];
}
#endif

// Values of the warp up to this work-item, combined.
inline ACC_T scan_warp(ACC_T v, __local ACC_T *scratch) {
  UNROLL for (uint far = 1; far < 32; far *= 2) {
    const ACC_T before = FROM_BEFORE(v, far, scratch);
    if (get_local_id(0) % 32 >= far) v = combine(before, v);
  }
  return v;
}

// A total as others see it: each half of a word pair tells by its upper bits that it is there.
#define THERE (1UL << 32)
inline void tell(volatile __global ulong *at, ACC_T total) {
  const acc_bits bits = ACC_BITS(total);
  at[0] = THERE | (uint)bits;
#if ACC_WORDS == 2
  at[1] = THERE | bits >> 32;
#endif
}

inline ACC_T wait_for(volatile __global ulong *at) {
  ulong word;
  do word = at[0];
  while (!(word & THERE));
  acc_bits bits = (uint)word;
#if ACC_WORDS == 2
  do word = at[1];
  while (!(word & THERE));
  bits |= word << 32;
#endif
  return ACC_OF(bits);
}

// states, zero at first: for each row, totals of its tiles, of blocks, and of blocks of blocks.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void scan_sweep(GLOBAL(STORAGE(T_TAG), y), CONST_GLOBAL(STORAGE(T_TAG), x), GLOBAL(ulong, states), GLOBAL(uint, ticket),
                ulong n, uint tiles) {
  __local ACC_T scratch[GROUP], warp_totals[WARPS], before_levels[3];
  __local uint taken;
  const uint item = get_local_id(0), lane = item % 32, warp = item / 32;
  if (item == 0) taken = atomic_inc((volatile __global uint *)POINTER(uint, ticket));
  barrier(CLK_LOCAL_MEM_FENCE);
  const uint tile = taken % tiles, row = taken / tiles, block = tile / BLOCK, blocks = (tiles - 1) / BLOCK + 1;
  const ulong begin = (ulong)row * n + (ulong)tile * TILE;
  const uint count = (uint)min(n - (ulong)tile * TILE, (ulong)TILE), own = warp * (32 * ITEMS) + lane * 4;
  __global const STORAGE(T_TAG) *from = CONST_POINTER(STORAGE(T_TAG), x) + begin;
  __global STORAGE(T_TAG) *to = POINTER(STORAGE(T_TAG), y) + begin;

  ACC_T v[ITEMS], before[CHUNKS], total = IDENTITY;
#pragma unroll
  for (uint c = 0; c < CHUNKS; c++) {
    const uint at = own + c * 128;
#if FOURS
    if (at + 4 <= count) {
      const FOUR(T_TAG) four = *(__global const FOUR(T_TAG) *)(from + at);
      v[4 * c] = (ACC_T)DECODE(T_TAG, four.x), v[4 * c + 1] = (ACC_T)DECODE(T_TAG, four.y);
      v[4 * c + 2] = (ACC_T)DECODE(T_TAG, four.z), v[4 * c + 3] = (ACC_T)DECODE(T_TAG, four.w);
    } else
#endif
#pragma unroll
      for (uint k = 0; k < 4; k++) v[4 * c + k] = at + k < count ? (ACC_T)LOAD(T_TAG, from, at + k) : (ACC_T)IDENTITY;
  }
#pragma unroll
  for (uint c = 0; c < CHUNKS; c++) {
    for (uint k = 1; k < 4; k++) v[4 * c + k] = combine(v[4 * c + k - 1], v[4 * c + k]);
    before[c] = scan_warp(v[4 * c + 3], scratch);
  }
#pragma unroll
  for (uint c = 0; c < CHUNKS; c++) {
    const ACC_T up_to = before[c], earlier = FROM_BEFORE(up_to, 1, scratch);
    before[c] = lane > 0 ? combine(total, earlier) : total;
    total = combine(total, FROM_LAST(up_to, scratch));
  }
  if (lane == 31) warp_totals[warp] = total;
  barrier(CLK_LOCAL_MEM_FENCE);
  ACC_T of_warps = IDENTITY, of_tile = IDENTITY;
  for (uint w = 0; w < WARPS; w++) {
    if (w == warp) of_warps = of_tile;
    of_tile = combine(of_tile, warp_totals[w]);
  }

  // The first three warps look at a level each.
  volatile __global ulong *level0 =
      POINTER(ulong, states) + (ulong)row * ACC_WORDS * (tiles + blocks + (blocks - 1) / BLOCK + 1);
  volatile __global ulong *level1 = level0 + (ulong)ACC_WORDS * tiles, *level2 = level1 + ACC_WORDS * blocks;
  if (item == 0) tell(level0 + (ulong)ACC_WORDS * tile, of_tile);
  volatile __global ulong *level = warp == 0   ? level0 + (ulong)ACC_WORDS * block * BLOCK
                                   : warp == 1 ? level1 + ACC_WORDS * (block / BLOCK * BLOCK)
                                               : level2;
  const uint known = warp == 0 ? tile % BLOCK : warp == 1 ? block % BLOCK : warp == 2 ? block / BLOCK : 0;
  ACC_T sum = IDENTITY;
  for (uint i = lane; i < known; i += 32) sum = combine(sum, wait_for(level + ACC_WORDS * i));
  sum = scan_warp(sum, scratch);
  if (lane == 31 && warp < 3) before_levels[warp] = sum;
  if (item == 31 && tile % BLOCK == BLOCK - 1) tell(level1 + ACC_WORDS * block, combine(sum, of_tile));
  barrier(CLK_LOCAL_MEM_FENCE);
  const ACC_T of_block = combine(before_levels[1], before_levels[0]);
  if (item == 0 && tile % (BLOCK * BLOCK) == BLOCK * BLOCK - 1)
    tell(level2 + ACC_WORDS * (block / BLOCK), combine(of_block, of_tile));
  const ACC_T earlier = combine(combine(before_levels[2], of_block), of_warps);

#pragma unroll
  for (uint c = 0; c < CHUNKS; c++) {
    const ACC_T prefix = combine(earlier, before[c]);
    const uint at = own + c * 128;
    for (uint k = 0; k < 4; k++) v[4 * c + k] = combine(prefix, v[4 * c + k]);
#if FOURS
    if (at + 4 <= count) {
      FOUR(T_TAG) four;
      four.x = ENCODE(T_TAG, (VALUE(T_TAG))v[4 * c]), four.y = ENCODE(T_TAG, (VALUE(T_TAG))v[4 * c + 1]);
      four.z = ENCODE(T_TAG, (VALUE(T_TAG))v[4 * c + 2]), four.w = ENCODE(T_TAG, (VALUE(T_TAG))v[4 * c + 3]);
      *(__global FOUR(T_TAG) *)(to + at) = four;
    } else
#endif
      for (uint k = 0; k < 4; k++)
        if (at + k < count) STORE(T_TAG, to, at + k, (VALUE(T_TAG))v[4 * c + k]);
  }
}
