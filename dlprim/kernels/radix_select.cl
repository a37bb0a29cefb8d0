// SPDX-License-Identifier: MIT
// Positions, in ascending order, of the k elements of a row that come first in the order of sorting. A work-group takes
// a row: it finds the k-th key digit by digit from histograms (Alabi et al., "Fast k-selection algorithms for graphics
// processing units", 2012), then lists what comes before that key and as many elements of that key as are left.
// Defines: those of lib/sort_keys.clh; GROUP: 1, or a multiple of 256.
#include "lib/sort_keys.clh"

#define DIGITS 256
#define KEY(i) key_of(LOAD(T, x, i))

#if GROUP == 1
#define COUNT(counter) (counter)++
#else
#define COUNT(counter) atomic_inc((volatile __local uint *)&(counter))
#endif

// Adds to each item's `sums` those of the items before it.
#define SCAN(sums, item, length)                                   \
  for (int far = 1; far < (length); far *= 2) {                    \
    const bool adds = (item) < (length) && (item) >= far;          \
    const ulong more = adds ? (ulong)sums[(item) - far] : 0;       \
    barrier(CLK_LOCAL_MEM_FENCE);                                  \
    if (adds) sums[item] += more;                                  \
    barrier(CLK_LOCAL_MEM_FENCE);                                  \
  }

// The first digit whose running count reaches `wanted`; subtracts the counts before it.
inline uint find_digit(__local uint *counts, __local uint *found, uint *wanted) {
  const int item = get_local_id(0);
#if GROUP == 1
  uint digit = 0;
  while (counts[digit] < *wanted) *wanted -= counts[digit++];
  return digit;
#else
  SCAN(counts, item, DIGITS)
  if (item < DIGITS) {
    const uint before = item > 0 ? counts[item - 1] : 0;
    if (before < *wanted && *wanted <= counts[item]) found[0] = item, found[1] = before;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  *wanted -= found[1];
  return found[0];
#endif
}

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void radix_select(CONST_GLOBAL(STORAGE(T), keys), GLOBAL(long, places), ulong n, ulong k) {
  __local uint counts[DIGITS], found[2];
  __local ulong starts[GROUP];
  const int item = get_local_id(0);
  __global const STORAGE(T) *x = CONST_POINTER(STORAGE(T), keys) + get_group_id(0) * n;
  sort_key threshold = 0;
  uint wanted = (uint)k;  // of the elements whose leading digits are those of the threshold
  int shift = KEY_BITS;
  while (shift > FIRST_BIT) {
    for (int i = item; i < DIGITS; i += GROUP) counts[i] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    const int above = shift;
    shift -= 8;
    for (ulong i = item; i < n; i += GROUP) {
      const sort_key key = KEY(i);
      if (above == KEY_BITS || key >> above == threshold) COUNT(counts[(uint)(key >> shift) & (DIGITS - 1)]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    threshold = (above == KEY_BITS ? 0 : threshold << 8) | find_digit(counts, found, &wanted);
  }

  // Each work-item lists a piece of the row.
  const ulong piece = (n + GROUP - 1) / GROUP, begin = min(n, item * piece), end = min(n, begin + piece);
  uint less = 0, equal = 0;
#if GROUP > 1
  for (ulong i = begin; i < end; i++) {
    const sort_key key = KEY(i) >> shift;
    less += key < threshold, equal += key == threshold;
  }
  starts[item] = (ulong)less << 32 | equal;
  barrier(CLK_LOCAL_MEM_FENCE);
  SCAN(starts, item, GROUP)
  less = (uint)(starts[item] >> 32) - less, equal = (uint)starts[item] - equal;
#endif
  __global long *to = POINTER(long, places) + get_group_id(0) * k;
  for (ulong i = begin; i < end; i++) {
    const sort_key key = KEY(i) >> shift;
    if (key < threshold || (key == threshold && equal < wanted)) to[less + min(equal, wanted)] = i;
    less += key < threshold, equal += key == threshold;
  }
}
