// SPDX-License-Identifier: MIT
// Puts the parts of split.cl together, at most 64: a work-group a row. A quarter of its work-items takes two columns each
// of every fourth part. Defines besides attention.clh's: TAG; VALUE_WIDTH, that of `sums`, a multiple of 2.
#include "attention/attention.clh"

#define MOST 64     // parts
#define QUARTERS 4  // of a work-group: all read at once, for waiting for memory is what takes time
#define COLUMNS 64  // pairs of a quarter

__kernel __attribute__((reqd_work_group_size(QUARTERS *COLUMNS, 1, 1))) void combine(
    const Params params, GLOBAL(STORAGE(TAG), out), GLOBAL(float, logsumexp), CONST_GLOBAL(float, sums),
    CONST_GLOBAL(float2, weights), const int splits) {
  const Params *p = &params;
  __local float maxima[MOST], factors[MOST], totals[MOST];
  __local float2 shares[QUARTERS][COLUMNS];
  const int row = get_group_id(0), query = row % p->queries, head = row / p->queries % p->heads;
  const int batch = row / p->queries / p->heads, rows = p->sharing * p->queries;
  const int item = get_local_id(0), quarter = item / COLUMNS, column = 2 * (item % COLUMNS);
  // The row among those of its head of keys, of the first split.
  const long first = (long)(batch * (p->heads / p->sharing) + head / p->sharing) * splits * rows +
                     head % p->sharing * p->queries + query;
  const float2 part = item < splits ? CONST_POINTER(float2, weights)[first + (long)item * rows] : (float2)(-INFINITY, 0);
  if (item < splits) maxima[item] = part.x;
  barrier(CLK_LOCAL_MEM_FENCE);
  float largest = -INFINITY, total = 0;
  for (int i = 0; i < splits; i++) largest = fmax(largest, maxima[i]);
  const float factor = exp2(part.x - (largest == -INFINITY ? 0 : largest));
  if (item < splits) factors[item] = factor, totals[item] = part.y * factor;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int i = 0; i < splits; i++) total += totals[i];

  __global STORAGE(TAG) *O = POINTER(STORAGE(TAG), out) + head_at(&p->out, batch, head) + (long)query * p->out.row;
  for (int begin = 0; begin < VALUE_WIDTH; begin += 2 * COLUMNS) {
    const int d = begin + column;
    float2 sum = 0;
    if (d < VALUE_WIDTH) {
      __global const float *S = CONST_POINTER(float, sums) + first * VALUE_WIDTH + d;
#pragma unroll 4
      for (int i = quarter; i < splits; i += QUARTERS)
        sum += *(__global const float2 *)(S + (long)i * rows * VALUE_WIDTH) * factors[i];
    }
    shares[quarter][item % COLUMNS] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (quarter == 0) {
      for (int i = 1; i < QUARTERS; i++) sum += shares[i][item % COLUMNS];
      sum = total == 0 ? 0 : sum / total;
      if (d < p->value_width) STORE(TAG, O, d, sum.x);
      if (d + 1 < p->value_width) STORE(TAG, O, d + 1, sum.y);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (item == 0) POINTER(float, logsumexp)[row] = log_sum(largest, total);
}
