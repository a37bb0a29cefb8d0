// SPDX-License-Identifier: MIT
// Sorts rows of at most MOST elements on CPUs, stably: a work-item counts, for each element of its row, those that come
// before it. Defines: those of lib/sort_keys.clh, GROUP, ORDER and SORTED: which results are wanted.
#include "lib/sort_keys.clh"

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void sort_short(CONST_GLOBAL(STORAGE(T), keys), GLOBAL(long, order), GLOBAL(STORAGE(T), sorted), ulong rows, uint n) {
  const ulong row = get_global_id(0);
  if (row >= rows) return;
  __global const STORAGE(T) *x = CONST_POINTER(STORAGE(T), keys) + row * n;
  sort_key of_row[MOST];
  for (uint i = 0; i < n; i++) of_row[i] = key_of(LOAD(T, x, i));
  for (uint column = 0; column < n; column++) {
    const sort_key own = of_row[column];
    uint before = 0;
    for (uint i = 0; i < column; i++) before += of_row[i] <= own;
    for (uint i = column + 1; i < n; i++) before += of_row[i] < own;
#if ORDER
    POINTER(long, order)[row * n + before] = column;
#endif
#if SORTED
    POINTER(STORAGE(T), sorted)[row * n + before] = x[column];
#endif
  }
}
