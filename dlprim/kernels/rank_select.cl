// SPDX-License-Identifier: MIT
// The first element of each row that has a given rank in the order of sorting, found digit by digit from histograms
// (Alabi et al., "Fast k-selection algorithms for graphics processing units", 2012). A short row is a work-group's
// (rank_row); very short ones share one, and each work-item counts what comes before its element (rank_short) or, on
// CPUs, before each of a row of its own (rank_alone). Long rows are cut into parts: for each digit `rank_count` and
// `rank_pick`, then `rank_find`.
// Defines: those of lib/sort_keys.clh and lib/digits.clh.
#include "lib/sort_keys.clh"
#include "lib/digits.clh"

#define KEY(i) key_of(LOAD(T, x, i))
#if FLOATING
#define COUNTERS (DIGITS + 1)  // the last one: of NaN
#define COUNT_NAN(key) \
  if ((key) == LAST_KEY) COUNT(counts[DIGITS]);
#else
#define COUNTERS DIGITS
#define COUNT_NAN(key)
#endif
#define KERNEL __kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))

typedef struct {
  ulong threshold;  // the leading digits found so far
  ulong wanted;     // rank, from 1, among the elements that have them
  ulong part;       // the first one that has such elements
} State;

// k, or where that is negative the lower median: MEDIAN is a NaN where there is one, NANMEDIAN ignores them.
#define MEDIAN -1
#define NANMEDIAN -2

// From 1.
inline ulong rank_of(ulong n, ulong nans, long k) {
  if (k == MEDIAN && nans) return n - nans + 1;
  if (k == NANMEDIAN) return n > nans ? (n - nans - 1) / 2 + 1 : 1;
  return k < 0 ? (n - 1) / 2 + 1 : (ulong)k + 1;
}

// Counts the digits below bit `above` of those elements of a part whose digits above it are the threshold's.
inline void count_digits(__global const STORAGE(T) *x, ulong begin, ulong end, int above, sort_key threshold,
                         __local uint *counts) {
  const int item = get_local_id(0);
  for (int i = item; i < COUNTERS; i += GROUP) counts[i] = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (above == KEY_BITS)
    for (ulong i = begin + item; i < end; i += GROUP) {
      const sort_key key = KEY(i);
      COUNT(counts[key >> (KEY_BITS - DIGIT_BITS)]);
      COUNT_NAN(key)
    }
  else
    for (ulong i = begin + item; i < end; i += GROUP) {
      const sort_key key = KEY(i);
      if (key >> above == threshold) COUNT(counts[(uint)(key >> (above - DIGIT_BITS)) & (DIGITS - 1)]);
    }
  barrier(CLK_LOCAL_MEM_FENCE);
}

// The first element of a part whose key, shifted, is the threshold.
inline ulong find_first(__global const STORAGE(T) *x, ulong begin, ulong end, int shift, sort_key threshold,
                        __local uint *first) {
  const int item = get_local_id(0);
  barrier(CLK_LOCAL_MEM_FENCE);
  if (item == 0) first[0] = ~0u;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (ulong i = begin + item; i < end; i += GROUP)
    if (KEY(i) >> shift == threshold) {
      atomic_min((volatile __local uint *)first, (uint)(i - begin));
      break;
    }
  barrier(CLK_LOCAL_MEM_FENCE);
  return begin + first[0];
}

KERNEL void rank_row(CONST_GLOBAL(STORAGE(T), keys), GLOBAL(long, places), ulong n, long k) {
  __local uint counts[COUNTERS], found[2];
  __global const STORAGE(T) *x = CONST_POINTER(STORAGE(T), keys) + get_group_id(0) * n;
  sort_key threshold = 0;
  uint wanted = 0;
  int shift = KEY_BITS;
  while (shift > FIRST_BIT) {
    count_digits(x, 0, n, shift, threshold, counts);
    if (shift == KEY_BITS) wanted = (uint)rank_of(n, COUNTERS > DIGITS ? counts[COUNTERS - 1] : 0, k);
    barrier(CLK_LOCAL_MEM_FENCE);
    threshold = (shift == KEY_BITS ? 0 : threshold << DIGIT_BITS) | find_digit(counts, found, &wanted);
    shift -= DIGIT_BITS;
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  const ulong place = find_first(x, 0, n, shift, threshold, found);
  if (get_local_id(0) == 0) POINTER(long, places)[get_group_id(0)] = place;
}

#if GROUP > 1
KERNEL void rank_short(CONST_GLOBAL(STORAGE(T), keys), GLOBAL(long, places), ulong rows, uint n, long k) {
  __local sort_key group_keys[GROUP];
  const uint item = get_local_id(0), slot = item / n, column = item % n;
  const ulong row = get_group_id(0) * (GROUP / n) + slot;
  const bool valid = slot < GROUP / n && row < rows;
  __global const STORAGE(T) *x = CONST_POINTER(STORAGE(T), keys) + row * n;
  __local uint nans[GROUP];
  const sort_key own = valid ? KEY(column) : 0;
  group_keys[item] = own;
  nans[item] = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (FLOATING && valid && own == LAST_KEY) atomic_inc((volatile __local uint *)&nans[slot]);
  barrier(CLK_LOCAL_MEM_FENCE);
  if (!valid) return;
  __local const sort_key *of_row = group_keys + slot * n;
  uint less = 0, up_to = 0;
#pragma unroll 8
  for (uint i = 0; i < n; i++) less += of_row[i] < own, up_to += of_row[i] <= own;
  const ulong wanted = rank_of(n, nans[slot], k);
  if (less >= wanted || wanted > up_to) return;
  for (uint i = 0; i < column; i++)
    if (of_row[i] == own) return;
  POINTER(long, places)[row] = column;
}
#endif

#if defined(MOST)
// Rows of at most MOST elements.
KERNEL void rank_alone(CONST_GLOBAL(STORAGE(T), keys), GLOBAL(long, places), ulong rows, uint n, long k) {
  const ulong row = get_global_id(0);
  if (row >= rows) return;
  __global const STORAGE(T) *x = CONST_POINTER(STORAGE(T), keys) + row * n;
  sort_key of_row[MOST];
  uint nans = 0, place = 0;
  for (uint i = 0; i < n; i++) {
    of_row[i] = KEY(i);
    nans += FLOATING && of_row[i] == LAST_KEY;
  }
  const uint wanted = (uint)rank_of(n, nans, k);
  for (uint column = n; column-- > 0;) {
    const sort_key own = of_row[column];
    uint less = 0, up_to = 0;
    for (uint i = 0; i < n; i++) less += of_row[i] < own, up_to += of_row[i] <= own;
    if (less < wanted && wanted <= up_to) place = column;
  }
  POINTER(long, places)[row] = place;
}
#endif

// counts[row, part, digit]
KERNEL void rank_count(CONST_GLOBAL(STORAGE(T), keys), CONST_GLOBAL(State, states), GLOBAL(uint, counts), ulong n,
                       ulong length, uint parts, int above) {
  __local uint own[COUNTERS];
  const ulong row = get_group_id(0) / parts, begin = get_group_id(0) % parts * length, end = min(begin + length, n);
  const sort_key threshold = above == KEY_BITS ? 0 : (sort_key)CONST_POINTER(State, states)[row].threshold;
  count_digits(CONST_POINTER(STORAGE(T), keys) + row * n, begin, end, above, threshold, own);
  __global uint *counts = POINTER(uint, counts) + get_group_id(0) * COUNTERS;
  for (int i = get_local_id(0); i < COUNTERS; i += GROUP) counts[i] = own[i];
}

KERNEL void rank_pick(CONST_GLOBAL(uint, counts), GLOBAL(State, states), ulong n, long k, uint parts, int above) {
  __local ulong sums[COUNTERS], found[2];
  const int item = get_local_id(0);
  __global const uint *counts = CONST_POINTER(uint, counts) + get_group_id(0) * parts * COUNTERS;
  for (int i = item; i < COUNTERS; i += GROUP) {
    ulong sum = 0;
    for (uint part = 0; part < parts; part++) sum += counts[part * COUNTERS + i];
    sums[i] = sum;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  __global State *state = POINTER(State, states) + get_group_id(0);
  const bool first = above == KEY_BITS;
  ulong wanted = first ? rank_of(n, COUNTERS > DIGITS ? sums[COUNTERS - 1] : 0, k) : state->wanted;
  const ulong threshold = first ? 0 : state->threshold << DIGIT_BITS;
  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
  const uint digit = find_digit_of_many(sums, found, &wanted);
  if (item > 0) return;
  state->threshold = threshold | digit;
  state->wanted = wanted;
  uint part = 0;
  while (part + 1 < parts && counts[part * COUNTERS + digit] == 0) part++;
  state->part = part;
}

KERNEL void rank_find(CONST_GLOBAL(STORAGE(T), keys), CONST_GLOBAL(State, states), GLOBAL(long, places), ulong n,
                      ulong length, int shift) {
  __local uint first[1];
  const ulong row = get_group_id(0);
  __global const State *state = CONST_POINTER(State, states) + row;
  const ulong begin = state->part * length, end = min(begin + length, n);
  const ulong place = find_first(CONST_POINTER(STORAGE(T), keys) + row * n, begin, end, shift,
                                 (sort_key)state->threshold, first);
  if (get_local_id(0) == 0) POINTER(long, places)[row] = place;
}
