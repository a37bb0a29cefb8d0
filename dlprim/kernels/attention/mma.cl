// SPDX-License-Identifier: MIT
// Attention on matrix units, forward (T. Dao, "FlashAttention-2", 2023): a work-group takes BLOCK queries of a head, a
// warp 16 * TILES of them, and passes over the keys in slices of SLICE. Scores and probabilities stay in registers.
// Defines besides attention.clh's and attention/mma.clh's: SCALE_FIRST (the scale is not positive, or there is
// a bias or a cap).
#include "attention/mma.clh"

#if !SCALE_FIRST
#define FACTOR p->scale_log2
#else
#define FACTOR 1
#endif

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void attention_mma_forward(const Params params, CONST_GLOBAL(ushort, q), CONST_GLOBAL(ushort, k),
             CONST_GLOBAL(ushort, v),
             BIAS_ARGUMENT GLOBAL(ushort, out), GLOBAL(float, logsumexp)) {
  const Params *p = &params;
  __local ushort memory[2 * SLICE * (ROW + VALUE_ROW)] __attribute__((aligned(16)));
  WARPS_MEMORY(shared, WARPS);
  const Warp warp = WARP(shared);
  LANE_POSITIONS
  BLOCK_OF_QUERIES
  ISSUE_KEYS(SLICE_NUMBER(0) * SLICE, STAGE_OF(0));

  const int own = first + warp.number * 16 * TILES;
  uint4 qs[TILES][WIDTH / 16];
  float4 sum[TILES][VALUE_WIDTH / 8], s[TILES][SLICE / 8];
  // Of the rows `line` and line + 8 of each tile: the largest score, and the lane's share of the probabilities' sum.
  float2 largest[TILES], total[TILES];
  UNROLL for (int i = 0; i < TILES; i++) {
    UNROLL for (int d = 0; d < WIDTH / 16; d++)
      qs[i][d] = fetch_fragment(CONST_POINTER(ushort, q) + head_at(&p->q, batch, head), p->q.row, own + 16 * i + line,
                                p->queries, 16 * d + pair, p->width);
    UNROLL for (int j = 0; j < VALUE_WIDTH / 8; j++) sum[i][j] = 0;
    largest[i] = -INFINITY, total[i] = 0;
  }

  for (int n = 0; n < slices; n++) {
    const int begin = SLICE_NUMBER(n) * SLICE;
    const __local ushort *keys = STAGE_OF(n), *values = keys + SLICE * ROW;
    WAIT_COPIES(0);
    barrier(CLK_LOCAL_MEM_FENCE);
    ISSUE_KEYS(SLICE_NUMBER(n + 1) * SLICE, STAGE_OF(n + 1));
    UNROLL for (int i = 0; i < TILES; i++) UNROLL for (int j = 0; j < SLICE / 8; j++) s[i][j] = 0;
    UNROLL for (int d = 0; d < WIDTH / 16; d++)
      UNROLL for (int j = 0; j < SLICE / 16; j++) {
        const uint4 key = load_matrices(keys + (16 * j + far) * ROW + 16 * d + 8 * other, &warp);
        UNROLL for (int i = 0; i < TILES; i++) {
          MULTIPLY(&s[i][2 * j], qs[i][d], key.xy, &warp);
          MULTIPLY(&s[i][2 * j + 1], qs[i][d], key.zw, &warp);
        }
      }
    UNROLL for (int i = 0; i < TILES; i++) {
      const int row = own + 16 * i + line;
#if SCALE_FIRST
      UNROLL for (int j = 0; j < SLICE / 8; j++) s[i][j] = CAPPED(s[i][j] * p->scale_log2);
#ifdef BIAS_TAG
      if (!SLICE_IS_WHOLE(n))
        UNROLL for (int j = 0; j < SLICE / 8; j++) s[i][j] = BIASED_TILE(s[i][j], row, begin + 8 * j + pair);
#endif
#endif
      if (begin + SLICE > end || CAUSAL && begin + SLICE > own + 16 * i + 1)
        UNROLL for (int j = 0; j < SLICE / 8; j++) {
          const int column = begin + 8 * j + pair;
          const int2 last = CAUSAL ? min((int2)(row, row + 8), end - 1) : (int2)(end - 1);
          s[i][j].xz = column > last ? -INFINITY : s[i][j].xz;
          s[i][j].yw = column + 1 > last ? -INFINITY : s[i][j].yw;
        }
      float2 now = largest[i];
      UNROLL for (int j = 0; j < SLICE / 8; j++) now = fmax(now, fmax(s[i][j].xz, s[i][j].yw));
      UNROLL for (int mask = 1; mask <= 2; mask *= 2)
        now = fmax(now, (float2)(as_float(exchange(as_uint(now.x), mask, &warp)),
                                 as_float(exchange(as_uint(now.y), mask, &warp))));
      const float2 base = (float2)(now.x == -INFINITY ? 0 : now.x * FACTOR, now.y == -INFINITY ? 0 : now.y * FACTOR);
      const float2 shrink = (float2)(power_of_2(largest[i].x * FACTOR - base.x),
                                     power_of_2(largest[i].y * FACTOR - base.y));
      largest[i] = now, total[i] *= shrink;
      if (shrink.x != 1 || shrink.y != 1)
        UNROLL for (int j = 0; j < VALUE_WIDTH / 8; j++) sum[i][j] *= shrink.xxyy;
      UNROLL for (int j = 0; j < SLICE / 8; j++) {
        const float4 x = s[i][j] * FACTOR - base.xxyy;
        s[i][j] = powers_of_2(x);
        total[i] += s[i][j].xz + s[i][j].yw;
      }
#if DROPOUT
      UNROLL for (int j = 0; j < SLICE / 8; j += 2)
        UNROLL for (int e = 0; e < 2; e++) {
          const int4 keep = kept(batch_head, row, begin + 8 * j + pair + e, p);
          if (e == 0) s[i][j].xz *= convert_float2(keep.xz), s[i][j + 1].xz *= convert_float2(keep.yw);
          else s[i][j].yw *= convert_float2(keep.xz), s[i][j + 1].yw *= convert_float2(keep.yw);
        }
#endif
    }
    UNROLL for (int t = 0; t < SLICE / 16; t++) {
      uint4 ps[TILES];
      UNROLL for (int i = 0; i < TILES; i++) ps[i] = PACK_TILES(s[i][2 * t], s[i][2 * t + 1]);
      UNROLL for (int j = 0; j < VALUE_WIDTH / 16; j++) {
        const uint4 value = load_matrices_turned(values + (16 * t + near) * VALUE_ROW + 16 * j + 8 * half_warp, &warp);
        UNROLL for (int i = 0; i < TILES; i++) {
          MULTIPLY(&sum[i][2 * j], ps[i], value.xy, &warp);
          MULTIPLY(&sum[i][2 * j + 1], ps[i], value.zw, &warp);
        }
      }
    }
  }
  WAIT_COPIES(0);

  __global ushort *O = POINTER(ushort, out) + head_at(&p->out, batch, head);
  __global float *L = POINTER(float, logsumexp) + (long)batch_head * p->queries;
  UNROLL for (int i = 0; i < TILES; i++) {
    UNROLL for (int mask = 1; mask <= 2; mask *= 2)
      total[i] += (float2)(as_float(exchange(as_uint(total[i].x), mask, &warp)),
                           as_float(exchange(as_uint(total[i].y), mask, &warp)));
    // Queries without keys attend to nothing.
    const float2 norm = (float2)(total[i].x == 0 ? 0 : p->keep_scale / total[i].x,
                                 total[i].y == 0 ? 0 : p->keep_scale / total[i].y);
    const int row = own + 16 * i + line;
    UNROLL for (int j = 0; j < VALUE_WIDTH / 8; j++)
      store_tile(O, p->out.row, row, p->queries, 8 * j + pair, p->value_width, sum[i][j] * norm.xxyy);
    if (pair == 0 && row < p->queries) L[row] = log_sum(largest[i].x * FACTOR, total[i].x);
    if (pair == 0 && row + 8 < p->queries) L[row + 8] = log_sum(largest[i].y * FACTOR, total[i].y);
  }
}
