// SPDX-License-Identifier: MIT
// LU factors of a panel with partial pivoting. One barrier a step: every warp writes its candidate with its row, so that
// all find the pivot's row where the comparison ends; what the next step writes lies elsewhere.
// Defines: those of rows.clh; WARP, the work-items whose candidates are compared first: the power of two near the root of
// GROUP, of NVIDIA's 32, at most GROUP.
#include "linalg/rows.clh"
#include "lib/warp.clh"

#define WARPS (GROUP / WARP)

typedef struct {
  Matrix a;
  long pivots_batch;
  int m, n, start, pivot;  // `start`: rows and columns before the panel
} Panel;

typedef struct {
  real_t best[GROUP];
  int place[GROUP];
} Scratch;

// The larger of two candidates; of equal ones, the first row.
#define COMPARE(other, other_place)                                             \
  do {                                                                          \
    const real_t size = other;                                                  \
    const int row = other_place;                                                \
    if (size > *most || (size == *most && row < *where)) *most = size, *where = row; \
  } while (0)

inline void best_of_warp(real_t *most, int *where, __local Scratch *scratch, int id) {
#if defined(NV_PTX) && WARP == 32
  UNROLL for (uint far = 1; far < WARP; far *= 2)
    COMPARE(shuffle_xor(*most, far), (int)shuffle_xor((uint)*where, far));
#else
  scratch->best[id] = *most, scratch->place[id] = *where;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int c = id / WARP * WARP, end = c + WARP; c < end; c++) COMPARE(scratch->best[c], scratch->place[c]);
#endif
}

// The best of what the warps found.
inline void best_of_warps(real_t *most, int *where, __local const real_t *best, __local const int *place, int id) {
#if defined(NV_PTX) && WARP == 32
  *most = best[id % WARPS], *where = place[id % WARPS];
  UNROLL for (uint far = 1; far < WARPS; far *= 2)
    COMPARE(shuffle_xor(*most, far), (int)shuffle_xor((uint)*where, far));
#else
  *most = best[0], *where = place[0];
  for (int c = 1; c < WARPS; c++) COMPARE(best[c], place[c]);
#endif
}

// `moves`, int [2 WIDTH] a matrix: where what is in the first rows came from, and where what was there went to. Only
// what was in the first rows moves down, for a row that came up by a step stays.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void lu_panel(GLOBAL(T, a), GLOBAL(int, pivots),
                                                                          GLOBAL(int, info), GLOBAL(int, moves),
                                                                          Panel p) {
  __local Scratch scratch[2];
  __local real_t best[2][WARPS];
  __local int place[2][WARPS], pivot_of[WIDTH];
  __local __attribute__((aligned(16))) T candidates[2][WARPS + 1][WIDTH];  // rows by index, as rows.clh has it; of step j last
  const int id = get_local_id(0), warp = id / WARP;
  const long batch = get_group_id(0);
  __global T *a = POINTER(T, a) + batch * p.a.batch;
  const int steps = min(p.m, p.n);
  PANEL_ROWS
  LOAD_ROWS
  int failed = 0;
  EACH_STEP(steps) {
    const int turn = j % 2;
    real_t most = -1;
    int where = p.m;
    EACH_ROW {
      if (ROW(r) >= j && ROW(r) < p.m) {
        const real_t size = SIZE(X(r, OWN));
        if (size > most) most = size, where = ROW(r);
      }
    }
    best_of_warp(&most, &where, &scratch[turn], id);
    if (id % WARP == 0) best[turn][warp] = most, place[turn][warp] = where;
    EACH_ROW {
      if (ROW(r) == where) { EACH_COLUMN candidates[turn][warp][k] = X(r, k); }
      if (ROW(r) == j) { EACH_COLUMN candidates[turn][WARPS][k] = X(r, k); }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    best_of_warps(&most, &where, best[turn], place[turn], id);
    const bool stays = !p.pivot || where == p.m;  // p.m: nothing but NaN
    const int winner = stays ? WARPS : where % GROUP / WARP;
    if (stays) where = j;
    if (id == 0) {
      pivot_of[j] = where;
      POINTER(int, pivots)[batch * p.pivots_batch + p.start + j] = p.start + where + 1;
    }
    __local const T *pivot_row = candidates[turn][winner], *first_row = candidates[turn][WARPS];
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
        EACH_COLUMN SUBTRACT_AFTER(X(r, k), k, MUL(factor, pivot_row[k]))
      }
    }
  }
  STORE_ROWS
  barrier(CLK_LOCAL_MEM_FENCE);
  __global int *moves = POINTER(int, moves) + batch * 2 * WIDTH;
  for (int k = id; k < WIDTH; k += GROUP) {
    int from = k, to = k;
    for (int j = 0; j < steps; j++) {
      const int back = steps - 1 - j;
      from = from == back ? pivot_of[back] : from == pivot_of[back] ? back : from;
      to = to == j ? pivot_of[j] : to == pivot_of[j] ? j : to;
    }
    moves[k] = from, moves[WIDTH + k] = to;
  }
  if (id == 0) {
    __global int *info = POINTER(int, info) + batch;
    if (p.start == 0 || *info == 0) *info = failed;
  }
}
