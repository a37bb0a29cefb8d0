// SPDX-License-Identifier: MIT
// Core for CPUs and many products of few columns and short sums, as of vectors and matrices in space: a work-item
// computes a row of C, neighbouring rows of all matrices are the lanes of a vector. p->shares is the number of rows of
// all matrices. The host also defines
//   COLUMNS    of C
//   GROUP      work-items of a work-group
#include "gemm/operands.clh"
#include "gemm/element.clh"

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void gemm_tiny(GEMM_ARGUMENTS) {
  const Params *p = &params;
  const INDEX item = (INDEX)get_global_id(0);
  if (item >= p->shares) return;
  const Tile tile = {0, 0, item / p->m, 0};
  const INDEX row = item - tile.batch * p->m;
  __global const STORAGE(TA) *A = CONST_POINTER(STORAGE(TA), a) + tile.batch * p->a_batch + row * p->a_m;
  __global const STORAGE(TB) *B = CONST_POINTER(STORAGE(TB), b) + tile.batch * p->b_batch;
  T sums[COLUMNS];
#pragma unroll
  for (int n = 0; n < COLUMNS; n++) sums[n] = 0;
  for (INDEX k = 0; k < p->k; k++) {
    const T a = LOAD(TA, A, k * p->a_k);
#pragma unroll
    for (int n = 0; n < COLUMNS; n++) sums[n] += a * LOAD(TB, B, k * p->b_k + n * p->b_n);
  }
#pragma unroll
  for (int n = 0; n < COLUMNS; n++) store_element(row, n, sums[n], &tile, STORE_VALUES);
}
