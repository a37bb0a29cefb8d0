// SPDX-License-Identifier: MIT
// Sums the splits of a product that was cut along k and finishes it. `a` holds [batch, split, m, n] of T. The
// work-items of a group's second dimension share the splits of an element. With stream-K (p->share) the number of
// splits varies from tile to tile (next_part), of tile_m x tile_n elements. One program serves all: columns of C are
// points of a convolution for any problem, and there is an addend where beta is not 0.
#include "gemm/operands.clh"

#define AHEAD 8  // loads under way at once

__kernel void gemm_reduce(GEMM_ARGUMENTS) {
  __local T shared[256];
  const Params *p = &params;
  const INDEX size = p->m * p->n;
  const INDEX id = get_global_id(0);
  const INDEX batch = get_global_id(2);
  const int line = get_local_id(1), lines = get_local_size(1), width = get_local_size(0), column = get_local_id(0);
  __global const T *partial = CONST_POINTER(T, a) + batch * p->splits * size + min(id, size - 1);
  INDEX splits = p->splits;
  if (p->share) {
    const INDEX row = min(id, size - 1) / p->n, column_at = min(id, size - 1) - row * p->n;
    const INDEX tile = tile_position(row / p->tile_m, column_at / p->tile_n, p);
    const INDEX first = p->slices * (batch * p->tiles_m * p->tiles_n + tile);
    splits = (first + p->slices - 1) / p->share - first / p->share + 1;
  }
  T sum = 0;
  INDEX s = line;
  for (; s + (AHEAD - 1) * lines < splits; s += AHEAD * lines) {
    T part[AHEAD];
#pragma unroll
    for (int k = 0; k < AHEAD; k++) part[k] = partial[(s + k * lines) * size];
#pragma unroll
    for (int k = 0; k < AHEAD; k++) sum += part[k];
  }
  for (; s < splits; s += lines) sum += partial[s * size];
  shared[line * width + column] = sum;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (line > 0 || id >= size) return;
  for (int k = 1; k < lines; k++) sum += shared[k * width + column];
  const INDEX m = id / p->n, n = id - m * p->n;
  const INDEX at = batch * p->c_batch + m * p->c_m + c_column(n, p);
  T addend = 0;
  if (!IS_ZERO(beta)) addend = LOAD(TD, CONST_POINTER(STORAGE(TD), d), batch * p->d_batch + m * p->d_m + n * p->d_n);
  LOAD_RESIDUAL(at);
  STORE(TC, POINTER(STORAGE(TC), c), at, FINISH(SCALED(sum, m, n), addend));
}
