// SPDX-License-Identifier: MIT
// Core for CPUs and products of few rows (a vector by a matrix): a work-group is one work-item; it computes tile_n
// columns of all MR rows straight from memory, in vectors along whatever direction of B is contiguous. The host
// also defines
//   MR         rows of C, at most 8, or 4 along n
//   B_ALONG_K  B (and A) are contiguous along k; otherwise B is along n
//   BFLOAT16_DOT   with B_ALONG_K, where these lie in pairs of bfloat16 (lib/bfloat16_dot.clh)
#define VEC CONCAT(T, 16)
#include "gemm/operands.clh"
#include "lib/bfloat16_dot.clh"
#include "lib/vectors.clh"

#ifdef BFLOAT16_DOT
#define AT_ONCE 32  // elements along k
#define LOAD_ALONG_K(tag, p) vload16(0, (__global const float *)(p))
#else
#define AT_ONCE 16
#define LOAD_ALONG_K(tag, p) LOAD16(tag, p)
#endif

#define COLUMNS (MR > 6 ? 3 : 4)  // summed at a time, B_ALONG_K
#define SLICE 1024                // of k, which has sums of its own: one sum of all would lose more

#if B_ALONG_K
inline T sum_of(VEC v) {
  const CONCAT(T, 8) a = v.lo + v.hi;
  const CONCAT(T, 4) b = a.lo + a.hi;
  return b.x + b.y + b.z + b.w;
}
#endif

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void gemm_thin(GEMM_ARGUMENTS) {
  const Params *p = &params;
  const Tile tile = tile_of(get_group_id(0), p);
  const INDEX n_end = min(p->n, (tile.n + 1) * p->tile_n);
  __global const STORAGE(TA) *A = CONST_POINTER(STORAGE(TA), a) + tile.batch * p->a_batch;
  __global const STORAGE(TB) *B = CONST_POINTER(STORAGE(TB), b) + tile.batch * p->b_batch;
  __global STORAGE(TC) *C = POINTER(STORAGE(TC), c) + tile.batch * p->c_batch;
#if ADDEND
  __global const STORAGE(TD) *D = CONST_POINTER(STORAGE(TD), d) + tile.batch * p->d_batch;
#endif

#if B_ALONG_K
  enum { step = COLUMNS };
#else
  enum { step = 64 };
#endif
  for (INDEX n = tile.n * p->tile_n; n < n_end; n += step) {
    const int columns = (int)min((INDEX)step, n_end - n);
    T sums[MR][step];
#if B_ALONG_K
    // Columns past the last are those of the last again.
    __global const STORAGE(TB) *b[COLUMNS];
#pragma unroll
    for (int j = 0; j < COLUMNS; j++) b[j] = B + (n + min(j, columns - 1)) * p->b_n;
    VEC acc[MR][COLUMNS];
#pragma unroll
    for (int i = 0; i < MR; i++)
#pragma unroll
      for (int j = 0; j < COLUMNS; j++) acc[i][j] = (VEC)(0);
    INDEX k = 0;
    for (; k + AT_ONCE <= p->k; k += AT_ONCE) {
      VEC bv[COLUMNS];
#pragma unroll
      for (int j = 0; j < COLUMNS; j++) bv[j] = LOAD_ALONG_K(TB, b[j] + k);
#pragma unroll
      for (int i = 0; i < MR; i++) {
        const VEC av = LOAD_ALONG_K(TA, A + i * p->a_m + k);
#pragma unroll
        for (int j = 0; j < COLUMNS; j++) acc[i][j] = ADD_PRODUCTS(acc[i][j], av, bv[j]);
      }
    }
#pragma unroll
    for (int i = 0; i < MR; i++)
#pragma unroll
      for (int j = 0; j < COLUMNS; j++) sums[i][j] = sum_of(acc[i][j]);
    for (; k < p->k; k++)
      for (int i = 0; i < MR; i++)
        for (int j = 0; j < COLUMNS; j++) sums[i][j] += LOAD(TA, A, i * p->a_m + k) * LOAD(TB, b[j], k);
#else
    if (columns == step) {
      for (INDEX k = 0; k < p->k;) {
        const INDEX begin = k, end = min(p->k, k + SLICE);
        VEC acc[MR][4];
#pragma unroll
        for (int i = 0; i < MR; i++)
#pragma unroll
          for (int j = 0; j < 4; j++) acc[i][j] = (VEC)(0);
        for (; k < end; k++) {
          VEC bv[4];
#pragma unroll
          for (int j = 0; j < 4; j++) bv[j] = LOAD16(TB, B + k * p->b_k + n + 16 * j);
#pragma unroll
          for (int i = 0; i < MR; i++) {
            const VEC av = (VEC)(LOAD(TA, A, i * p->a_m + k * p->a_k));
#pragma unroll
            for (int j = 0; j < 4; j++) acc[i][j] = fma(av, bv[j], acc[i][j]);
          }
        }
        for (int i = 0; i < MR; i++)
          for (int j = 0; j < 4; j++)
            vstore16(begin == 0 ? acc[i][j] : acc[i][j] + vload16(j, sums[i]), j, sums[i]);
      }
    } else {
      for (int i = 0; i < MR; i++)
        for (int j = 0; j < columns; j++) sums[i][j] = 0;
      for (INDEX k = 0; k < p->k; k++)
        for (int i = 0; i < MR; i++) {
          const T av = LOAD(TA, A, i * p->a_m + k * p->a_k);
          for (int j = 0; j < columns; j++) sums[i][j] += av * LOAD(TB, B, k * p->b_k + n + j);
        }
    }
#endif
    for (int i = 0; i < MR; i++)
      for (int j = 0; j < columns; j++) {
#if ADDEND
        const T addend = LOAD(TD, D, i * p->d_m + (n + j) * p->d_n);
#endif
        const INDEX at = i * p->c_m + (n + j) * p->c_n;
        LOAD_RESIDUAL(tile.batch * p->c_batch + at);
        STORE(TC, C, at, (VALUE(TC))(FINISH(sums[i][j], addend)));
      }
  }
}
