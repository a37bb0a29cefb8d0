// SPDX-License-Identifier: MIT
// Gradients of a layer or RMS norm's weight and bias: sums over rows of gy * (x - mean) * rstd and of gy. LANES x ROWS
// work-items take PACK columns each, every ROWS-th row of a chunk (grid dim 1) of `chunk` rows, and leave partial sums:
// [2 (weight, bias), chunks, columns]. Defines: X_TAG, G_TAG, S_TAG (statistics), REAL, CENTER, PACK, LANES, ROWS.
#include "lib/types.clh"
#include "lib/packs.clh"

__kernel __attribute__((reqd_work_group_size(LANES * ROWS, 1, 1)))
void norm_columns(GLOBAL(REAL, partial_data), CONST_GLOBAL(STORAGE(G_TAG), gy_data),
                  CONST_GLOBAL(STORAGE(X_TAG), x_data), CONST_GLOBAL(STORAGE(S_TAG), mean_data),
                  CONST_GLOBAL(STORAGE(S_TAG), rstd_data), ulong rows, ulong columns, ulong chunk) {
  __local REAL dots[ROWS][LANES * PACK], sums[ROWS][LANES * PACK];
  __global const STORAGE(G_TAG) *gy = CONST_POINTER(STORAGE(G_TAG), gy_data);
  __global const STORAGE(X_TAG) *x = CONST_POINTER(STORAGE(X_TAG), x_data);
  __global const STORAGE(S_TAG) *means = CONST_POINTER(STORAGE(S_TAG), mean_data);
  __global const STORAGE(S_TAG) *rstds = CONST_POINTER(STORAGE(S_TAG), rstd_data);
  const uint lane = get_local_id(0) % LANES, row = get_local_id(0) / LANES;
  const ulong column = ((ulong)get_group_id(0) * LANES + lane) * PACK;
  const ulong begin = get_group_id(1) * chunk, end = min(begin + chunk, rows);
  REAL dot[PACK] = {0}, sum[PACK] = {0};
  if (column < columns) {
#pragma unroll 4
    for (ulong r = begin + row; r < end; r += ROWS) {
      const REAL mean = CENTER ? LOAD(S_TAG, means, r) : 0, rstd = LOAD(S_TAG, rstds, r);
      REAL g[PACK], h[PACK];
      LOAD_PACK(G_TAG, gy, r * columns + column, g);
      LOAD_PACK(X_TAG, x, r * columns + column, h);
      for (uint k = 0; k < PACK; k++) dot[k] += g[k] * ((h[k] - mean) * rstd), sum[k] += g[k];
    }
  }
  for (uint k = 0; k < PACK; k++) dots[row][lane * PACK + k] = dot[k], sums[row][lane * PACK + k] = sum[k];
  barrier(CLK_LOCAL_MEM_FENCE);
  __global REAL *partial = POINTER(REAL, partial_data) + get_group_id(1) * columns;
  for (uint i = get_local_id(0); i < LANES * PACK; i += LANES * ROWS) {
    const ulong c = (ulong)get_group_id(0) * LANES * PACK + i;
    if (c >= columns) break;
    REAL all_dots = 0, all_sums = 0;
    for (uint r = 0; r < ROWS; r++) all_dots += dots[r][i], all_sums += sums[r][i];
    partial[c] = all_dots;
    if (CENTER) partial[get_num_groups(1) * columns + c] = all_sums;
  }
}
