// SPDX-License-Identifier: MIT
// The longest run of equal elements of sorted rows, the first of several; all NaN are equal.
// Defines: T (tag), GROUP: work-items that share a part of a row.
#include "lib/types.clh"

#define SAME(a, b) ((a) == (b) || ((a) != (a) && (b) != (b)))

typedef struct {
  ulong length, last;  // its last position
} run;

inline bool is_better(run a, run b) { return a.length > b.length || (a.length == b.length && a.last < b.last); }

inline void write_mode(run best, ulong row, ulong n, __global const STORAGE(T) *sorted, __global const long *order,
                       __global STORAGE(T) *values, __global long *places) {
  values[row] = sorted[row * n + best.last];
  places[row] = order[row * n + best.last];
}

// The best run that ends in a part of `length` elements; written where rows have one part, else found[row, part].
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void mode_runs(CONST_GLOBAL(STORAGE(T), sorted), CONST_GLOBAL(long, order), GLOBAL(STORAGE(T), values),
               GLOBAL(long, places), GLOBAL(run, found), ulong n, ulong length, uint parts) {
  const ulong row = get_group_id(0) / parts, part = get_group_id(0) % parts;
  const ulong end = min(n, (part + 1) * length);
  __global const STORAGE(T) *x = CONST_POINTER(STORAGE(T), sorted) + row * n;
  run best = {0, 0};
  for (ulong at = part * length + get_local_id(0); at < end; at += GROUP) {
    const VALUE(T) own = LOAD(T, x, at);
    if (at + 1 < n && SAME(own, LOAD(T, x, at + 1))) continue;
    if (at < best.length || !SAME(own, LOAD(T, x, at - best.length))) continue;  // not longer than the best one
    ulong first = at - best.length, far = 1;
    for (; far <= first && SAME(own, LOAD(T, x, first - far)); far *= 2) first -= far;
    for (far /= 2; far > 0; far /= 2)
      if (far <= first && SAME(own, LOAD(T, x, first - far))) first -= far;
    best.length = at - first + 1, best.last = at;
  }
#if GROUP > 1
  __local run scratch[GROUP];
  for (uint half_way = GROUP / 2; half_way > 0; half_way /= 2) {
    scratch[get_local_id(0)] = best;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (get_local_id(0) < half_way) {
      const run other = scratch[get_local_id(0) + half_way];
      if (is_better(other, best)) best = other;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
#endif
  if (get_local_id(0) > 0) return;
  if (parts > 1) POINTER(run, found)[get_group_id(0)] = best;
  else
    write_mode(best, row, n, CONST_POINTER(STORAGE(T), sorted), CONST_POINTER(long, order), POINTER(STORAGE(T), values),
               POINTER(long, places));
}

__kernel void mode_pick(CONST_GLOBAL(STORAGE(T), sorted), CONST_GLOBAL(long, order), GLOBAL(STORAGE(T), values),
                        GLOBAL(long, places), CONST_GLOBAL(run, found), ulong n, uint parts, ulong rows) {
  const ulong row = global_id();
  if (row >= rows) return;
  __global const run *found = CONST_POINTER(run, found) + row * parts;
  run best = found[0];
  for (uint part = 1; part < parts; part++)
    if (is_better(found[part], best)) best = found[part];
  write_mode(best, row, n, CONST_POINTER(STORAGE(T), sorted), CONST_POINTER(long, order), POINTER(STORAGE(T), values),
             POINTER(long, places));
}
