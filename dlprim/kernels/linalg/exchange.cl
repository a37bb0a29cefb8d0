// SPDX-License-Identifier: MIT
// Exchanges of rows by the pivots of LU factors.
// Defines, beside those of linalg.clh: GROUP; WIDTH, the most pivots of exchange_rows.
#include "linalg/linalg.clh"

typedef struct {
  Matrix a;
  long columns, chunks, skip_from, skip;  // columns of the panel itself are left out
  int m, n;
} Exchange;

// Rows of the other columns follow those of the panel, whose first row is row 0 of `a`. A work-item a column reads all
// that moves before it writes.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void exchange_rows(GLOBAL(T, a), CONST_GLOBAL(int, moves),
                                                                               Exchange p) {
  const long batch = get_group_id(0) / p.chunks;
  long column = get_group_id(0) % p.chunks * GROUP + get_local_id(0);
  if (column >= p.columns - p.skip) return;
  if (column >= p.skip_from) column += p.skip;
  __global const int *from = CONST_POINTER(int, moves) + batch * 2 * WIDTH, *to = from + WIDTH;
  __global T *a = POINTER(T, a) + batch * p.a.batch + column * p.a.col;
  T first[WIDTH], coming[WIDTH];
  UNROLL for (int k = 0; k < WIDTH; k++) {
    const bool moved = k < p.n && from[k] != k, leaves = k < p.n && to[k] >= p.n;
    if (leaves) first[k] = a[k * p.a.row];
    if (moved) coming[k] = a[from[k] * p.a.row];
  }
  UNROLL for (int k = 0; k < WIDTH; k++) {
    if (k < p.n && from[k] != k) a[k * p.a.row] = coming[k];
    if (k < p.n && to[k] >= p.n) a[to[k] * p.a.row] = first[k];
  }
}

typedef struct {
  int n, steps, in_local, unused;
} Order;

// The order of rows that exchanges lead to. They come one after the other: one work-item makes them, in local memory
// where they fit.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void pivots_to_order(CONST_GLOBAL(int, pivots),
                                                                                 GLOBAL(int, order), Order p,
                                                                                 __local int *rows) {
  const int id = get_local_id(0);
  __global const int *pivots = CONST_POINTER(int, pivots) + get_group_id(0) * (long)p.steps;
  __global int *order = POINTER(int, order) + get_group_id(0) * (long)p.n;
  __local int *exchanged = rows + p.n;
  for (int i = id; i < p.n; i += GROUP) {
    if (p.in_local) rows[i] = i;
    else order[i] = i;
  }
  for (int i = id; p.in_local && i < p.steps; i += GROUP) exchanged[i] = pivots[i] - 1;
  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
  if (id == 0)
    for (int i = 0; i < p.steps; i++) {
      const int other = p.in_local ? exchanged[i] : pivots[i] - 1;
      if (other < 0 || other >= p.n) continue;
      if (p.in_local) {
        const int row = rows[i];
        rows[i] = rows[other], rows[other] = row;
      } else {
        const int row = order[i];
        order[i] = order[other], order[other] = row;
      }
    }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int i = id; p.in_local && i < p.n; i += GROUP) order[i] = rows[i];
}
