// SPDX-License-Identifier: MIT
// LU factors of a panel with partial pivoting.
// Defines: those of rows.clh; CANDIDATES, the power of two near the root of GROUP, in which pivots are compared.
#include "linalg/rows.clh"

typedef struct {
  Matrix a;
  long pivots_batch;
  int m, n, start, pivot;  // `start`: rows and columns before the panel
} Panel;

// `moves`, int [2 WIDTH] a matrix: where what is in the first rows came from, and where what was there went to. Only
// what was in the first rows moves down, for a row that came up by a step stays.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void lu_panel(GLOBAL(T, a), GLOBAL(int, pivots),
                                                                          GLOBAL(int, info), GLOBAL(int, moves),
                                                                          Panel p) {
  __local real_t best[GROUP], finalist[CANDIDATES];
  __local int place[GROUP], finalist_place[CANDIDATES];
  __local T pivot_row[WIDTH], first_row[WIDTH];  // by index, as rows.clh has it
  __local int found, from[WIDTH], to[WIDTH];
  const int id = get_local_id(0);
  const long batch = get_group_id(0);
  __global T *a = POINTER(T, a) + batch * p.a.batch;
  const int steps = min(p.m, p.n);
  PANEL_ROWS
  LOAD_ROWS
  for (int k = id; k < WIDTH; k += GROUP) from[k] = to[k] = k;
  int failed = 0;
  EACH_STEP(steps) {
    real_t most = -1;
    int where = p.m;
    EACH_ROW {
      if (ROW(r) >= j && ROW(r) < p.m) {
        const real_t size = SIZE(X(r, OWN));
        if (size > most) most = size, where = ROW(r);
      }
    }
    best[id] = most, place[id] = where;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (id < CANDIDATES) {
      for (int c = id + CANDIDATES; c < GROUP; c += CANDIDATES)
        if (best[c] > most || (best[c] == most && place[c] < where)) most = best[c], where = place[c];
      finalist[id] = most, finalist_place[id] = where;
      if (id == 0) found = -1;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    most = finalist[0], where = finalist_place[0];
    for (int c = 1; c < CANDIDATES; c++)
      if (finalist[c] > most || (finalist[c] == most && finalist_place[c] < where))
        most = finalist[c], where = finalist_place[c];
    if (!p.pivot || where == p.m) where = j;  // p.m: nothing but NaN
    EACH_ROW {
      if (ROW(r) == where) { EACH_COLUMN pivot_row[k] = X(r, k); }
      if (ROW(r) == j) { EACH_COLUMN first_row[k] = X(r, k); }
    }
    for (int k = id; k < WIDTH; k += GROUP)
      if (to[k] == where) found = k;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (id == 0) {
      POINTER(int, pivots)[batch * p.pivots_batch + p.start + j] = p.start + where + 1;
      const int leaving = from[j], coming = found < 0 ? where : found;
      if (where < WIDTH) from[where] = leaving;
      from[j] = coming;
      to[leaving] = where;
      if (coming < WIDTH) to[coming] = j;
    }
    const T divisor = pivot_row[OWN];
    if (IS_ZERO(divisor) && !failed) failed = p.start + j + 1;
    EACH_ROW {
      if (where != j) {
        if (ROW(r) == where) { EACH_COLUMN X(r, k) = first_row[k]; }
        if (ROW(r) == j) { EACH_COLUMN X(r, k) = pivot_row[k]; }
      }
      if (ROW(r) > j && ROW(r) < p.m && !IS_ZERO(divisor)) {
        const T factor = DIV(X(r, OWN), divisor);
        X(r, OWN) = factor;
        EACH_COLUMN if (AFTER_OWN(k)) X(r, k) -= MUL(factor, pivot_row[k]);
      }
    }
  }
  STORE_ROWS
  barrier(CLK_LOCAL_MEM_FENCE);
  __global int *moves = POINTER(int, moves) + batch * 2 * WIDTH;
  for (int k = id; k < WIDTH; k += GROUP) moves[k] = from[k], moves[WIDTH + k] = to[k];
  if (id == 0) {
    __global int *info = POINTER(int, info) + batch;
    if (p.start == 0 || *info == 0) *info = failed;
  }
}
