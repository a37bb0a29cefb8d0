// SPDX-License-Identifier: MIT
// Attention on CPUs, forward: a work-group is one work-item, which takes BQ queries of a head over slices of BK keys
// (Dao et al. 2022). Scores and products of probabilities by values are register tiles of 12 x 32 and 6 x 64. Defines:
// those of attention/blocks.clh.
#include "attention/blocks.clh"

DEFINE_MULTIPLY(multiply_keys, 12, 2, ALONG_ROW)
#if VALUES >= 4
DEFINE_MULTIPLY(multiply_values, 6, 4, ALONG_ROW)
#endif
#if VALUES % 4
DEFINE_MULTIPLY(multiply_rest, 6, (VALUES % 4), ALONG_ROW)
#endif

inline float sum_of(VEC v) {
  const float8 a = v.lo + v.hi;
  const float4 b = a.lo + a.hi;
  return (b.x + b.y) + (b.z + b.w);
}
inline float largest_of(VEC v) {
  const float8 a = v.lo > v.hi ? v.lo : v.hi;
  const float4 b = a.lo > a.hi ? a.lo : a.hi;
  return fmax(fmax(b.x, b.y), fmax(b.z, b.w));
}

// The scores of a query, of `count` keys from `key` on that take part, become probabilities by `largest`, which grows;
// returns their sum. `factor` is what sums so far have to be multiplied by.
inline float probabilities(__local T *scores, __local ushort *rounded, BIAS_PARAMETER int query, int key, int count,
                           float *largest, float *factor, const Params *p) {
  const int16 lane = (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  VEC high = (VEC)(-INFINITY), sum = 0;
  for (int k = 0; k < BK; k += 16) {
    VEC x = (VEC)(-INFINITY);
    if (k < count) {
      x = CAPPED(vload16(0, scores + k) * p->scale_log2);
#ifdef BIAS_TAG
      const VEC bias = biases(bias_data, query, key + k, p);
      x = select(x + bias, bias, bias == (VEC)(-INFINITY));  // of what takes no part nothing matters
#endif
      if (k + 16 > count) x = select(x, (VEC)(-INFINITY), lane >= count - k);
      high = select(high, x, x > high);
    }
    vstore16(x, 0, scores + k);
  }
  const float now = fmax(*largest, largest_of(high)), base = now == -INFINITY ? 0 : now;
  *factor = exp2(*largest - base), *largest = now;
  for (int k = 0; k < BK; k += 16) {
    const VEC power = power_of_two(vload16(0, scores + k) - base);
    sum += power;
#ifdef BFLOAT16_DOT
    vstore16(ROUND_TO_BFLOAT16(power), 0, rounded + k);
#else
    vstore16(power, 0, scores + k);
#endif
  }
  return sum_of(sum);
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void attention_blocks(
    const Params params, CONST_GLOBAL(STORAGE(TAG), q), CONST_GLOBAL(STORAGE(TAG), k), CONST_GLOBAL(STORAGE(TAG), v),
    BIAS_ARGUMENT GLOBAL(STORAGE(TAG), out), GLOBAL(float, logsumexp)) {
  const Params *p = &params;
  __local T queries[BQ * DEPTH] __attribute__((aligned(64))), keys[BK * DEPTH] __attribute__((aligned(64)));
  __local T values[BK / EACH * VALUE_WIDTH] __attribute__((aligned(64)));
  __local T sums[BQ * VALUE_WIDTH] __attribute__((aligned(64))), scores[BQ * BK] __attribute__((aligned(64)));
#ifdef BFLOAT16_DOT
  __local ushort rounded[BQ * BK] __attribute__((aligned(64)));
#define ROUNDED(i) (rounded + (i) * BK)
#define WEIGHTS(i) ((__local const T *)rounded + (i) * (BK / 2))
#else
#define ROUNDED(i) 0
#define WEIGHTS(i) (scores + (i) * BK)
#endif
  float largest[BQ], total[BQ];
  const int blocks = (p->queries + BQ - 1) / BQ, batch_head = (int)get_group_id(0) / blocks;
  const int block = blocks - 1 - (int)get_group_id(0) % blocks;  // with a causal mask, the longest first
  const int batch = batch_head / p->heads, head = batch_head % p->heads, first = block * BQ;
  const int rows = min(BQ, p->queries - first), end = CAUSAL ? min(p->keys, first + rows) : p->keys;
  __global const STORAGE(TAG) *Q =
      CONST_POINTER(STORAGE(TAG), q) + head_at(&p->q, batch, head) + (long)first * p->q.row;
  __global const STORAGE(TAG) *K = CONST_POINTER(STORAGE(TAG), k) + head_at(&p->k, batch, head / p->sharing);
  __global const STORAGE(TAG) *V = CONST_POINTER(STORAGE(TAG), v) + head_at(&p->v, batch, head / p->sharing);
  BIAS_DATA
  for (int i = 0; i < BQ; i++) {
    for (int d = 0; d < DEPTH / 16; d++)
      vstore16(i < rows ? elements(Q + (long)i * p->q.row, d, p->width) : (VEC)(0), d, queries + i * DEPTH);
    for (int d = 0; d < VALUES; d++) vstore16((VEC)(0), d, sums + i * VALUE_WIDTH);
    largest[i] = -INFINITY, total[i] = 0;
  }
  SLICES_OF_BLOCK(block, 0, (end + BK - 1) / BK)
  for (int n = 0; n < slices; n++) {
    const int key = SLICE_NUMBER(n) * BK;
    const int count = min(BK, end - key);
    __global const STORAGE(TAG) *slice = K + (long)key * p->k.row;
    lay_panels(slice, p->k.row, count, p->width, DEPTH, keys);
    lay_rows(V + (long)key * p->v.row, p->v.row, count, p->value_width, VALUES, values);
    for (int k = 0; k < count; k += PANEL)
      for (int i = 0; i < rows; i += 12)
        multiply_keys(queries + i * DEPTH, DEPTH, keys + k * DEPTH, PANEL, DEPTH, scores + i * BK + k, BK, false);
    for (int i = 0; i < rows; i++) {
      float factor;
      const int seen = CAUSAL ? clamp(first + i + 1 - key, 0, count) : count;
      const float sum =
          probabilities(scores + i * BK, ROUNDED(i), BIAS_VALUE first + i, key, seen, &largest[i], &factor, p);
      total[i] = total[i] * factor + sum;
      if (factor != 1)
        for (int d = 0; d < VALUES; d++)
          vstore16(vload16(d, sums + i * VALUE_WIDTH) * factor, d, sums + i * VALUE_WIDTH);
    }
    for (int i = 0; i < rows; i += 6) {
#if VALUES >= 4
      for (int d = 0; d + 4 <= VALUES; d += 4)
        multiply_values(WEIGHTS(i), BK / EACH, values + 16 * d, VALUE_WIDTH, (count + EACH - 1) / EACH,
                        sums + i * VALUE_WIDTH + 16 * d, VALUE_WIDTH, true);
#endif
#if VALUES % 4
      multiply_rest(WEIGHTS(i), BK / EACH, values + VALUES / 4 * 64, VALUE_WIDTH, (count + EACH - 1) / EACH,
                    sums + i * VALUE_WIDTH + VALUES / 4 * 64, VALUE_WIDTH, true);
#endif
    }
  }
  __global STORAGE(TAG) *to = POINTER(STORAGE(TAG), out) + head_at(&p->out, batch, head) + (long)first * p->out.row;
  __global float *statistics = POINTER(float, logsumexp) + (long)batch_head * p->queries + first;
  for (int i = 0; i < rows; i++, to += p->out.row) {
    const float factor = total[i] == 0 ? 0 : 1 / total[i];
    for (int d = 0; d < VALUES; d++) {
      const VEC v = vload16(d, sums + i * VALUE_WIDTH) * factor;
      STORAGE(TAG) each[16];
      if (16 * d + 16 <= p->value_width) {
        vstore16(ENCODE16(TAG, v), d, to);
        continue;
      }
      vstore16(ENCODE16(TAG, v), 0, each);
      for (int e = 0; 16 * d + e < p->value_width; e++) to[16 * d + e] = each[e];
    }
    statistics[i] = log_sum(largest[i], total[i]);
  }
}
