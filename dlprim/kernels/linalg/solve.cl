// SPDX-License-Identifier: MIT
// Substitution: X of L X = B, in place, for lower triangular matrices L of a few tiles; upper ones come with their last
// element first and negative strides. A work-item a column keeps a tile of it in registers and reads what it solved
// before from memory; the work-group shares tiles of L.
// Defines, beside those of linalg.clh: TILE, GROUP, UNIT (ones on the diagonal), CONJUGATE.
#include "linalg/linalg.clh"

typedef struct {
  Matrix a, x;
  long columns, chunks;  // chunks of GROUP columns
  int n, unused;
} Solve;

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void triangular_solve(CONST_GLOBAL(T, a), GLOBAL(T, x),
                                                                                  Solve p) {
  __local T tile[TILE][TILE + 1];
  const int id = get_local_id(0);
  const long batch = get_group_id(0) / p.chunks, column = get_group_id(0) % p.chunks * GROUP + id;
  const bool active = column < p.columns;
  __global const T *a = CONST_POINTER(T, a) + batch * p.a.batch;
  __global T *x = POINTER(T, x) + batch * p.x.batch + (active ? column : 0) * p.x.col;
  T sum[TILE];
  for (int r = 0; r < p.n; r += TILE) {
    UNROLL for (int i = 0; i < TILE; i++) sum[i] = r + i < p.n ? x[(r + i) * p.x.row] : REAL(0);
    for (int k = 0; k <= r; k += TILE) {
      for (int t = id; t < TILE * TILE; t += GROUP) {
        const int i = t / TILE, j = t % TILE;
        T value = REAL(i == j ? (real_t)1 : (real_t)0);
        if (r + i < p.n && k + j <= r + i && !(UNIT && k + j == r + i)) {
          value = a[AT(p.a, (long)(r + i), (long)(k + j))];
          if (CONJUGATE) value = CONJ(value);
        }
        tile[i][j] = value;
      }
      barrier(CLK_LOCAL_MEM_FENCE);
      if (k < r) {
        for (int j = 0; j < TILE; j++) {
          const T solved = x[(long)(k + j) * p.x.row];
          UNROLL for (int i = 0; i < TILE; i++) sum[i] -= MUL(tile[i][j], solved);
        }
      } else {
        UNROLL for (int j = 0; j < TILE; j++) {
          if (!UNIT) sum[j] = DIV(sum[j], tile[j][j]);
          UNROLL for (int i = 0; i < TILE; i++) if (i > j) sum[i] -= MUL(tile[i][j], sum[j]);
        }
      }
      barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (active) {
      UNROLL for (int i = 0; i < TILE; i++) if (r + i < p.n) x[(r + i) * p.x.row] = sum[i];
    }
  }
}
