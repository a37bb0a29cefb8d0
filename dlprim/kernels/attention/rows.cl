// SPDX-License-Identifier: MIT
// Attention of few queries on CPUs, forward, in float32 arithmetic: a work-item takes a query of a head and
// passes over its keys by slices, whose scores it holds. Defines besides attention.clh's: TAG, WIDTH and VALUE_WIDTH,
// multiples of 16.
#include "attention/attention.clh"

#define SLICE 32

// Elements 16 d .. 16 d + 15 of a row; 0 from `width` on where that is less than `padded`.
inline float16 sixteen(__global const STORAGE(TAG) *row, int d, int width) {
  float v[16];
#pragma unroll
  for (int i = 0; i < 16; i++) v[i] = 16 * d + i < width ? LOAD(TAG, row, 16 * d + i) : 0;
  return vload16(0, v);
}
#define LOAD_SIXTEEN(row, d, width, padded) ((width) == (padded) ? sixteen(row, d, padded) : sixteen(row, d, width))

inline float total(float16 v) {
  const float8 a = v.lo + v.hi;
  const float4 b = a.lo + a.hi;
  return (b.x + b.y) + (b.z + b.w);
}

__kernel void attention_rows(const Params params, CONST_GLOBAL(STORAGE(TAG), q), CONST_GLOBAL(STORAGE(TAG), k),
                             CONST_GLOBAL(STORAGE(TAG), v), BIAS_ARGUMENT GLOBAL(STORAGE(TAG), out),
                             GLOBAL(float, logsumexp)) {
  const Params *p = &params;
  const int row = (int)get_global_id(0), query = row % p->queries, batch_head = row / p->queries;
  if (batch_head >= p->batch * p->heads) return;
  const int batch = batch_head / p->heads, head = batch_head % p->heads;
  __global const STORAGE(TAG) *Q = CONST_POINTER(STORAGE(TAG), q) + head_at(&p->q, batch, head) + (long)query * p->q.row;
  __global const STORAGE(TAG) *K = CONST_POINTER(STORAGE(TAG), k) + head_at(&p->k, batch, head / p->sharing);
  __global const STORAGE(TAG) *V = CONST_POINTER(STORAGE(TAG), v) + head_at(&p->v, batch, head / p->sharing);
  BIAS_DATA
  const int end = CAUSAL ? min(p->keys, query + 1) : p->keys;
  float16 own[WIDTH / 16], sum[VALUE_WIDTH / 16];
  float scores[SLICE], largest = -INFINITY, all = 0;
#pragma unroll
  for (int d = 0; d < WIDTH / 16; d++) own[d] = LOAD_SIXTEEN(Q, d, p->width, WIDTH);
#pragma unroll
  for (int d = 0; d < VALUE_WIDTH / 16; d++) sum[d] = 0;
  for (int begin = 0; begin < end; begin += SLICE) {
    const int count = min(SLICE, end - begin);
#ifdef BIAS_TAG
    bool seen = false;  // of what takes no part nothing is read
    for (int i = 0; i < count; i++) {
      scores[i] = bias_at(bias_data, query, begin + i, p);
      seen |= scores[i] != -INFINITY;
    }
    if (!seen) continue;
#endif
    float now = largest;
    for (int i = 0; i < count; i++) {
      __global const STORAGE(TAG) *key = K + (long)(begin + i) * p->k.row;
      float16 products = 0;
#pragma unroll
      for (int d = 0; d < WIDTH / 16; d++) products = fma(own[d], LOAD_SIXTEEN(key, d, p->width, WIDTH), products);
      float score = CAPPED(total(products) * p->scale_log2);
#ifdef BIAS_TAG
      score += scores[i];
#endif
      scores[i] = score, now = fmax(now, score);
    }
    const float base = now == -INFINITY ? 0 : now, factor = exp2(largest - base);
    largest = now, all *= factor;
#pragma unroll
    for (int d = 0; d < VALUE_WIDTH / 16; d++) sum[d] *= factor;
    for (int i = 0; i < count; i++) {
      __global const STORAGE(TAG) *value = V + (long)(begin + i) * p->v.row;
      const float weight = exp2(scores[i] - base);
      all += weight;
#pragma unroll
      for (int d = 0; d < VALUE_WIDTH / 16; d++)
        sum[d] = fma((float16)(weight), LOAD_SIXTEEN(value, d, p->value_width, VALUE_WIDTH), sum[d]);
    }
  }
  __global STORAGE(TAG) *to = POINTER(STORAGE(TAG), out) + head_at(&p->out, batch, head) + (long)query * p->out.row;
  const float factor = all == 0 ? 0 : 1 / all;
#pragma unroll
  for (int d = 0; d < VALUE_WIDTH / 16; d++) {
    float e[16];
    vstore16(sum[d] * factor, 0, e);
    for (int i = 0; i < 16 && 16 * d + i < p->value_width; i++) STORE(TAG, to, 16 * d + i, e[i]);
  }
  POINTER(float, logsumexp)[row] = log_sum(largest, all);
}
