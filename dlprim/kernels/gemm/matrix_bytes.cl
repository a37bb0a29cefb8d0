// SPDX-License-Identifier: MIT
// Core for products of bytes on Intel's matrix units, with sums in 32 bits. A work-group computes BM x BN of C, a
// sub-group WM x WN of it. A and B pass through local memory as words of four bytes along k, as deep as the unit. The
// host also defines
//   LANES, SIGNED, EMULATED   see lib/matrix_bytes.clh
//   A_WORDS, B_WORDS          1: words lie in memory as such, aligned
#include "gemm/operands.clh"
#include "gemm/words.clh"
#include "lib/matrix_bytes.clh"

#define WORDS MATRIX_WORDS
#define PITCH (WORDS + 1)  // neighbouring lanes read from different banks
#define SUBGROUPS ((BM / WM) * (BN / WN))
#define GROUP (SUBGROUPS * LANES)
#define ROWS_HELD (WM / MATRIX_ROWS)
#define COLUMNS_HELD (WN / LANES)

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) __attribute__((intel_reqd_sub_group_size(LANES))) void
gemm_matrix_bytes(GEMM_ARGUMENTS) {
  const Params *p = &params;
  __local uint As[BM * PITCH] __attribute__((aligned(16)));
  __local uint Bs[BN * PITCH] __attribute__((aligned(16)));
  MATRIX_MEMORY(memory, SUBGROUPS);
  __local uint *shared = MATRIX_SHARED(memory);
  const int item = get_local_id(0), lane = get_sub_group_local_id(), number = get_sub_group_id();
  const int row = number % (BM / WM) * WM, column = number / (BM / WM) * WN;
  const Tile tile = tile_of(get_group_id(0), p);
  const INDEX m0 = tile.m * BM, n0 = tile.n * BN;
  __global const uchar *A = (__global const uchar *)CONST_POINTER(STORAGE(TA), a) + tile.batch * p->a_batch;
  __global const uchar *B = (__global const uchar *)CONST_POINTER(STORAGE(TB), b) + tile.batch * p->b_batch;
  ColumnOfSums sum[ROWS_HELD][COLUMNS_HELD];
  for (int i = 0; i < ROWS_HELD; i++)
    for (int j = 0; j < COLUMNS_HELD; j++) sum[i][j].bits = 0;
  for (INDEX k0 = 0; k0 < p->k; k0 += 4 * WORDS) {
    LOAD_WORDS(A, A_WORDS, m0, p->m, p->a_k, p->a_m, BM, row * PITCH + word)
    LOAD_WORDS(B, B_WORDS, n0, p->n, p->b_k, p->b_n, BN, row * PITCH + word)
    barrier(CLK_LOCAL_MEM_FENCE);
    ColumnOfBytes columns[COLUMNS_HELD];
    for (int j = 0; j < COLUMNS_HELD; j++) columns[j] = load_column(Bs + (column + j * LANES) * PITCH, PITCH, lane);
    for (int i = 0; i < ROWS_HELD; i++) {
      const RowsOfBytes rows = load_rows(As + (row + i * MATRIX_ROWS) * PITCH, PITCH, lane);
      for (int j = 0; j < COLUMNS_HELD; j++) sum[i][j] = multiply_bytes(rows, columns[j], sum[i][j], shared, lane);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  __global STORAGE(TC) *C = POINTER(STORAGE(TC), c);
  for (int i = 0; i < ROWS_HELD; i++)
    for (int j = 0; j < COLUMNS_HELD; j++)
      for (int r = 0; r < MATRIX_ROWS; r++) {
        const INDEX m = m0 + row + i * MATRIX_ROWS + r, n = n0 + column + j * LANES + lane;
        if (m >= p->m || n >= p->n) continue;
        const INDEX at = tile.batch * p->c_batch + m * p->c_m + n * p->c_n;
#if ADDEND
        const T addend = TO_T(LOAD(TD, CONST_POINTER(STORAGE(TD), d), tile.batch * p->d_batch + m * p->d_m + n * p->d_n));
#endif
        LOAD_RESIDUAL(at);
        STORE(TC, C, at, (VALUE(TC))(FINISH(TO_T(sum[i][j].row[r]), addend)));
      }
}
