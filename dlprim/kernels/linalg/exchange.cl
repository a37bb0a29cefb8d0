// SPDX-License-Identifier: MIT
// Exchanges of rows by the pivots of LU factors, and what right of the panel follows from them.
// Defines, beside those of linalg.clh: GROUP; WIDTH, the most pivots of exchange_rows, COLUMNS
// of its work-groups, ROW_FAST: the rows of a column lie side by side in memory.
#include "linalg/linalg.clh"

typedef struct {
  Matrix a;
  long columns, chunks, skip_from, skip;  // columns of the panel itself are left out
  int n, unused;
} Exchange;

// Rows of the other columns follow those of the panel, whose first row is row 0 of `a`; of columns right of the panel, the
// first rows become L^-1 times what they are, L of the panel. A work-group has COLUMNS columns and reads all that moves
// before it writes.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void exchange_rows(GLOBAL(T, a), CONST_GLOBAL(int, moves),
                                                                               Exchange p) {
  __local T first[COLUMNS][WIDTH + 1], coming[COLUMNS][WIDTH + 1];
  __local __attribute__((aligned(16))) T lower[WIDTH][WIDTH];  // by columns
  const int id = get_local_id(0);
  const long batch = get_group_id(0) / p.chunks, start = get_group_id(0) % p.chunks * COLUMNS,
             others = p.columns - p.skip;
  __global const int *from = CONST_POINTER(int, moves) + batch * 2 * WIDTH, *to = from + WIDTH;
  __global T *a = POINTER(T, a) + batch * p.a.batch;
  for (int t = id; t < WIDTH * WIDTH; t += GROUP) {
    const int i = ROW_FAST ? t % WIDTH : t / WIDTH, j = ROW_FAST ? t / WIDTH : t % WIDTH;
    lower[j][i] = i < p.n && j < i ? a[AT(p.a, (long)i, p.skip_from + j)] : REAL(0);
  }
#define EACH_ELEMENT                                                                                 \
  for (int t = id; t < WIDTH * COLUMNS; t += GROUP) {                                                \
    const int k = ROW_FAST ? t % WIDTH : t / COLUMNS, c = ROW_FAST ? t / WIDTH : t % COLUMNS;        \
    const long other = start + c, column = other + (other >= p.skip_from ? p.skip : 0);              \
    __global T *x = a + column * p.a.col;
  EACH_ELEMENT
    T up = REAL(0), down = up;
    if (k < p.n && other < others) up = x[from[k] * p.a.row], down = x[k * p.a.row];
    coming[c][k] = up, first[c][k] = down;
  }
  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
  if (id < COLUMNS && start + id >= p.skip_from) {
    T sum[WIDTH];
    UNROLL for (int k = 0; k < WIDTH; k++) sum[k] = coming[id][k];
    UNROLL for (int j = 0; j < WIDTH; j++)
      UNROLL for (int k = 0; k < WIDTH; k++)
        if (k > j) sum[k] -= MUL(lower[j][k], sum[j]);
    UNROLL for (int k = 0; k < WIDTH; k++) coming[id][k] = sum[k];
  }
  EACH_ELEMENT
    if (k < p.n && other < others && to[k] >= p.n) x[to[k] * p.a.row] = first[c][k];
  }
  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
  EACH_ELEMENT
    if (k < p.n && other < others && (from[k] != k || other >= p.skip_from)) x[k * p.a.row] = coming[c][k];
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
