// SPDX-License-Identifier: MIT
// For CPUs: positions, in ascending order, of the k elements of a row that come first in the order of sorting, the first
// ones of equal elements. A work-item takes a row and keeps the best elements so far in a heap whose root is the worst
// of them (Williams, "Algorithm 232: Heapsort", 1964).
// Defines: those of lib/sort_keys.clh; MOST: the largest k.
#include "lib/sort_keys.clh"

#define KEY(i) key_of(LOAD(T, x, i))
#define BLOCK 16
// Whether element a of the heap comes after b: by key, then by position.
#define AFTER(a, b) (keys[a] > keys[b] || (keys[a] == keys[b] && places[a] > places[b]))

inline void swap(sort_key *keys, ulong *places, uint a, uint b) {
  const sort_key key = keys[a];
  const ulong place = places[a];
  keys[a] = keys[b], places[a] = places[b];
  keys[b] = key, places[b] = place;
}

inline void sift_down(sort_key *keys, ulong *places, uint at, uint k) {
  for (uint child = 2 * at + 1; child < k; child = 2 * at + 1) {
    if (child + 1 < k && AFTER(child + 1, child)) child++;
    if (!AFTER(child, at)) return;
    swap(keys, places, at, child);
    at = child;
  }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void heap_select(CONST_GLOBAL(STORAGE(T), keys), GLOBAL(long, places), ulong n, ulong k) {
  __global const STORAGE(T) *x = CONST_POINTER(STORAGE(T), keys) + get_global_id(0) * n;
  sort_key keys[MOST];
  ulong places[MOST];
  for (ulong i = 0; i < k; i++) keys[i] = KEY(i), places[i] = i;
  for (uint i = (uint)k / 2; i-- > 0;) sift_down(keys, places, i, (uint)k);
  ulong i = k;
  while (i < n) {
    // Most blocks hold nothing that is better than the root.
    if (i + BLOCK <= n) {
      sort_key best = LAST_KEY;
#pragma unroll
      for (int j = 0; j < BLOCK; j++) best = min(best, KEY(i + j));
      if (best >= keys[0]) {
        i += BLOCK;
        continue;
      }
    }
    for (const ulong end = min(i + BLOCK, n); i < end; i++) {
      const sort_key key = KEY(i);
      if (key >= keys[0]) continue;
      keys[0] = key, places[0] = i;
      sift_down(keys, places, 0, (uint)k);
    }
  }
  __global long *to = POINTER(long, places) + get_global_id(0) * k;
  for (uint i = 0; i < (uint)k; i++) {
    uint at = i;
    for (; at > 0 && to[at - 1] > (long)places[i]; at--) to[at] = to[at - 1];
    to[at] = (long)places[i];
  }
}
