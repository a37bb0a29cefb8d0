// SPDX-License-Identifier: MIT
// Stable sorting by insertion and merging. The host defines T, the tag of the keys, and for sorting
//   ROWS         keys are rows of `columns` elements, ordered lexicographically; otherwise elements of segments
//   DESCENDING   the largest first
#include "lib/types.clh"

#define RUN 16

// NaN is the largest.
#if FLOATING
#define LESS(a, b) ((a) < (b) || ((b) != (b) && (a) == (a)))
#else
#define LESS(a, b) ((a) < (b))
#endif
#define SAME(a, b) (!LESS(a, b) && !LESS(b, a))

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

__kernel void mode_place(CONST_GLOBAL(STORAGE(T), sorted), GLOBAL(long, place), long n, ulong rows) {
  const ulong row = global_id();
  if (row >= rows) return;
  __global const STORAGE(T) *sorted = CONST_POINTER(STORAGE(T), sorted) + row * n;
  long longest = 0, begin = 0, at = 0;
  for (long i = 0; i < n; i++) {
    const VALUE(T) x = LOAD(T, sorted, i), first = LOAD(T, sorted, begin);
    if (!SAME(first, x)) begin = i;
    if (i - begin + 1 > longest) {
      longest = i - begin + 1;
      at = i;
    }
  }
  POINTER(long, place)[row] = at;
}

#ifdef OUT
__kernel void search_sorted(GLOBAL(STORAGE(OUT), out), CONST_GLOBAL(STORAGE(T), sorted),
                            CONST_GLOBAL(STORAGE(T), values), CONST_GLOBAL(long, sorter), long n, ulong per_row,
                            ulong count, int one_row) {
  const ulong i = global_id();
  if (i >= count) return;
  const long row = one_row ? 0 : (long)(i / per_row);
  __global const STORAGE(T) *sorted = CONST_POINTER(STORAGE(T), sorted) + row * n;
#ifdef SORTER
  __global const long *sorter = CONST_POINTER(long, sorter) + row * n;
#endif
  const VALUE(T) value = LOAD(T, CONST_POINTER(STORAGE(T), values), i);
  long low = 0, high = n;
  while (low < high) {
    const long middle = (low + high) / 2;
#ifdef SORTER
    const VALUE(T) x = LOAD(T, sorted, clamp(sorter[middle], 0L, n - 1));
#else
    const VALUE(T) x = LOAD(T, sorted, middle);
#endif
#ifdef RIGHT
    const bool go_on = !LESS(value, x);
#else
    const bool go_on = LESS(x, value);
#endif
    if (go_on) low = middle + 1;
    else high = middle;
  }
  STORE(OUT, POINTER(STORAGE(OUT), out), i, low);
}
#endif

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
