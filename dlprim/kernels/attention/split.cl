// SPDX-License-Identifier: MIT
// Attention of few queries to many keys, forward ("Flash-Decoding", T. Dao et al., 2023): a warp takes `length` keys of
// a head and all rows that read them, at most 16: the queries of the `sharing` heads, one after the other. What it
// finds goes to memory, for combine.cl. Defines are those of mma.clh, with WARPS and TILES 1, and STAGES: slices in
// local memory, all but one of which are on their way.
#include "attention/mma.clh"

#define STAGE (SLICE * (ROW + VALUE_ROW))

// Row r of a head of keys: its head of queries, and its query.
#define HEAD(r) (key_head * p->sharing + (r) / p->queries)
#define QUERY(r) ((r) % p->queries)

inline uint fetch_query(__global const ushort *q, int r, int rows, int key_head, int batch, int column,
                        const Params *p) {
  if (r >= rows) return 0;
  return fetch_pair(q + head_at(&p->q, batch, HEAD(r)), p->q.row, QUERY(r), p->queries, column, p->width);
}

#ifdef BIAS_TAG
#define BIASES(r, kv) \
  (float2)(bias_at(biases + head_at(&p->bias, batch, HEAD(r)), QUERY(r), kv, p), \
           bias_at(biases + head_at(&p->bias, batch, HEAD(r)), QUERY(r), (kv) + 1, p))
#endif

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void split(const Params params, CONST_GLOBAL(ushort, q), CONST_GLOBAL(ushort, k), CONST_GLOBAL(ushort, v),
           BIAS_ARGUMENT GLOBAL(float, sums), GLOBAL(float2, weights), const int splits, const int length) {
  const Params *p = &params;
  __local ushort slices[STAGES * STAGE] __attribute__((aligned(16)));
  WARPS_MEMORY(shared, WARPS);
  const Warp warp = WARP(shared);
  LANE_POSITIONS
  const int group = get_group_id(0), key_heads = p->heads / p->sharing, rows = p->sharing * p->queries;
  const int batch = group / splits / key_heads, key_head = group / splits % key_heads;
  const int first = group % splits * length, end = min(p->keys, first + length);
  __global const ushort *Q = CONST_POINTER(ushort, q);
  __global const ushort *K = CONST_POINTER(ushort, k) + head_at(&p->k, batch, key_head);
  __global const ushort *V = CONST_POINTER(ushort, v) + head_at(&p->v, batch, key_head);
#ifdef BIAS_TAG
  __global const STORAGE(BIAS_TAG) *biases = CONST_POINTER(STORAGE(BIAS_TAG), bias);
  const int above = min(line, rows - 1), below = min(line + 8, rows - 1);
#endif
  UNROLL for (int i = 0; i < STAGES - 1; i++) ISSUE_KEYS(first + i * SLICE, slices + i * STAGE);

  uint4 qs[WIDTH / 16];
  float4 sum[VALUE_WIDTH / 8], s[SLICE / 8];
  float2 largest = -INFINITY, total = 0;  // of rows `line` and line + 8; the lane's share of the sum
  UNROLL for (int d = 0; d < WIDTH / 16; d++) {
    qs[d].x = fetch_query(Q, line, rows, key_head, batch, 16 * d + pair, p);
    qs[d].y = fetch_query(Q, line + 8, rows, key_head, batch, 16 * d + pair, p);
    qs[d].z = fetch_query(Q, line, rows, key_head, batch, 16 * d + pair + 8, p);
    qs[d].w = fetch_query(Q, line + 8, rows, key_head, batch, 16 * d + pair + 8, p);
  }
  UNROLL for (int j = 0; j < VALUE_WIDTH / 8; j++) sum[j] = 0;

  for (int begin = first, stage = 0; begin < end; begin += SLICE, stage = stage == STAGES - 1 ? 0 : stage + 1) {
    const __local ushort *keys = slices + stage * STAGE, *values = keys + SLICE * ROW;
    WAIT_COPIES(STAGES - 2);
    barrier(CLK_LOCAL_MEM_FENCE);
    ISSUE_KEYS(begin + (STAGES - 1) * SLICE, slices + (stage == 0 ? STAGES - 1 : stage - 1) * STAGE);
    UNROLL for (int j = 0; j < SLICE / 8; j++) s[j] = 0;
    UNROLL for (int d = 0; d < WIDTH / 16; d++)
      UNROLL for (int j = 0; j < SLICE / 16; j++) {
        const uint4 key = load_matrices(keys + (16 * j + far) * ROW + 16 * d + 8 * other, &warp);
        MULTIPLY(&s[2 * j], qs[d], key.xy, &warp);
        MULTIPLY(&s[2 * j + 1], qs[d], key.zw, &warp);
      }
    float2 now = largest;
    UNROLL for (int j = 0; j < SLICE / 8; j++) {
      const int column = begin + 8 * j + pair;
      s[j] *= p->scale_log2;
#ifdef BIAS_TAG
      s[j] += (float4)(BIASES(above, column), BIASES(below, column));
#endif
      if (begin + SLICE > end) {
        s[j].xz = column >= end ? (float2)(-INFINITY) : s[j].xz;
        s[j].yw = column + 1 >= end ? (float2)(-INFINITY) : s[j].yw;
      }
      now = fmax(now, fmax(s[j].xz, s[j].yw));
    }
    UNROLL for (int mask = 1; mask <= 2; mask *= 2)
      now = fmax(now, (float2)(as_float(exchange(as_uint(now.x), mask, &warp)),
                               as_float(exchange(as_uint(now.y), mask, &warp))));
    const float2 base = (float2)(now.x == -INFINITY ? 0 : now.x, now.y == -INFINITY ? 0 : now.y);
    const float2 shrink = (float2)(power_of_2(largest.x - base.x), power_of_2(largest.y - base.y));
    largest = now, total *= shrink;
    UNROLL for (int j = 0; j < VALUE_WIDTH / 8; j++) sum[j] *= shrink.xxyy;
    UNROLL for (int j = 0; j < SLICE / 8; j++) {
      s[j] = powers_of_2(s[j] - base.xxyy);
      total += s[j].xz + s[j].yw;
    }
    UNROLL for (int t = 0; t < SLICE / 16; t++) {
      const uint4 ps = PACK_TILES(s[2 * t], s[2 * t + 1]);
      UNROLL for (int j = 0; j < VALUE_WIDTH / 16; j++) {
        const uint4 value = load_matrices_turned(values + (16 * t + near) * VALUE_ROW + 16 * j + 8 * half_warp, &warp);
        MULTIPLY(&sum[2 * j], ps, value.xy, &warp);
        MULTIPLY(&sum[2 * j + 1], ps, value.zw, &warp);
      }
    }
  }
  WAIT_COPIES(0);

  UNROLL for (int mask = 1; mask <= 2; mask *= 2)
    total += (float2)(as_float(exchange(as_uint(total.x), mask, &warp)),
                      as_float(exchange(as_uint(total.y), mask, &warp)));
  UNROLL for (int half_of = 0; half_of < 2; half_of++) {
    const int row = line + 8 * half_of;
    if (row >= rows) continue;
    const long at = (long)group * rows + row;
    __global float *S = POINTER(float, sums) + at * VALUE_WIDTH + pair;
    UNROLL for (int j = 0; j < VALUE_WIDTH / 8; j++)
      *(__global float2 *)(S + 8 * j) = half_of ? sum[j].hi : sum[j].lo;
    if (pair == 0) POINTER(float2, weights)[at] = half_of ? (float2)(largest.y, total.y) : (float2)(largest.x, total.x);
  }
}
