// SPDX-License-Identifier: MIT
// Gradients of attention on matrix units (T. Dao, "FlashAttention-2", 2023). Both kernels compute the probabilities
// again from the forward pass's logsumexp; `delta` of a query is dot(grad_out, out). With s the scores times log2(e):
//   p = 2^(s - logsumexp)   ds = p * (kept * dot(grad_out, value) - delta)
//   grad_v = kept p^T grad_out   grad_k = scale * ds^T q   grad_q = scale * ds k
// One kernel takes blocks of queries, the other blocks of keys: no sums are shared, results never vary.
#include "attention/mma.clh"

// product[16 x SLICE] = fragments times the transpose of a slice whose rows are `width` long.
#define MULTIPLY_ROWS(product, fragments, rows, width, row_size)                                       \
  UNROLL for (int j = 0; j < SLICE / 8; j++) product[j] = 0;                                           \
  UNROLL for (int d = 0; d < (width) / 16; d++)                                                        \
    UNROLL for (int j = 0; j < SLICE / 16; j++) {                                                      \
      const uint4 x = load_matrices((rows) + (16 * j + far) * (row_size) + 16 * d + 8 * other, &warp); \
      MULTIPLY(&product[2 * j], fragments[d], x.xy, &warp);                                            \
      MULTIPLY(&product[2 * j + 1], fragments[d], x.zw, &warp);                                        \
    }
// sum[16 x width] += factors[16 x SLICE] times a slice.
#define ADD_PRODUCT(sum, factors, rows, width, row_size)                                                            \
  UNROLL for (int t = 0; t < SLICE / 16; t++) {                                                                     \
    const uint4 packed = PACK_TILES(factors[2 * t], factors[2 * t + 1]);                                            \
    UNROLL for (int j = 0; j < (width) / 16; j++) {                                                                 \
      const uint4 x = load_matrices_turned((rows) + (16 * t + near) * (row_size) + 16 * j + 8 * half_warp, &warp);  \
      MULTIPLY(&sum[2 * j], packed, x.xy, &warp);                                                                   \
      MULTIPLY(&sum[2 * j + 1], packed, x.zw, &warp);                                                               \
    }                                                                                                               \
  }

// Slopes of a slice's scores, before these get their bias.
#ifdef BIAS_SLOPE
#define TILE_SLOPES(EACH, q, kv) \
  float4 slopes[SLICE / 8];      \
  UNROLL for (int j = 0; j < SLICE / 8; j++) slopes[j] = EACH(SLOPE, s[j], q, kv);
// A gradient by the slope, which may be anything where the probability is 0.
#define SLOPED(probability, gradient, j) ((probability) == 0 ? (float4)0 : (gradient) * slopes[j])
#else
#define TILE_SLOPES(EACH, q, kv)
#define SLOPED(probability, gradient, j) (gradient)
#endif

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void attention_mma_queries_backward(const Params params, CONST_GLOBAL(ushort, q), CONST_GLOBAL(ushort, k),
                      CONST_GLOBAL(ushort, v),
                      BIAS_ARGUMENT CONST_GLOBAL(ushort, grad_out), CONST_GLOBAL(float, logsumexp),
                      CONST_GLOBAL(float, delta), GLOBAL(ushort, grad_q)) {
  const Params *p = &params;
  __local ushort memory[2 * SLICE * (ROW + VALUE_ROW)] __attribute__((aligned(16)));
  WARPS_MEMORY(shared, WARPS);
  const Warp warp = WARP(shared);
  LANE_POSITIONS
  BLOCK_OF_QUERIES
  const int row = first + 16 * warp.number + line;
  ISSUE_KEYS(SLICE_NUMBER(0) * SLICE, STAGE_OF(0));

  uint4 qs[WIDTH / 16], gs[VALUE_WIDTH / 16];
  UNROLL for (int d = 0; d < WIDTH / 16; d++)
    qs[d] = fetch_fragment(CONST_POINTER(ushort, q) + head_at(&p->q, batch, head), p->q.row, row, p->queries,
                           16 * d + pair, p->width);
  UNROLL for (int d = 0; d < VALUE_WIDTH / 16; d++)
    gs[d] = fetch_fragment(CONST_POINTER(ushort, grad_out) + head_at(&p->grad_out, batch, head), p->grad_out.row, row,
                           p->queries, 16 * d + pair, p->value_width);
  const long statistics = (long)batch_head * p->queries;
  const int2 at = min((int2)(row, row + 8), p->queries - 1);
  __global const float *L = CONST_POINTER(float, logsumexp) + statistics, *D = CONST_POINTER(float, delta) + statistics;
  const float2 top = LOG2_E * (float2)(L[at.x], L[at.y]), deltas = (float2)(D[at.x], D[at.y]);
  float4 sum[WIDTH / 8], s[SLICE / 8], dp[SLICE / 8];
  UNROLL for (int j = 0; j < WIDTH / 8; j++) sum[j] = 0;

  for (int n = 0; n < slices; n++) {
    const int begin = SLICE_NUMBER(n) * SLICE;
    const __local ushort *keys = STAGE_OF(n), *values = keys + SLICE * ROW;
    WAIT_COPIES(0);
    barrier(CLK_LOCAL_MEM_FENCE);
    ISSUE_KEYS(SLICE_NUMBER(n + 1) * SLICE, STAGE_OF(n + 1));
    MULTIPLY_ROWS(s, qs, keys, WIDTH, ROW)
    MULTIPLY_ROWS(dp, gs, values, VALUE_WIDTH, VALUE_ROW)
    const bool edge = begin + SLICE > end || CAUSAL && begin + SLICE > first + 16 * warp.number + 1;
    UNROLL for (int j = 0; j < SLICE / 8; j++) s[j] *= p->scale_log2;
#ifdef BIAS_TAG
    TILE_SLOPES(EACH_OF_TILE, row, begin + 8 * j + pair)
    if (!SLICE_IS_WHOLE(n))
      UNROLL for (int j = 0; j < SLICE / 8; j++) s[j] = BIASED_TILE(s[j], row, begin + 8 * j + pair);
#endif
    UNROLL for (int j = 0; j < SLICE / 8; j++) {
      const int column = begin + 8 * j + pair;
      s[j] = powers_of_2(FLOORED(s[j]) - top.xxyy);
      if (edge) {
        const int2 last = CAUSAL ? min((int2)(row, row + 8), end - 1) : (int2)(end - 1);
        s[j].xz = column > last ? 0 : s[j].xz;
        s[j].yw = column + 1 > last ? 0 : s[j].yw;
      }
    }
#if DROPOUT
    UNROLL for (int j = 0; j < SLICE / 8; j += 2)
      UNROLL for (int e = 0; e < 2; e++) {
        const float4 keep = p->keep_scale * convert_float4(kept(batch_head, row, begin + 8 * j + pair + e, p));
        if (e == 0) dp[j].xz *= keep.xz, dp[j + 1].xz *= keep.yw;
        else dp[j].yw *= keep.xz, dp[j + 1].yw *= keep.yw;
      }
#endif
    UNROLL for (int j = 0; j < SLICE / 8; j++) s[j] = SLOPED(s[j], s[j] * (dp[j] - deltas.xxyy), j);
    ADD_PRODUCT(sum, s, keys, WIDTH, ROW)
  }
  WAIT_COPIES(0);
  __global ushort *G = POINTER(ushort, grad_q) + head_at(&p->grad_q, batch, head);
  UNROLL for (int j = 0; j < WIDTH / 8; j++)
    store_tile(G, p->grad_q.row, row, p->queries, 8 * j + pair, p->width, sum[j] * p->scale);
}

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void attention_mma_keys_backward(const Params params, CONST_GLOBAL(ushort, q), CONST_GLOBAL(ushort, k),
                   CONST_GLOBAL(ushort, v),
                   BIAS_ARGUMENT CONST_GLOBAL(ushort, grad_out), CONST_GLOBAL(float, logsumexp),
                   CONST_GLOBAL(float, delta), GLOBAL(ushort, grad_k), GLOBAL(ushort, grad_v)) {
  const Params *p = &params;
  // A slice of queries, of grad_out, of logsumexp and of delta.
#define STAGE (SLICE * (ROW + VALUE_ROW + 4))
  __local ushort memory[2 * STAGE] __attribute__((aligned(16)));
  WARPS_MEMORY(shared, WARPS);
  const Warp warp = WARP(shared);
  LANE_POSITIONS
  const int blocks = (p->keys + BLOCK - 1) / BLOCK, key_heads = p->heads / p->sharing;
  const int batch = get_group_id(0) / blocks / key_heads, key_head = get_group_id(0) / blocks % key_heads;
  const int first = (int)get_group_id(0) % blocks * BLOCK, row = first + 16 * warp.number + line, end = p->queries;
  uint4 ks[WIDTH / 16], vs[VALUE_WIDTH / 16];
  UNROLL for (int d = 0; d < WIDTH / 16; d++)
    ks[d] = fetch_fragment(CONST_POINTER(ushort, k) + head_at(&p->k, batch, key_head), p->k.row, row, p->keys,
                           16 * d + pair, p->width);
  UNROLL for (int d = 0; d < VALUE_WIDTH / 16; d++)
    vs[d] = fetch_fragment(CONST_POINTER(ushort, v) + head_at(&p->v, batch, key_head), p->v.row, row, p->keys,
                           16 * d + pair, p->value_width);
  float4 sum_k[WIDTH / 8], sum_v[VALUE_WIDTH / 8], s[SLICE / 8], dp[SLICE / 8];
  UNROLL for (int j = 0; j < WIDTH / 8; j++) sum_k[j] = 0;
  UNROLL for (int j = 0; j < VALUE_WIDTH / 8; j++) sum_v[j] = 0;

  for (int head = key_head * p->sharing; head < (key_head + 1) * p->sharing; head++) {
    const int batch_head = batch * p->heads + head;
    __global const ushort *Q = CONST_POINTER(ushort, q) + head_at(&p->q, batch, head);
    __global const ushort *G = CONST_POINTER(ushort, grad_out) + head_at(&p->grad_out, batch, head);
    __global const float *L = CONST_POINTER(float, logsumexp) + (long)batch_head * p->queries;
    __global const float *D = CONST_POINTER(float, delta) + (long)batch_head * p->queries;
    BIAS_DATA
#define ISSUE(begin, to)                                                                                          \
  do {                                                                                                            \
    COPY_SLICES(to, Q, p->q.row, G, p->grad_out.row, begin);                                                      \
    if (get_local_id(0) < 2 * SLICE) {                                                                            \
      const int of = (begin) + (int)get_local_id(0) % SLICE;                                                      \
      copy_async((to) + SLICE * (ROW + VALUE_ROW) + 2 * get_local_id(0),                                          \
                 (get_local_id(0) < SLICE ? L : D) + (of < end ? of : 0), 4, of < end);                           \
    }                                                                                                             \
    COMMIT_COPIES();                                                                                              \
  } while (0)
    SLICES_OF_BLOCK(first / BLOCK, CAUSAL ? first / SLICE : 0, (end + SLICE - 1) / SLICE)
    barrier(CLK_LOCAL_MEM_FENCE);
    ISSUE(SLICE_NUMBER(0) * SLICE, memory);
    for (int n = 0; n < slices; n++) {
      const int begin = SLICE_NUMBER(n) * SLICE;
      const __local ushort *queries = memory + n % 2 * STAGE, *grads = queries + SLICE * ROW;
      const __local float *statistics = (const __local float *)(grads + SLICE * VALUE_ROW);
      WAIT_COPIES(0);
      barrier(CLK_LOCAL_MEM_FENCE);
      ISSUE(SLICE_NUMBER(n + 1) * SLICE, memory + (n + 1) % 2 * STAGE);
      MULTIPLY_ROWS(s, ks, queries, WIDTH, ROW)
      MULTIPLY_ROWS(dp, vs, grads, VALUE_WIDTH, VALUE_ROW)
      UNROLL for (int j = 0; j < SLICE / 8; j++) s[j] *= p->scale_log2;
#ifdef BIAS_TAG
      TILE_SLOPES(EACH_OF_TURNED_TILE, begin + 8 * j + pair, row)
      if (!SLICE_IS_WHOLE(n))
        UNROLL for (int j = 0; j < SLICE / 8; j++) s[j] = TURNED_BIASED_TILE(s[j], begin + 8 * j + pair, row);
#endif
      UNROLL for (int j = 0; j < SLICE / 8; j++) {
        const int column = begin + 8 * j + pair;
        const float2 top = LOG2_E * (float2)(statistics[8 * j + pair], statistics[8 * j + pair + 1]);
        s[j] = powers_of_2(FLOORED(s[j]) - top.xyxy);
        if (CAUSAL && begin < first + BLOCK) {
          s[j].xz = column < (int2)(row, row + 8) ? 0 : s[j].xz;
          s[j].yw = column + 1 < (int2)(row, row + 8) ? 0 : s[j].yw;
        }
      }
      UNROLL for (int j = 0; j < SLICE / 8; j += 2) {
        float4 keep[2] = {1, 1};
#if DROPOUT
        UNROLL for (int e = 0; e < 2; e++) {
          const float4 one = convert_float4(kept(batch_head, begin + 8 * j + pair + e, row, p));
          if (e == 0) keep[0].xz = one.xy, keep[1].xz = one.zw;
          else keep[0].yw = one.xy, keep[1].yw = one.zw;
        }
#endif
        UNROLL for (int e = 0; e < 2; e++) {
          const __local float *deltas = statistics + SLICE + 8 * (j + e) + pair;
          const float4 delta_of = (float4)(deltas[0], deltas[1], deltas[0], deltas[1]);
          const float4 gradient = s[j + e] * (dp[j + e] * (DROPOUT ? p->keep_scale * keep[e] : 1) - delta_of);
          dp[j + e] = SLOPED(s[j + e], gradient, j + e);
          if (DROPOUT) s[j + e] *= keep[e];
        }
      }
      ADD_PRODUCT(sum_v, s, grads, VALUE_WIDTH, VALUE_ROW)
      ADD_PRODUCT(sum_k, dp, queries, WIDTH, ROW)
    }
    WAIT_COPIES(0);
  }
  __global ushort *GK = POINTER(ushort, grad_k) + head_at(&p->grad_k, batch, key_head);
  __global ushort *GV = POINTER(ushort, grad_v) + head_at(&p->grad_v, batch, key_head);
  UNROLL for (int j = 0; j < WIDTH / 8; j++)
    store_tile(GK, p->grad_k.row, row, p->keys, 8 * j + pair, p->width, sum_k[j] * p->scale);
  UNROLL for (int j = 0; j < VALUE_WIDTH / 8; j++)
    store_tile(GV, p->grad_v.row, row, p->keys, 8 * j + pair, p->value_width, sum_v[j] * p->keep_scale);
}
