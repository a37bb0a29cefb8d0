// SPDX-License-Identifier: MIT
// Positions, in ascending order, of the k elements of a row that come first in the order of sorting, or of each of its
// parts, `part` elements long but for the last. A work-group takes a part: it finds the k-th key digit by digit from histograms (Alabi et al., "Fast k-selection algorithms for graphics
// processing units", 2012), then lists what comes before that key and as many elements of that key as are left: in any
// order, to be sorted, where local memory has room for all of that key; else in two more readings of the row.
// Defines: those of lib/sort_keys.clh and lib/digits.clh.
#include "lib/sort_keys.clh"
#include "lib/digits.clh"

#define KEY(i) key_of(LOAD(T, x, i))

#if GROUP > 1
// `list`: those whose leading digits are up to the threshold's, by position: twice that, plus 1 if below the threshold.
inline void list_candidates(__global const STORAGE(T) *x, ulong n, sort_key threshold, int shift, uint candidates,
                            __local ulong *list, __local uint *found) {
  const uint item = get_local_id(0);
  barrier(CLK_LOCAL_MEM_FENCE);
  if (item == 0) found[0] = 0;
  list[item] = ~0UL;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (ulong i = item; i < n; i += GROUP) {
    const sort_key key = KEY(i) >> shift;
    if (key <= threshold) list[atomic_inc((volatile __local uint *)found)] = i << 1 | (key < threshold);
  }
  for (uint size = 2; size < 2 * candidates; size *= 2)  // bitonic sort (Batcher 1968)
    for (uint far = size / 2; far > 0; far /= 2) {
      const uint other = item ^ far;
      barrier(CLK_LOCAL_MEM_FENCE);
      const ulong a = list[item], b = list[other];
      barrier(CLK_LOCAL_MEM_FENCE);
      list[item] = (other > item) == ((item & size) == 0) ? min(a, b) : max(a, b);
    }
  barrier(CLK_LOCAL_MEM_FENCE);
}
#endif

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void radix_select(CONST_GLOBAL(STORAGE(T), keys), GLOBAL(long, places), ulong row, ulong part, ulong k) {
  __local uint counts[DIGITS], found[2];
  __local ulong starts[GROUP];
  const int item = get_local_id(0);
  const ulong parts = (row + part - 1) / part, first = get_group_id(0) % parts * part, n = min(part, row - first);
  __global const STORAGE(T) *x = CONST_POINTER(STORAGE(T), keys) + get_group_id(0) / parts * row + first;
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

  __global long *to = POINTER(long, places) + get_group_id(0) * k;
#if GROUP > 1
  const uint candidates = (uint)k - wanted + counts[(uint)threshold & (DIGITS - 1)] - found[1];
  if (candidates <= GROUP) {  // the same for the whole group
    list_candidates(x, n, threshold, shift, candidates, starts, found);
    const ulong own = starts[item];
    const bool is_less = own & 1, is_equal = !is_less && item < candidates;
    barrier(CLK_LOCAL_MEM_FENCE);
    starts[item] = (ulong)(is_less && item < candidates) << 32 | is_equal;
    barrier(CLK_LOCAL_MEM_FENCE);
    SCAN(starts, item, GROUP)
    const uint before_less = (uint)(starts[item] >> 32) - is_less, before_equal = (uint)starts[item] - is_equal;
    if (item < candidates && (is_less || before_equal < wanted)) to[before_less + min(before_equal, wanted)] = first + (own >> 1);
    return;
  }
#endif

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
  for (ulong i = begin; i < end; i++) {
    const sort_key key = KEY(i) >> shift;
    if (key < threshold || (key == threshold && equal < wanted)) to[less + min(equal, wanted)] = first + i;
    less += key < threshold, equal += key == threshold;
  }
}
