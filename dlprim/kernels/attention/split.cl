// SPDX-License-Identifier: MIT
// Attention of few queries to many keys, forward ("Flash-Decoding", T. Dao et al., 2023): a warp takes `length` keys of
// a head and 16 of the rows that read them: the queries of the `sharing` heads, one after the other. What it finds goes
// to memory, for combine.cl; with COMBINES, where there are no more rows, the last warp of a head puts its parts
// together. Defines are those of mma.clh, with WARPS and TILES 1, COMBINES, MAPS (split_slices.clh), and STAGES: slices
// in local memory, all but one of which are on their way. TRIMS says that one row of a mask, contiguous and aligned to 16
// bytes, serves all rows: parts are of the keys from the first to the last that take part, as in a cache with room for
// more.
#include "attention/mma.clh"
#include "attention/split_slices.clh"

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

#if TRIMS
#define SEARCHED (4 * 32 * 16)  // keys that a warp looks at together
// Of keys from `begin` on, the first that takes part and the one behind the last; p->keys and 0 where there is none.
__attribute__((always_inline)) inline int2 visible_among(__global const uchar *mask, int begin, const Params *p,
                                                         const Warp *warp) {
  int first = p->keys, end = 0;
  uint words[4][4];
  UNROLL for (int i = 0; i < 4; i++) {
    const int at = begin + 16 * (32 * i + warp->lane);
    vstore4(at + 16 <= p->keys ? *(__global const uint4 *)(mask + at) : (uint4)(0), 0, words[i]);
    if (at < p->keys && at + 16 > p->keys)
      for (int j = at; j < p->keys; j++) words[i][(j - at) / 4] |= (uint)(mask[j] != 0) << 8 * (j % 4);
  }
  UNROLL for (int i = 0; i < 16; i++) {
    const uint word = words[i / 4][i % 4];
    const int at = begin + 16 * (32 * (i / 4) + warp->lane) + 4 * (i % 4);
    if (word == 0) continue;
    end = at + 4 - (int)clz(word) / 8;
    first = min(first, at + (31 - (int)clz(word & -word)) / 8);
  }
  UNROLL for (int lanes = 1; lanes <= 16; lanes *= 2) {
    first = min(first, (int)exchange((uint)first, lanes, warp));
    end = max(end, (int)exchange((uint)end, lanes, warp));
  }
  return (int2)(first, end);
}
// The first key that takes part and the one behind the last, by all lanes together; 0 and 0 where there is none.
__attribute__((always_inline)) inline int2 visible_keys(__global const uchar *mask, const Params *p, const Warp *warp) {
  int2 front = (int2)(p->keys, 0);
  int begin = 0;
  for (; begin < p->keys && front.y == 0; begin += SEARCHED) front = visible_among(mask, begin, p, warp);
  if (front.y == 0) return 0;
  for (int back = (p->keys - 1) / SEARCHED * SEARCHED; back >= begin; back -= SEARCHED) {
    const int end = visible_among(mask, back, p, warp).y;
    if (end) return (int2)(front.x, end);
  }
  return front;
}
#endif

#if COMBINES
#define COMBINE_ARGUMENTS , GLOBAL(STORAGE(TAG), out), GLOBAL(float, logsumexp), GLOBAL(uint, counters)
#define TOGETHER 4  // rows whose parts are read at once, for waiting for memory is what takes time

// Counts the groups of a head that have left their parts in memory; whether this one is the last, which sets it to 0.
inline bool is_last(__global uint *counter, int groups, __local uint *last) {
  FENCE_DEVICE();
  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
  if (groups == 1) return true;
  if (get_local_id(0) == 0) {
    *last = atomic_inc(counter) == groups - 1;
    if (*last) *counter = 0;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  FENCE_DEVICE();
  return *last;
}

// Of a head of keys; `sums` and `weights` are those of its first part, one row behind the other and so part by part. At
// most MOST rows of all parts. A work-item takes four columns at a time.
inline void combine_parts(__global const float *sums, __global const float2 *weights, int splits, int rows,
                          int key_head, int batch, const Params *p, __global STORAGE(TAG) *out,
                          __global float *logsumexp, __local float2 *parts, __local float *factors) {
  const int item = get_local_id(0);
  for (int e = item; e < splits * rows; e += GROUP) parts[e] = weights[e];
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int e = item; e < splits * rows; e += GROUP) {
    float largest = -INFINITY, total = 0;
    for (int i = e % rows; i < splits * rows; i += rows) largest = fmax(largest, parts[i].x);
    const float base = largest == -INFINITY ? 0 : largest;
    for (int i = e % rows; i < splits * rows; i += rows) total += parts[i].y * exp2(parts[i].x - base);
    factors[e] = total == 0 ? 0 : exp2(parts[e].x - base) / total;
    if (e < rows)
      logsumexp[((long)batch * p->heads + HEAD(e)) * p->queries + QUERY(e)] = log_sum(largest, total);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int column = 4 * item; column < VALUE_WIDTH; column += 4 * GROUP) {
    for (int first = 0; first < rows; first += TOGETHER) {
      float4 result[TOGETHER];
      UNROLL for (int r = 0; r < TOGETHER; r++) result[r] = 0;
#pragma unroll 4
      for (int i = 0; i < splits; i++)
        UNROLL for (int r = 0; r < TOGETHER; r++) {
          const int e = i * rows + min(first + r, rows - 1);
          result[r] += *(__global const float4 *)(sums + (long)e * VALUE_WIDTH + column) * factors[e];
        }
      UNROLL for (int r = 0; r < TOGETHER; r++) {
        const int row = first + r;
        if (row >= rows) break;
        __global STORAGE(TAG) *O = out + head_at(&p->out, batch, HEAD(row)) + (long)QUERY(row) * p->out.row;
        if (column < p->value_width) STORE(TAG, O, column, result[r].x);
        if (column + 1 < p->value_width) STORE(TAG, O, column + 1, result[r].y);
        if (column + 2 < p->value_width) STORE(TAG, O, column + 2, result[r].z);
        if (column + 3 < p->value_width) STORE(TAG, O, column + 3, result[r].w);
      }
    }
  }
}
#else
#define COMBINE_ARGUMENTS
#endif

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void split(MAPS_PARAMETER const Params params, CONST_GLOBAL(ushort, q), CONST_GLOBAL(ushort, k),
           CONST_GLOBAL(ushort, v), BIAS_ARGUMENT GLOBAL(float, sums), GLOBAL(float2, weights), const int splits,
           const int length COMBINE_ARGUMENTS) {
  const Params *p = &params;
  __local ushort slices[STAGES * STAGE] __attribute__((aligned(MAPS ? 1024 : 16)));
  WARPS_MEMORY(shared, WARPS);
  const Warp warp = WARP(shared);
  LANE_POSITIONS
  COPY_STATE
  const int key_heads = p->heads / p->sharing, rows = p->sharing * p->queries, blocks = (rows + 15) / 16;
  const int group = get_group_id(0), head = group / splits / blocks, block_row = group / splits % blocks * 16;
  const int batch = head / key_heads, key_head = head % key_heads;
#if TRIMS
  const int2 seen = visible_keys(CONST_POINTER(uchar, bias) + head_at(&p->bias, batch, 0), p, &warp);
  const int part = ((seen.y - seen.x + splits - 1) / splits + SLICE - 1) / SLICE * SLICE;
  const int first = min(seen.y, seen.x + group % splits * part), end = min(seen.y, first + part);
#else
  const int first = group % splits * length, end = min(p->keys, first + length);
#endif
  __global const ushort *Q = CONST_POINTER(ushort, q);
  __global const ushort *K = CONST_POINTER(ushort, k) + head_at(&p->k, batch, key_head);
  __global const ushort *V = CONST_POINTER(ushort, v) + head_at(&p->v, batch, key_head);
#ifdef BIAS_TAG
  __global const STORAGE(BIAS_TAG) *biases = CONST_POINTER(STORAGE(BIAS_TAG), bias);
  const int above = min(block_row + line, rows - 1), below = min(block_row + line + 8, rows - 1);
#endif
  // Groups begin at different slices: parts lie at equal distances, and memory serves some of these by few channels.
  const int count = (end - first + SLICE - 1) / SLICE, skipped = count > 0 ? group % count : 0;
#define SLICE_AT(i) ((i) < count ? first + ((i) + skipped - ((i) + skipped < count ? 0 : count)) * SLICE : end)
  UNROLL for (int i = 0; i < STAGES - 1; i++) BRING(i, i)

  uint4 qs[WIDTH / 16];
  float4 sum[VALUE_WIDTH / 8], s[SLICE / 8];
  float2 largest = -INFINITY, total = 0;  // of rows `line` and line + 8; the lane's share of the sum
  UNROLL for (int d = 0; d < WIDTH / 16; d++) {
    const int row = block_row + line, column = 16 * d + pair;
    qs[d].x = fetch_query(Q, row, rows, key_head, batch, column, p);
    qs[d].y = fetch_query(Q, row + 8, rows, key_head, batch, column, p);
    qs[d].z = fetch_query(Q, row, rows, key_head, batch, column + 8, p);
    qs[d].w = fetch_query(Q, row + 8, rows, key_head, batch, column + 8, p);
  }
  UNROLL for (int j = 0; j < VALUE_WIDTH / 8; j++) sum[j] = 0;

  for (int i = 0, stage = 0; i < count; i++, stage = stage == STAGES - 1 ? 0 : stage + 1) {
    const int begin = SLICE_AT(i);
    const __local ushort *keys = slices + stage * STAGE, *values = STAGE_VALUES(keys);
    NEXT_SLICE(i, stage)
    UNROLL for (int j = 0; j < SLICE / 8; j++) s[j] = 0;
    UNROLL for (int d = 0; d < WIDTH / 16; d++)
      UNROLL for (int j = 0; j < SLICE / 16; j++) {
        const uint4 key = load_matrices(KEY_AT(keys, j, d), &warp);
        MULTIPLY(&s[2 * j], qs[d], key.xy, &warp);
        MULTIPLY(&s[2 * j + 1], qs[d], key.zw, &warp);
      }
    float2 now = largest;
    UNROLL for (int j = 0; j < SLICE / 8; j++) {
      const int column = begin + 8 * j + pair;
      s[j] = CAPPED(s[j] * p->scale_log2);
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
        const uint4 value = load_matrices_turned(VALUE_AT(values, t, j), &warp);
        MULTIPLY(&sum[2 * j], ps, value.xy, &warp);
        MULTIPLY(&sum[2 * j + 1], ps, value.zw, &warp);
      }
    }
  }
  COPIES_END();

  UNROLL for (int mask = 1; mask <= 2; mask *= 2)
    total += (float2)(as_float(exchange(as_uint(total.x), mask, &warp)),
                      as_float(exchange(as_uint(total.y), mask, &warp)));
  UNROLL for (int half_of = 0; half_of < 2; half_of++) {
    const int row = block_row + line + 8 * half_of;
    if (row >= rows) continue;
    const long at = ((long)head * splits + group % splits) * rows + row;
    __global float *S = POINTER(float, sums) + at * VALUE_WIDTH + pair;
    UNROLL for (int j = 0; j < VALUE_WIDTH / 8; j++)
      *(__global float2 *)(S + 8 * j) = half_of ? sum[j].hi : sum[j].lo;
    if (pair == 0) POINTER(float2, weights)[at] = half_of ? (float2)(largest.y, total.y) : (float2)(largest.x, total.x);
  }
#if COMBINES
  __local float2 parts[MOST];
  __local float factors[MOST];
  __local uint last;
  if (is_last(POINTER(uint, counters) + head, splits, &last))
    combine_parts(POINTER(float, sums) + (long)head * splits * rows * VALUE_WIDTH,
                  POINTER(float2, weights) + (long)head * splits * rows, splits, rows, key_head, batch, p,
                  POINTER(STORAGE(TAG), out), POINTER(float, logsumexp), parts, factors);
#endif
}
