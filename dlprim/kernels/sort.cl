// SPDX-License-Identifier: MIT
// Stable sorting by insertion and merging. The host defines T, the tag of the keys, and for sorting
//   ROWS         keys are rows of `columns` elements, ordered lexicographically; otherwise elements of segments
//   DESCENDING   the largest first
#include "lib/less.clh"
#include "lib/types.clh"

#define RUN 16

// Whether the element at position a comes strictly before that at b.
inline bool before(__global const STORAGE(T) *keys, long a, long b, long columns) {
#ifdef ROWS
  for (long c = 0; c < columns; c++) {
    const VALUE(T) x = LOAD(T, keys, a * columns + c), y = LOAD(T, keys, b * columns + c);
    if (LESS(x, y)) return true;
    if (LESS(y, x)) return false;
  }
  return false;
#else
  const VALUE(T) x = LOAD(T, keys, a), y = LOAD(T, keys, b);
#ifdef DESCENDING
  return LESS(y, x);
#else
  return LESS(x, y);
#endif
#endif
}

// One work-item a run of RUN elements of a segment.
__kernel void sort_runs(CONST_GLOBAL(STORAGE(T), keys), GLOBAL(long, order), long n, long columns, ulong runs,
                        ulong count) {
  const ulong item = global_id();
  if (item >= count) return;
  const long segment = (long)(item / runs), begin = (long)(item % runs) * RUN;
  __global const STORAGE(T) *keys = CONST_POINTER(STORAGE(T), keys) + segment * n * columns;
  __global long *order = POINTER(long, order) + segment * n + begin;
  const int length = (int)min((long)RUN, n - begin);
  long sorted[RUN];
  for (int i = 0; i < length; i++) {
    int j = i;
    for (; j > 0 && before(keys, begin + i, sorted[j - 1], columns); j--) sorted[j] = sorted[j - 1];
    sorted[j] = begin + i;
  }
  for (int i = 0; i < length; i++) order[i] = sorted[i];
}

// Merges neighbouring runs of `width`; one work-item RUN elements of the result.
__kernel void merge_runs(CONST_GLOBAL(STORAGE(T), keys), CONST_GLOBAL(long, from), GLOBAL(long, to), long n,
                         long columns, ulong pieces, ulong count, long width) {
  const ulong item = global_id();
  if (item >= count) return;
  const long segment = (long)(item / pieces), at = (long)(item % pieces) * RUN;
  __global const STORAGE(T) *keys = CONST_POINTER(STORAGE(T), keys) + segment * n * columns;
  const long start = at / (2 * width) * (2 * width);
  const long a_size = min(width, n - start), b_size = clamp(n - start - width, 0L, width);
  __global const long *a = CONST_POINTER(long, from) + segment * n + start, *b = a + width;
  __global long *to = POINTER(long, to) + segment * n + at;
  const long diagonal = at - start;
  long low = max(0L, diagonal - b_size), high = min(diagonal, a_size);
  while (low < high) {  // elements of a among the first `diagonal`
    const long middle = (low + high) / 2;
    if (before(keys, b[diagonal - 1 - middle], a[middle], columns)) high = middle;
    else low = middle + 1;
  }
  long i = low, j = diagonal - low;
  const long length = min((long)RUN, a_size + b_size - diagonal);
  for (long k = 0; k < length; k++) {
    const bool take_b = i == a_size || (j < b_size && before(keys, b[j], a[i], columns));
    to[k] = take_b ? b[j++] : a[i++];
  }
}

__kernel void run_heads(CONST_GLOBAL(STORAGE(T), keys), CONST_GLOBAL(long, order), GLOBAL(uchar, heads), ulong n,
                        long columns) {
  const ulong i = global_id();
  if (i >= n) return;
  __global const STORAGE(T) *keys = CONST_POINTER(STORAGE(T), keys);
  __global const long *order = CONST_POINTER(long, order);
  bool differs = i == 0;
  for (long c = 0; c < columns && !differs; c++) {
    const VALUE(T) x = LOAD(T, keys, order[i] * columns + c), y = LOAD(T, keys, order[i - 1] * columns + c);
    differs = x != y;
  }
  POINTER(uchar, heads)[i] = differs;
}

// The same of sorted numbers, four of a work-item. FOURS: where vectors of four may begin.
__kernel void sorted_heads(CONST_GLOBAL(STORAGE(T), keys), GLOBAL(uchar, heads), ulong n) {
  const ulong i = 4 * global_id();
  if (i >= n) return;
  __global const STORAGE(T) *keys = CONST_POINTER(STORAGE(T), keys);
  __global uchar *heads = POINTER(uchar, heads);
  VALUE(T) last = LOAD(T, keys, i > 0 ? i - 1 : 0);
#ifdef FOURS
  if (i + 4 <= n) {
    const FOUR(T) four = *(__global const FOUR(T) *)(keys + i);
    const VALUE(T) x = DECODE(T, four.x), y = DECODE(T, four.y), z = DECODE(T, four.z), w = DECODE(T, four.w);
    *(__global uchar4 *)(heads + i) = (uchar4)(i == 0 || last != x, x != y, y != z, z != w);
    return;
  }
#endif
  for (ulong j = i; j < min(i + 4, n); j++) {
    const VALUE(T) own = LOAD(T, keys, j);
    heads[j] = j == 0 || last != own;
    last = own;
  }
}
