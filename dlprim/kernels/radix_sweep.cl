// SPDX-License-Identifier: MIT
// Stable radix sort, 8 bits a pass, each pass one sweep over the keys: A. Adinets, D. Merrill, "Onesweep: a faster least
// significant digit radix sort for GPUs", 2022. Keys keep all bits of their numbers, so that the sorted numbers need not
// be gathered; digits are those of keys in which NaN is the largest and -0 equals 0.
//   sweep_tile                   sorts rows that fit a work-group's tile of GROUP * ITEMS keys; MODE: writes only the
//                                last element of each row's longest run of equal ones, the first run of several
//   sweep_count, sweep_starts    histograms of all digits of a row, then where each digit's keys begin
//   sweep                        one pass; a tile learns the counts of the tiles before it while they run
// Passes whose digit is the same in all keys of a row leave that row alone. Work-groups wait for those that took a
// ticket before: a device must go on with a work-group that it has begun.
// Defines: T (tag), SORT_BITS (8, 16, 32, 64), FLOATING, SIGNED, DESCENDING, INFINITY_BITS, GROUP (32 .. 256), ITEMS,
// ORDER, VALUES: where the numbers came from, and the sorted numbers, are wanted; MODE, which wants both.
#include "lib/types.clh"
#include "lib/warp.clh"

#define TILE (GROUP * ITEMS)
#define WARPS (GROUP / 32)
#define DIGITS 256
#define PASSES (SORT_BITS / 8)
#define OWN_DIGITS (DIGITS / GROUP)

#if SORT_BITS == 64
typedef ulong sort_key;
#define WIDE_BITS(v) as_ulong(v)
#else
typedef uint sort_key;
#define WIDE_BITS(v) as_uint(v)
#endif
#define TOP ((sort_key)1 << (SORT_BITS - 1))
#define ALL_BITS (TOP | (TOP - 1))
#define CAT(a, b) CONCAT(a, b)
typedef CAT(storage_, T) number;

#if SORT_BITS == 32
#define BITS(s) as_uint(s)
#define NUMBER(bits) CAT(number_, T)(bits)
#elif SORT_BITS == 64
#define BITS(s) as_ulong(s)
#define NUMBER(bits) CAT(number_, T)(bits)
#else
#define BITS(s) ((uint)(s) & ALL_BITS)
#define NUMBER(bits) ((number)(bits))
#endif
#define number_f32(bits) as_float(bits)
#define number_i32(bits) as_int(bits)
#define number_u32(bits) (bits)
#define number_f64(bits) as_double(bits)
#define number_i64(bits) as_long(bits)
#define number_u64(bits) (bits)

inline sort_key key_of(number s) {
#if FLOATING
  const sort_key bits = BITS(s);
  const sort_key key = bits & TOP ? ~bits & ALL_BITS : bits | TOP;
#elif SIGNED
  const sort_key key = BITS(s) ^ TOP;
#else
  const sort_key key = BITS(DECODE(T, s));
#endif
  return DESCENDING ? key ^ ALL_BITS : key;
}

inline number number_of(sort_key key) {
  if (DESCENDING) key ^= ALL_BITS;
#if FLOATING
  return NUMBER(key & TOP ? key ^ TOP : ~key & ALL_BITS);
#elif SIGNED
  return NUMBER(key ^ TOP);
#else
  return NUMBER(key);
#endif
}

// The key whose digits are sorted by: the same for all NaN, and for both zeros.
inline sort_key order_of(sort_key key) {
#if FLOATING
  sort_key ascending = DESCENDING ? key ^ ALL_BITS : key;
  if (ascending > (INFINITY_BITS | TOP) || ascending < (ALL_BITS ^ (INFINITY_BITS | TOP))) ascending = ALL_BITS;
  if (ascending == TOP - 1) ascending = TOP;
  return DESCENDING ? ascending ^ ALL_BITS : ascending;
#else
  return key;
#endif
}
#define DIGIT(key, shift) ((uint)(order_of(key) >> (shift)) & (DIGITS - 1))

#ifdef NV_PTX
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("nounroll")  // or compilers take minutes over shuffles by local memory
#endif
#define EACH_ITEM UNROLL for (uint i = 0; i < ITEMS; i++)

// How a tile lies by a digit: `slot[i]` becomes key i's position in the sorted tile, `totals` the counts of this
// work-item's OWN_DIGITS digits, `starts` those digits' first places. Key i of a work-item is number (warp * ITEMS + i)
// * 32 + lane of the tile; those from `count` on come last. `counts`: WARPS * DIGITS numbers, which a barrier must part
// from other uses; `scratch`: GROUP numbers.
#define AT(i) (item / 32 * (32 * ITEMS) + (i) * 32 + item % 32)
inline void rank_tile(const sort_key *keys, uint shift, uint count, __local uint *counts, __local uint *scratch,
                      uint *slot, uint *totals, uint *starts) {
  const uint item = get_local_id(0), lane = item % 32;
  __local uint *own = counts + item / 32 * DIGITS;
  for (uint i = item; i < WARPS * DIGITS; i += GROUP) counts[i] = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  EACH_ITEM {
    const uint digit = AT(i) < count ? DIGIT(keys[i], shift) : DIGITS - 1, peers = same_digit(digit, scratch);
    const uint before = own[digit];
    WARP_SYNC();
    if (peers >> lane == 1) own[digit] = before + popcount(peers);
    WARP_SYNC();
    slot[i] = digit << 16 | (before + popcount(peers & ((1u << lane) - 1)));
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  uint sum = 0;
  UNROLL for (uint d = 0; d < OWN_DIGITS; d++) {
    totals[d] = 0;
    for (uint w = 0; w < WARPS; w++) totals[d] += counts[w * DIGITS + item * OWN_DIGITS + d];
    sum += totals[d];
  }
  sum = scan_group(sum, scratch) - sum;
  UNROLL for (uint d = 0; d < OWN_DIGITS; d++) {
    starts[d] = sum;
    for (uint w = 0; w < WARPS; w++) {
      __local uint *place = counts + w * DIGITS + item * OWN_DIGITS + d;
      const uint more = *place;
      *place = sum;
      sum += more;
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  EACH_ITEM slot[i] = own[slot[i] >> 16] + (slot[i] & 0xffff);
}

#if MODE
// The longest run of equal ones among n sorted keys that ends where this work-item looks, as a number that is the
// larger the longer and, then, the earlier the run is. 0: it looks nowhere.
#define RUN_END(run) (0xffff - ((run) & 0xffff))
inline uint longest_run(__local const sort_key *sorted, uint n) {
  uint length = 0, last = 0;
  for (uint at = get_local_id(0); at < n; at += GROUP) {
    const sort_key own = order_of(sorted[at]);
    if (at + 1 < n && order_of(sorted[at + 1]) == own) continue;
    if (at < length || order_of(sorted[at - length]) != own) continue;  // not longer than the last one
    uint first = at - length, far = 1;
    for (; far <= first && order_of(sorted[first - far]) == own; far *= 2) first -= far;
    for (far /= 2; far > 0; far /= 2)
      if (far <= first && order_of(sorted[first - far]) == own) first -= far;
    length = at - first + 1, last = at;
  }
  return length ? length << 16 | (0xffff - last) : 0;
}
#endif

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void sweep_tile(CONST_GLOBAL(number, x), GLOBAL(long, order), GLOBAL(number, sorted), uint n) {
  __local uint counts[WARPS * DIGITS], scratch[GROUP], differing[2];
  __local sort_key moved[TILE];
#if MODE
  __local uint best;
#endif
  const uint item = get_local_id(0);
  const ulong base = (ulong)get_group_id(0) * n;
  sort_key keys[ITEMS];
  uint index[ITEMS], slot[ITEMS], totals[OWN_DIGITS], starts[OWN_DIGITS];
  __global const number *x = CONST_POINTER(number, x) + base;
  if (item < 2) differing[item] = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  const sort_key first = order_of(key_of(x[0]));
  sort_key bits = 0;
  EACH_ITEM {
    keys[i] = AT(i) < n ? key_of(x[AT(i)]) : 0;
    index[i] = AT(i);
    bits |= AT(i) < n ? order_of(keys[i]) ^ first : 0;
  }
  if ((uint)bits) atomic_or(&differing[0], (uint)bits);
  if ((ulong)bits >> 32) atomic_or(&differing[1], (uint)((ulong)bits >> 32));
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint shift = 0; shift < SORT_BITS; shift += 8) {
    if (!(differing[shift / 32] >> shift % 32 & (DIGITS - 1))) continue;
    rank_tile(keys, shift, n, counts, scratch, slot, totals, starts);
    EACH_ITEM moved[slot[i]] = keys[i];
    barrier(CLK_LOCAL_MEM_FENCE);
    EACH_ITEM keys[i] = moved[AT(i)];
    barrier(CLK_LOCAL_MEM_FENCE);
#if ORDER
    __local uint *indices = (__local uint *)moved;
    EACH_ITEM indices[slot[i]] = index[i];
    barrier(CLK_LOCAL_MEM_FENCE);
    EACH_ITEM index[i] = indices[AT(i)];
    barrier(CLK_LOCAL_MEM_FENCE);
#endif
  }
#if MODE
  if (item == 0) best = 0;
  EACH_ITEM if (AT(i) < n) moved[AT(i)] = keys[i];
  barrier(CLK_LOCAL_MEM_FENCE);
  const uint run = longest_run(moved, n);
  if (run) atomic_max(&best, run);
  barrier(CLK_LOCAL_MEM_FENCE);
  const uint place = RUN_END(best);
  EACH_ITEM {
    if (AT(i) != place) continue;
    POINTER(long, order)[get_group_id(0)] = index[i];
    POINTER(number, sorted)[get_group_id(0)] = number_of(keys[i]);
  }
#else
  EACH_ITEM {
    if (AT(i) >= n) break;
#if ORDER
    POINTER(long, order)[base + AT(i)] = index[i];
#endif
#if VALUES
    POINTER(number, sorted)[base + AT(i)] = number_of(keys[i]);
#endif
  }
#endif
}

// counts[row, pass, digit] += the row's keys with that digit; grid dim 1 counts rows.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void sweep_count(CONST_GLOBAL(number, x), GLOBAL(uint, counts), uint n) {
  __local uint local_counts[PASSES * DIGITS];
  const uint item = get_local_id(0);
  __global const number *x = CONST_POINTER(number, x) + (ulong)get_group_id(1) * n;
  for (uint i = item; i < PASSES * DIGITS; i += GROUP) local_counts[i] = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (ulong i = global_id(); i < n; i += get_global_size(0)) {
    const sort_key key = order_of(key_of(x[i]));
    UNROLL for (uint pass = 0; pass < PASSES; pass++)
      atomic_inc(local_counts + pass * DIGITS + ((uint)(key >> (8 * pass)) & (DIGITS - 1)));
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  volatile __global uint *counts = POINTER(uint, counts) + (ulong)get_group_id(1) * PASSES * DIGITS;
  for (uint i = item; i < PASSES * DIGITS; i += GROUP)
    if (local_counts[i]) atomic_add(counts + i, local_counts[i]);
}

#define ACTIVE 1
#define IS_FIRST 2
#define IS_LAST 4
#define ODD 8  // an odd number of active passes before

// A work-group takes a row: its counts become starts; plan[row, pass] says what the pass does.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void sweep_starts(GLOBAL(uint, counts), GLOBAL(uint, plan), uint n) {
  __local uint scratch[GROUP], differs[PASSES];
  const uint item = get_local_id(0);
  __global uint *counts = POINTER(uint, counts) + (ulong)get_group_id(0) * PASSES * DIGITS;
  if (item < PASSES) differs[item] = 1;
  for (uint pass = 0; pass < PASSES; pass++) {
    const uint count = counts[pass * DIGITS + item];
    const uint sum = scan_group(count, scratch);
    if (count == n) differs[pass] = 0;
    counts[pass * DIGITS + item] = sum - count;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  if (item != 0) return;
  __global uint *plan = POINTER(uint, plan) + (ulong)get_group_id(0) * PASSES;
  uint before = 0, last = 0;
  for (uint pass = 0; pass < PASSES; pass++)
    if (differs[pass]) last = pass;
  for (uint pass = 0; pass < PASSES; pass++) {
    const bool active = differs[pass] || (last == 0 && pass == 0);  // equal keys still take one pass
    plan[pass] = active ? ACTIVE | (before == 0 ? IS_FIRST : 0) | (pass == last ? IS_LAST : 0) | (before & 1 ? ODD : 0)
                        : 0;
    before += active;
  }
}

// A tile's count of a digit as others see it: not there yet, of this tile alone, or of all tiles so far.
#define OF_TILE (1u << 30)
#define OF_ALL (2u << 30)
#define COUNT_OF(state) ((state) & (OF_TILE - 1))

// keys, indices: two buffers, one behind the other. states: two of DIGITS numbers a tile, zero at first; a pass clears
// those of the next.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void sweep(CONST_GLOBAL(number, x), GLOBAL(sort_key, keys), GLOBAL(uint, indices), GLOBAL(long, order),
           GLOBAL(number, sorted), CONST_GLOBAL(uint, starts), CONST_GLOBAL(uint, plan), GLOBAL(uint, states),
           GLOBAL(uint, tickets), uint n, uint tiles, uint pass, ulong total) {
  __local uint counts[WARPS * DIGITS], scratch[GROUP], digit_base[DIGITS];
  __local sort_key moved[TILE];
  const uint item = get_local_id(0), shift = 8 * pass;
  if (item == 0) scratch[0] = atomic_inc((volatile __global uint *)POINTER(uint, tickets) + pass);
  barrier(CLK_LOCAL_MEM_FENCE);
  const uint ticket = scratch[0], tile = ticket % tiles, row = ticket / tiles;
  const uint what = CONST_POINTER(uint, plan)[row * PASSES + pass], begin = tile * TILE;
  if (!what) return;
  const uint count = min(n - begin, (uint)TILE);
  const ulong base = (ulong)row * n, from = (what & ODD ? total : 0) + base, to = (what & ODD ? 0 : total) + base;
  sort_key keys[ITEMS];
  uint index[ITEMS], slot[ITEMS], own_count, own_start;
  if (what & IS_FIRST) {
    EACH_ITEM keys[i] = AT(i) < count ? key_of(CONST_POINTER(number, x)[base + begin + AT(i)]) : 0;
    EACH_ITEM index[i] = begin + AT(i);
  } else {
    EACH_ITEM keys[i] = AT(i) < count ? POINTER(sort_key, keys)[from + begin + AT(i)] : 0;
#if ORDER
    EACH_ITEM index[i] = AT(i) < count ? POINTER(uint, indices)[from + begin + AT(i)] : 0;
#endif
  }
  barrier(CLK_LOCAL_MEM_FENCE);  // scratch[0] has been read
  rank_tile(keys, shift, count, counts, scratch, slot, &own_count, &own_start);
  volatile __global uint *state = POINTER(uint, states) + ((ulong)(what & ODD ? 1 : 0) * get_num_groups(0) + ticket) * DIGITS + item;
  volatile __global uint *next = POINTER(uint, states) + ((ulong)(what & ODD ? 0 : 1) * get_num_groups(0) + ticket) * DIGITS + item;
  *state = (tile == 0 ? OF_ALL : OF_TILE) | own_count;
  *next = 0;
  EACH_ITEM moved[slot[i]] = keys[i];
  uint before = 0;
  for (uint back = 1; back <= tile; back++) {
    uint seen;
    do seen = *(state - (ulong)back * DIGITS);
    while (!(seen & (OF_TILE | OF_ALL)));
    before += COUNT_OF(seen);
    if (seen & OF_ALL) break;
  }
  if (tile > 0) *state = OF_ALL | (before + own_count);
  digit_base[item] = CONST_POINTER(uint, starts)[(row * PASSES + pass) * DIGITS + item] + before - own_start;
  barrier(CLK_LOCAL_MEM_FENCE);
  uint at[ITEMS];
  EACH_ITEM {
    const uint place = item + i * GROUP;
    if (place >= count) break;
    const sort_key key = moved[place];
    at[i] = digit_base[DIGIT(key, shift)] + place;
    if (!(what & IS_LAST)) POINTER(sort_key, keys)[to + at[i]] = key;
#if VALUES
    else POINTER(number, sorted)[base + at[i]] = number_of(key);
#endif
  }
#if ORDER
  barrier(CLK_LOCAL_MEM_FENCE);
  __local uint *moved_indices = (__local uint *)moved;
  EACH_ITEM moved_indices[slot[i]] = index[i];
  barrier(CLK_LOCAL_MEM_FENCE);
  EACH_ITEM {
    const uint place = item + i * GROUP;
    if (place >= count) break;
    if (what & IS_LAST) POINTER(long, order)[base + at[i]] = moved_indices[place];
    else POINTER(uint, indices)[to + at[i]] = moved_indices[place];
  }
#endif
}
