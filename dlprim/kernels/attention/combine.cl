// SPDX-License-Identifier: MIT
// Puts the parts of split.cl together: a work-group a row. Defines besides attention.clh's: TAG; VALUE_WIDTH, that of
// `sums`.
#include "attention/attention.clh"

__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void combine(
    const Params params, GLOBAL(STORAGE(TAG), out), GLOBAL(float, logsumexp), CONST_GLOBAL(float, sums),
    CONST_GLOBAL(float2, weights), const int splits) {
  const Params *p = &params;
  const int row = get_group_id(0), query = row % p->queries, head = row / p->queries % p->heads;
  const int batch = row / p->queries / p->heads, rows = p->sharing * p->queries;
  // The row among those of its head of keys, of the first split.
  const long first = (long)(batch * (p->heads / p->sharing) + head / p->sharing) * splits * rows +
                     head % p->sharing * p->queries + query;
  __global const float2 *W = CONST_POINTER(float2, weights) + first;
  float largest = -INFINITY, total = 0;
  for (int i = 0; i < splits; i++) largest = fmax(largest, W[(long)i * rows].x);
  const float base = largest == -INFINITY ? 0 : largest;
  for (int i = 0; i < splits; i++) total += W[(long)i * rows].y * exp2(W[(long)i * rows].x - base);
  __global STORAGE(TAG) *O = POINTER(STORAGE(TAG), out) + head_at(&p->out, batch, head) + (long)query * p->out.row;
  for (int d = get_local_id(0); d < p->value_width; d += 64) {
    __global const float *S = CONST_POINTER(float, sums) + first * VALUE_WIDTH + d;
    float sum = 0;
    for (int i = 0; i < splits; i++) sum += S[(long)i * rows * VALUE_WIDTH] * exp2(W[(long)i * rows].x - base);
    STORE(TAG, O, d, total == 0 ? 0 : sum / total);
  }
  if (get_local_id(0) == 0) POINTER(float, logsumexp)[row] = log_sum(largest, total);
}
