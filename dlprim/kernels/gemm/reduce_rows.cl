// SPDX-License-Identifier: MIT
// gemm_reduce for plain products with equal splits, sums of float32, and rows of C that can be written four elements at
// a time: a work-item finishes four neighbours.
#include "gemm/operands.clh"

#define AHEAD 4  // loads under way at once

__kernel void gemm_reduce_rows(GEMM_ARGUMENTS) {
  __local float4 shared[256];
  const Params *p = &params;
  const INDEX size = p->m * p->n / 4;
  const INDEX id = get_global_id(0), own = min(id, size - 1);
  const INDEX batch = get_global_id(2);
  const int line = get_local_id(1), lines = get_local_size(1), width = get_local_size(0), column = get_local_id(0);
  __global const float4 *partial = (__global const float4 *)CONST_POINTER(float, a) + batch * p->splits * size + own;
  float4 sum = 0;
  INDEX s = line;
  for (; s + (AHEAD - 1) * lines < p->splits; s += AHEAD * lines) {
    float4 part[AHEAD];
#pragma unroll
    for (int k = 0; k < AHEAD; k++) part[k] = partial[(s + k * lines) * size];
#pragma unroll
    for (int k = 0; k < AHEAD; k++) sum += part[k];
  }
  for (; s < p->splits; s += lines) sum += partial[s * size];
  if (lines > 1) {
    shared[line * width + column] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (line > 0 || id >= size) return;
  for (int k = 1; k < lines; k++) sum += shared[k * width + column];
  const INDEX m = 4 * id / p->n, n = 4 * id - m * p->n, at = batch * p->c_batch + m * p->c_m + n;
  __global const STORAGE(TD) *D = CONST_POINTER(STORAGE(TD), d) + batch * p->d_batch + m * p->d_m;
  const float sums[4] = {sum.x, sum.y, sum.z, sum.w};
  STORAGE(TC) results[4];
#pragma unroll
  for (int e = 0; e < 4; e++) {
    T addend = 0;
    if (beta != 0) addend = LOAD(TD, D, (n + e) * p->d_n);
    LOAD_RESIDUAL(at + e);
    results[e] = ENCODE(TC, FINISH(SCALED(sums[e], m, n + e), addend));
  }
  *(__global FOUR(TC) *)(POINTER(STORAGE(TC), c) + at) = (FOUR(TC))(results[0], results[1], results[2], results[3]);
}
