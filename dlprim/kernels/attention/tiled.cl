// SPDX-License-Identifier: MIT
// Attention in float32 arithmetic on any device (T. Dao, "FlashAttention-2", 2023): a work-group takes BLOCK queries
// (backward also: keys) of a head and passes over the keys (queries) in slices of as many; a work-item computes
// PER x PER of their scores. Defines besides attention.clh's: TAG, BLOCK, PER, WIDTH and VALUE_WIDTH, multiples of 16.
// Longer loops are not unrolled: compilers would load ahead what there are no registers for.
#include "attention/attention.clh"

#define SIDE (BLOCK / PER)
#define GROUP (SIDE * SIDE)
#define DEPTH 16
#define CHUNK (2 * BLOCK * (DEPTH + 4))
#define SCORES_ROW (BLOCK + 4)
// Rows of `width` elements that fit in a chunk, a power of two.
#define STEP(width) ((width) * 16 <= CHUNK ? 16 : (width) * 8 <= CHUNK ? 8 : 4)
// Column j of a work-item in a matrix of `width`: neighbours where there are enough columns.
#define NEIGHBOURS(width) ((width) % (4 * SIDE) == 0 ? 4 : (width) % (2 * SIDE) == 0 ? 2 : 1)
#define COLUMN(j, width) \
  ((j) / NEIGHBOURS(width) * SIDE * NEIGHBOURS(width) + x * NEIGHBOURS(width) + (j) % NEIGHBOURS(width))

// count_rows x count_columns of a matrix into local memory, 0 beyond its edges.
inline void load_chunk(__local float *to, int to_row, __global const STORAGE(TAG) *from, int from_row, int first_row,
                       int rows, int first_column, int columns, int count_rows, int count_columns) {
  for (int e = (int)get_local_id(0); e < count_rows * count_columns; e += GROUP) {
    const int r = e / count_columns, c = e % count_columns;
    const bool valid = first_row + r < rows && first_column + c < columns;
    to[r * to_row + c] = valid ? LOAD(TAG, from, (long)(first_row + r) * from_row + first_column + c) : 0;
  }
}

// product[PER][PER]: rows y, y + SIDE, ... of A from a_first times rows x, x + SIDE, ... of B from b_first.
inline void multiply_rows(float product[PER][PER], __local float *chunk, __global const STORAGE(TAG) *A, int a_row,
                          int a_first, int a_rows, __global const STORAGE(TAG) *B, int b_row, int b_first, int b_rows,
                          int width) {
  const int x = (int)get_local_id(0) % SIDE, y = (int)get_local_id(0) / SIDE;
#pragma unroll
  for (int i = 0; i < PER; i++)
#pragma unroll
    for (int j = 0; j < PER; j++) product[i][j] = 0;
  __local float *other = chunk + BLOCK * (DEPTH + 4);
  for (int d0 = 0; d0 < max(width, 1); d0 += DEPTH) {
    barrier(CLK_LOCAL_MEM_FENCE);
    load_chunk(chunk, DEPTH + 4, A, a_row, a_first, a_rows, d0, width, BLOCK, DEPTH);
    load_chunk(other, DEPTH + 4, B, b_row, b_first, b_rows, d0, width, BLOCK, DEPTH);
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll 1
    for (int d = 0; d < DEPTH; d += 4) {
      float4 a[PER], b[PER];
#pragma unroll
      for (int i = 0; i < PER; i++) {
        a[i] = *(__local float4 *)(chunk + (y + SIDE * i) * (DEPTH + 4) + d);
        b[i] = *(__local float4 *)(other + (x + SIDE * i) * (DEPTH + 4) + d);
      }
#pragma unroll
      for (int i = 0; i < PER; i++)
#pragma unroll
        for (int j = 0; j < PER; j++) {
          const float low = mad(a[i].y, b[j].y, mad(a[i].x, b[j].x, product[i][j]));
          product[i][j] = mad(a[i].w, b[j].w, mad(a[i].z, b[j].z, low));
        }
    }
  }
}

// sum[PER][padded / SIDE] += scores[BLOCK x BLOCK] times rows first .. first + BLOCK of B. Ends without a barrier.
#define ADD_PRODUCT(sum, B, b_row, first, rows, width, padded)                                              \
  _Pragma("unroll 1") for (int c0 = 0; c0 < BLOCK; c0 += STEP(padded)) {                                    \
    barrier(CLK_LOCAL_MEM_FENCE);                                                                           \
    load_chunk(chunk, padded, B, b_row, (first) + c0, rows, 0, width, STEP(padded), padded);                \
    barrier(CLK_LOCAL_MEM_FENCE);                                                                           \
    _Pragma("unroll 1") for (int c = 0; c < STEP(padded); c += 4) {                                         \
      float weights[PER][4];                                                                                \
      _Pragma("unroll") for (int i = 0; i < PER; i++)                                                       \
        vstore4(*(__local float4 *)(scores + (y + SIDE * i) * SCORES_ROW + c0 + c), 0, weights[i]);         \
      _Pragma("unroll") for (int e = 0; e < 4; e++)                                                         \
        _Pragma("unroll") for (int j = 0; j < (padded) / SIDE; j++) {                                       \
          const float value = chunk[(c + e) * (padded) + COLUMN(j, padded)];                                \
          _Pragma("unroll") for (int i = 0; i < PER; i++) sum[i][j] = mad(weights[i][e], value, sum[i][j]); \
        }                                                                                                   \
    }                                                                                                       \
  }

#define STORE_ROWS(to, to_row, first, rows, sum, factor, width, padded)   \
  _Pragma("unroll") for (int i = 0; i < PER; i++)                         \
    _Pragma("unroll") for (int j = 0; j < (padded) / SIDE; j++)           \
      if ((first) + y + SIDE * i < (rows) && COLUMN(j, padded) < (width)) \
        STORE(TAG, to, (long)((first) + y + SIDE * i) * (to_row) + COLUMN(j, padded), sum[i][j] * (factor))

#define CLEAR(sum, columns)                       \
  _Pragma("unroll") for (int i = 0; i < PER; i++) \
    _Pragma("unroll") for (int j = 0; j < (columns); j++) sum[i][j] = 0

#define BEGIN(block_rows, block_heads)                                                          \
  const Params *p = &params;                                                                    \
  __local float chunk[CHUNK] __attribute__((aligned(16)));                                      \
  __local float scores[BLOCK * SCORES_ROW] __attribute__((aligned(16)));                        \
  const int x = (int)get_local_id(0) % SIDE, y = (int)get_local_id(0) / SIDE;                   \
  const int blocks = ((block_rows) + BLOCK - 1) / BLOCK, block = (int)get_group_id(0) % blocks; \
  const int batch = get_group_id(0) / blocks / (block_heads), own_head = get_group_id(0) / blocks % (block_heads);

// A score times log2(e); -INFINITY where the key takes no part.
#ifndef BIAS_TAG
#define BIASED(score, q, kv) (score)
#endif
#define SCORE(value, q, kv)                                                 \
  ((kv) >= p->keys || (q) >= p->queries || CAUSAL && (kv) > (q) ? -INFINITY \
                                                                : BIASED(CAPPED((value) * p->scale_log2), q, kv))

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void attention_tiled_forward(const Params params, CONST_GLOBAL(STORAGE(TAG), q), CONST_GLOBAL(STORAGE(TAG), k),
             CONST_GLOBAL(STORAGE(TAG), v), BIAS_ARGUMENT GLOBAL(STORAGE(TAG), out), GLOBAL(float, logsumexp)) {
  BEGIN(params.queries, params.heads)
#define LANES (GROUP / BLOCK)
  __local float partial[GROUP], shrink[BLOCK];
  const int head = own_head, first = (blocks - 1 - block) * BLOCK, batch_head = batch * p->heads + head;
  __global const STORAGE(TAG) *Q = CONST_POINTER(STORAGE(TAG), q) + head_at(&p->q, batch, head);
  __global const STORAGE(TAG) *K = CONST_POINTER(STORAGE(TAG), k) + head_at(&p->k, batch, head / p->sharing);
  __global const STORAGE(TAG) *V = CONST_POINTER(STORAGE(TAG), v) + head_at(&p->v, batch, head / p->sharing);
  BIAS_DATA
  const int end = CAUSAL ? min(p->keys, first + BLOCK) : p->keys;
  // For the softmax LANES work-items share a row.
  const int row = (int)get_local_id(0) / LANES, lane = (int)get_local_id(0) % LANES;
  __local float *own = scores + row * SCORES_ROW;
  float sum[PER][VALUE_WIDTH / SIDE], s[PER][PER], largest = -INFINITY, total = 0;
  CLEAR(sum, VALUE_WIDTH / SIDE);
  SLICES_OF_BLOCK(first / BLOCK, 0, (end + BLOCK - 1) / BLOCK)
  for (int n = 0; n < slices; n++) {
    const int begin = SLICE_NUMBER(n) * BLOCK;
    multiply_rows(s, chunk, Q, p->q.row, first, p->queries, K, p->k.row, begin, end, p->width);
#pragma unroll
    for (int i = 0; i < PER; i++)
#pragma unroll
      for (int j = 0; j < PER; j++)
        scores[(y + SIDE * i) * SCORES_ROW + x + SIDE * j] =
            SCORE(s[i][j], first + y + SIDE * i, begin + x + SIDE * j);
    barrier(CLK_LOCAL_MEM_FENCE);
    float now = largest;
    for (int c = lane; c < BLOCK; c += LANES) now = fmax(now, own[c]);
    partial[get_local_id(0)] = now;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int l = 0; l < LANES; l++) now = fmax(now, partial[row * LANES + l]);
    const float base = now == -INFINITY ? 0 : now, factor = exp2(largest - base);
    largest = now, total *= factor;
    for (int c = lane; c < BLOCK; c += LANES) {
      const float e = exp2(own[c] - base);
      total += e;
      own[c] = DROPOUT && !kept_one(batch_head, first + row, begin + c, p) ? 0 : e;
    }
    if (lane == 0) shrink[row] = factor;
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
    for (int i = 0; i < PER; i++) {
      const float by = shrink[y + SIDE * i];
#pragma unroll
      for (int j = 0; j < VALUE_WIDTH / SIDE; j++) sum[i][j] *= by;
    }
    ADD_PRODUCT(sum, V, p->v.row, begin, end, p->value_width, VALUE_WIDTH)
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  partial[get_local_id(0)] = total;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (lane == 0) {
    for (int l = 1; l < LANES; l++) total += partial[row * LANES + l];
    shrink[row] = total == 0 ? 0 : p->keep_scale / total;
    if (first + row < p->queries)
      POINTER(float, logsumexp)[(long)batch_head * p->queries + first + row] = log_sum(largest, total);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  STORE_ROWS(POINTER(STORAGE(TAG), out) + head_at(&p->out, batch, head), p->out.row, first, p->queries, sum,
             shrink[y + SIDE * i], p->value_width, VALUE_WIDTH);
}

// The probabilities' gradient: see attention/mma_backward.cl for the formulas.
inline float floored(float score) { return FLOORED(score); }
#define POWER(value, q, kv) exp2(floored(SCORE(value, q, kv)) - LOG2_E * L[min(q, p->queries - 1)])
#define GRADIENT(power, value, keep, q) ((power) * ((value) * (keep) * p->keep_scale - D[min(q, p->queries - 1)]))
#ifdef BIAS_SLOPE
#define SLOPED(power, gradient, value, q, kv) ((power) == 0 ? 0 : (gradient) * SLOPE((value) * p->scale_log2, q, kv))
#else
#define SLOPED(power, gradient, value, q, kv) (gradient)
#endif
#define KEEP(q, kv) (DROPOUT ? (float)kept_one(batch_head, q, kv, p) : 1)

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void attention_tiled_queries_backward(const Params params, CONST_GLOBAL(STORAGE(TAG), q), CONST_GLOBAL(STORAGE(TAG), k),
                      CONST_GLOBAL(STORAGE(TAG), v), BIAS_ARGUMENT CONST_GLOBAL(STORAGE(TAG), grad_out),
                      CONST_GLOBAL(float, logsumexp), CONST_GLOBAL(float, delta), GLOBAL(STORAGE(TAG), grad_q)) {
  BEGIN(params.queries, params.heads)
  const int head = own_head, first = (blocks - 1 - block) * BLOCK, batch_head = batch * p->heads + head;
  __global const STORAGE(TAG) *Q = CONST_POINTER(STORAGE(TAG), q) + head_at(&p->q, batch, head);
  __global const STORAGE(TAG) *G = CONST_POINTER(STORAGE(TAG), grad_out) + head_at(&p->grad_out, batch, head);
  __global const STORAGE(TAG) *K = CONST_POINTER(STORAGE(TAG), k) + head_at(&p->k, batch, head / p->sharing);
  __global const STORAGE(TAG) *V = CONST_POINTER(STORAGE(TAG), v) + head_at(&p->v, batch, head / p->sharing);
  __global const float *L = CONST_POINTER(float, logsumexp) + (long)batch_head * p->queries;
  __global const float *D = CONST_POINTER(float, delta) + (long)batch_head * p->queries;
  BIAS_DATA
  const int end = CAUSAL ? min(p->keys, first + BLOCK) : p->keys;
  float sum[PER][WIDTH / SIDE], s[PER][PER], dp[PER][PER];
  CLEAR(sum, WIDTH / SIDE);
  SLICES_OF_BLOCK(first / BLOCK, 0, (end + BLOCK - 1) / BLOCK)
  for (int n = 0; n < slices; n++) {
    const int begin = SLICE_NUMBER(n) * BLOCK;
    multiply_rows(s, chunk, Q, p->q.row, first, p->queries, K, p->k.row, begin, end, p->width);
    multiply_rows(dp, chunk, G, p->grad_out.row, first, p->queries, V, p->v.row, begin, end, p->value_width);
#pragma unroll
    for (int i = 0; i < PER; i++)
#pragma unroll
      for (int j = 0; j < PER; j++) {
        const int q_at = first + y + SIDE * i, kv_at = begin + x + SIDE * j;
        const float power = POWER(s[i][j], q_at, kv_at);
        scores[(y + SIDE * i) * SCORES_ROW + x + SIDE * j] =
            SLOPED(power, GRADIENT(power, dp[i][j], KEEP(q_at, kv_at), q_at), s[i][j], q_at, kv_at);
      }
    ADD_PRODUCT(sum, K, p->k.row, begin, end, p->width, WIDTH)
  }
  STORE_ROWS(POINTER(STORAGE(TAG), grad_q) + head_at(&p->grad_q, batch, head), p->grad_q.row, first, p->queries, sum,
             p->scale, p->width, WIDTH);
}

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void attention_tiled_keys_backward(const Params params, CONST_GLOBAL(STORAGE(TAG), q), CONST_GLOBAL(STORAGE(TAG), k),
                   CONST_GLOBAL(STORAGE(TAG), v), BIAS_ARGUMENT CONST_GLOBAL(STORAGE(TAG), grad_out),
                   CONST_GLOBAL(float, logsumexp), CONST_GLOBAL(float, delta), GLOBAL(STORAGE(TAG), grad_k),
                   GLOBAL(STORAGE(TAG), grad_v)) {
  BEGIN(params.keys, params.heads / params.sharing)
  const int key_head = own_head, first = block * BLOCK;
  __global const STORAGE(TAG) *K = CONST_POINTER(STORAGE(TAG), k) + head_at(&p->k, batch, key_head);
  __global const STORAGE(TAG) *V = CONST_POINTER(STORAGE(TAG), v) + head_at(&p->v, batch, key_head);
  float sum_k[PER][WIDTH / SIDE], sum_v[PER][VALUE_WIDTH / SIDE], s[PER][PER], dp[PER][PER];
  CLEAR(sum_k, WIDTH / SIDE);
  CLEAR(sum_v, VALUE_WIDTH / SIDE);
  for (int head = key_head * p->sharing; head < (key_head + 1) * p->sharing; head++) {
    const int batch_head = batch * p->heads + head;
    __global const STORAGE(TAG) *Q = CONST_POINTER(STORAGE(TAG), q) + head_at(&p->q, batch, head);
    __global const STORAGE(TAG) *G = CONST_POINTER(STORAGE(TAG), grad_out) + head_at(&p->grad_out, batch, head);
    __global const float *L = CONST_POINTER(float, logsumexp) + (long)batch_head * p->queries;
    __global const float *D = CONST_POINTER(float, delta) + (long)batch_head * p->queries;
    BIAS_DATA
    SLICES_OF_BLOCK(block, CAUSAL ? block : 0, (p->queries + BLOCK - 1) / BLOCK)
    for (int n = 0; n < slices; n++) {
      const int begin = SLICE_NUMBER(n) * BLOCK;
      multiply_rows(s, chunk, K, p->k.row, first, p->keys, Q, p->q.row, begin, p->queries, p->width);
      multiply_rows(dp, chunk, V, p->v.row, first, p->keys, G, p->grad_out.row, begin, p->queries, p->value_width);
#pragma unroll
      for (int i = 0; i < PER; i++)
#pragma unroll
        for (int j = 0; j < PER; j++) {
          const int kv_at = first + y + SIDE * i, q_at = begin + x + SIDE * j;
          const float power = POWER(s[i][j], q_at, kv_at), keep = KEEP(q_at, kv_at);
          scores[(y + SIDE * i) * SCORES_ROW + x + SIDE * j] = power * keep;
          s[i][j] = SLOPED(power, GRADIENT(power, dp[i][j], keep, q_at), s[i][j], q_at, kv_at);
        }
      ADD_PRODUCT(sum_v, G, p->grad_out.row, begin, p->queries, p->value_width, VALUE_WIDTH)
      barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
      for (int i = 0; i < PER; i++)
#pragma unroll
        for (int j = 0; j < PER; j++) scores[(y + SIDE * i) * SCORES_ROW + x + SIDE * j] = s[i][j];
      ADD_PRODUCT(sum_k, Q, p->q.row, begin, p->queries, p->width, WIDTH)
    }
  }
  STORE_ROWS(POINTER(STORAGE(TAG), grad_k) + head_at(&p->grad_k, batch, key_head), p->grad_k.row, first, p->keys,
             sum_k, p->scale, p->width, WIDTH);
  STORE_ROWS(POINTER(STORAGE(TAG), grad_v) + head_at(&p->grad_v, batch, key_head), p->grad_v.row, first, p->keys,
             sum_v, p->keep_scale, p->value_width, VALUE_WIDTH);
}
