// SPDX-License-Identifier: MIT
// Between the products of attention's gradients (cores/products.cpp): scores become probabilities and the gradients of
// probabilities those of scores, by the formulas of mma_backward.cl. A row is that of a query and of one of the heads
// that share keys, all heads of a query before the next query. A work-item takes two queries, 8 apart, and two fours of
// keys, which with DROPOUT are 8 apart as well, so that a draw of random numbers serves four of its elements. Defines
// besides attention.clh's: TAG.
#include "attention/attention.clh"

// `units` heads of keys from `unit` on; `queries` and `keys` of each, from `query` and `key` on, which are multiples of
// 16. `row`: elements of a row in memory, a multiple of 16; those from `keys` on have any value.
typedef struct {
  int unit, units, query, queries, key, keys, row;
} Section;

// Probabilities may lie where the scores do, and results where the gradients of probabilities do.
__kernel void attention_products(const Params params, const Section section,
                                 BIAS_ARGUMENT CONST_GLOBAL(float, logsumexp), CONST_GLOBAL(float, delta),
                                 CONST_GLOBAL(float, scores), CONST_GLOBAL(float, gradients),
                                 GLOBAL(STORAGE(TAG), probabilities), GLOBAL(STORAGE(TAG), results)) {
  const Params *p = &params;
  const uint columns = section.row / 8, pairs = (section.queries + 15) / 16 * 8, sharing = p->sharing;
  const uint item = (uint)global_id(), column = item % columns, member = item / columns % sharing;
  const uint pair = item / columns / sharing % pairs, unit = item / columns / sharing / pairs;
  if (unit >= section.units) return;
  const int key_heads = p->heads / p->sharing, batch = (section.unit + unit) / key_heads;
  const int head = (section.unit + unit) % key_heads * sharing + member, batch_head = batch * p->heads + head;
  const int first = pair / 8 * 16 + pair % 8, start = DROPOUT ? column / 2 * 16 + column % 2 * 4 : column * 8;
  BIAS_DATA
#if DROPOUT
  float keep[4][4];
#pragma unroll
  for (int e = 0; e < 4; e++) {
    const int4 k = kept(batch_head, section.query + first, section.key + start + e, p);
    keep[0][e] = k.x, keep[1][e] = k.y, keep[2][e] = k.z, keep[3][e] = k.w;
  }
#endif
#pragma unroll
  for (int i = 0; i < 2; i++) {
    const int own = first + 8 * i, q = section.query + own;
    if (own >= section.queries) continue;
    const long statistics = (long)batch_head * p->queries + q;
    const float top = LOG2_E * CONST_POINTER(float, logsumexp)[statistics];
    const float subtracted = CONST_POINTER(float, delta)[statistics];
    const long row = (((long)unit * section.queries + own) * sharing + member) * section.row;
#pragma unroll
    for (int j = 0; j < 2; j++) {
      const long at = row + start + (DROPOUT ? 8 : 4) * j;
      const int kv = section.key + (int)(at - row);
      float4 x = vload4(0, CONST_POINTER(float, scores) + at) * p->scale_log2;
      float4 dp = vload4(0, CONST_POINTER(float, gradients) + at);
#ifdef BIAS_TAG
      x += (float4)(bias_at(bias_data, q, kv, p), bias_at(bias_data, q, kv + 1, p), bias_at(bias_data, q, kv + 2, p),
                    bias_at(bias_data, q, kv + 3, p));
#endif
      if (CAUSAL) x = (int4)(kv, kv + 1, kv + 2, kv + 3) > q ? (float4)(-INFINITY) : x;
      float4 power = exp2(FLOORED(x) - top);
#if DROPOUT
      const float4 kept_ones = vload4(0, keep[2 * i + j]);
      dp *= kept_ones * p->keep_scale;
#endif
      const float4 ds = power * (dp - subtracted);
#if DROPOUT
      power *= kept_ones;
#endif
      *(__global FOUR(TAG) *)(POINTER(STORAGE(TAG), probabilities) + at) =
          (FOUR(TAG))(ENCODE(TAG, power.x), ENCODE(TAG, power.y), ENCODE(TAG, power.z), ENCODE(TAG, power.w));
      *(__global FOUR(TAG) *)(POINTER(STORAGE(TAG), results) + at) =
          (FOUR(TAG))(ENCODE(TAG, ds.x), ENCODE(TAG, ds.y), ENCODE(TAG, ds.z), ENCODE(TAG, ds.w));
    }
  }
}
