// SPDX-License-Identifier: MIT
// Gradients of attention on CPUs: a work-group is one work-item, which takes a head of keys, slice by slice, against
// all queries that see it, block by block (Dao 2023). Register tiles of 12 x 32 make scores and gradients of
// probabilities, of 4 x 64 the gradients of keys and values, of 6 x 64 those of queries, whose sums lie in memory
// between slices. Defines: those of attention/blocks.clh.
#include "attention/blocks.clh"

#define KEYS (WIDTH / 16)  // vectors of a key
#define VALUE_DEPTH (VALUE_WIDTH / EACH)

DEFINE_MULTIPLY(multiply_scores, 12, 2, ALONG_ROW)
#if KEYS >= 4 || VALUES >= 4
DEFINE_MULTIPLY(add_columns, 4, 4, DOWN_COLUMN)
#endif
#if KEYS % 4
DEFINE_MULTIPLY(add_rest_of_keys, 4, (KEYS % 4), DOWN_COLUMN)
DEFINE_MULTIPLY(add_rest_of_queries, 6, (KEYS % 4), ALONG_ROW)
#else
#define add_rest_of_keys(...)
#define add_rest_of_queries(...)
#endif
#if VALUES % 4
DEFINE_MULTIPLY(add_rest_of_values, 4, (VALUES % 4), DOWN_COLUMN)
#else
#define add_rest_of_values(...)
#endif
#if KEYS >= 4
DEFINE_MULTIPLY(add_queries, 6, 4, ALONG_ROW)
#endif

// c += a b for `rows` rows of c, `vectors` long, a few at a time.
#define ADD_PRODUCT(four, rest, ROWS, rows, vectors, a, a_step, a_pitch, b, depth, c)                            \
  for (int i = 0; i < rows; i += ROWS) {                                                                         \
    for (int d = 0; d + 4 <= vectors; d += 4)                                                                    \
      four((a) + i * (a_step), a_pitch, (b) + 16 * d, 16 * vectors, depth, (c) + 16 * (i * vectors + d),         \
           16 * vectors, true);                                                                                  \
    rest((a) + i * (a_step), a_pitch, (b) + vectors / 4 * 64, 16 * vectors, depth,                               \
         (c) + 16 * i * vectors + vectors / 4 * 64, 16 * vectors, true);                                         \
  }
#if KEYS < 4
#define add_queries(...)
#if VALUES < 4
#define add_columns(...)
#endif
#endif

inline void clear(__local T *to, int vectors) {
  for (int d = 0; d < vectors; d++) vstore16((VEC)(0), d, to);
}

inline void store_rows(__local const T *from, int vectors, float factor, __global STORAGE(TAG) *to, long row, int count,
                       int width) {
  for (int i = 0; i < count; i++)
    for (int d = 0; d < vectors; d++) {
      const VEC v = vload16(i * vectors + d, from) * factor;
      STORAGE(TAG) each[16];
      vstore16(ENCODE16(TAG, v), 0, each);
      for (int e = 0; e < min(16, width - 16 * d); e++) to[i * row + 16 * d + e] = each[e];
    }
}

// A query's scores become probabilities, and the gradients of these those of scores, of `count` keys from `key` on.
inline void differentiate(__local T *scores, __local T *gradients, BIAS_PARAMETER int query, int key, int count,
                          float top, float delta, const Params *p) {
  const int16 lane = (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  for (int k = 0; k < BK; k += 16) {
    VEC power = 0, gradient = 0;
    if (k < count) {
      VEC x = vload16(0, scores + k) * p->scale_log2;
#ifdef BIAS_TAG
      const VEC bias = biases(bias_data, query, key + k, p);
      x = select(x + bias, bias, bias == (VEC)(-INFINITY));
#endif
      if (k + 16 > count) x = select(x, (VEC)(-INFINITY), lane >= count - k);
      power = power_of_two(FLOORED(x) - top);
      gradient = power * (vload16(0, gradients + k) - delta);
      if (k + 16 > count) gradient = select(gradient, (VEC)(0), lane >= count - k);
    }
    vstore16(power, 0, scores + k);
    vstore16(gradient, 0, gradients + k);
  }
}

#ifdef BFLOAT16_DOT
// Two neighbouring queries' numbers in pairs, and each one's rounded.
inline void pair(__local const T *rows, bool second, __local T *pairs, __local ushort *rounded) {
  for (int k = 0; k < BK; k += 16) {
    const ushort16 a = ROUND_TO_BFLOAT16(vload16(0, rows + k));
    const ushort16 b = second ? ROUND_TO_BFLOAT16(vload16(0, rows + BK + k)) : (ushort16)(0);
    vstore16(as_float16(convert_uint16(a) | convert_uint16(b) << 16), 0, pairs + k);
    if (rounded) vstore16(a, 0, rounded + k), vstore16(b, 0, rounded + BK + k);
  }
}
#endif

// A tensor's rows of a head from `at` on.
#define ROWS_OF(tensor, layout, head, at) (tensor + head_at(&p->layout, batch, head) + (long)(at) * p->layout.row)

// Rows of queries or of their results' gradients, for products element by element.
inline void lay_elements(__global const STORAGE(TAG) *x, long row, int count, int width, int depth, __local T *to) {
  for (int i = 0; i < count; i++)
    for (int d = 0; d < depth / 16; d++) vstore16(elements(x + i * row, d, width), d, to + i * depth);
}

// Scores and gradients of probabilities of `rows` queries and `count` keys.
inline void multiply_block(__local const T *q_rows, __local const T *g_rows, __local const T *k_panels,
                           __local const T *v_panels, int rows, int count, __local T *scores, __local T *gradients) {
  for (int k = 0; k < count; k += PANEL)
    for (int i = 0; i < rows; i += 12) {
      multiply_scores(q_rows + i * DEPTH, DEPTH, k_panels + k * DEPTH, PANEL, DEPTH, scores + i * BK + k, BK, false);
      multiply_scores(g_rows + i * VALUE_DEPTH, VALUE_DEPTH, v_panels + k * VALUE_DEPTH, PANEL, VALUE_DEPTH,
                      gradients + i * BK + k, BK, false);
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void attention_blocks_backward(
    const Params params, CONST_GLOBAL(STORAGE(TAG), q), CONST_GLOBAL(STORAGE(TAG), k), CONST_GLOBAL(STORAGE(TAG), v),
    BIAS_ARGUMENT CONST_GLOBAL(STORAGE(TAG), grad_out), CONST_GLOBAL(float, logsumexp), CONST_GLOBAL(float, delta),
    GLOBAL(float, sums), GLOBAL(STORAGE(TAG), grad_q), GLOBAL(STORAGE(TAG), grad_k), GLOBAL(STORAGE(TAG), grad_v)) {
  const Params *p = &params;
  __local T q_rows[BQ * DEPTH] __attribute__((aligned(64))), g_rows[BQ * VALUE_DEPTH] __attribute__((aligned(64)));
  __local T k_panels[BK * DEPTH] __attribute__((aligned(64))), v_panels[BK * VALUE_DEPTH] __attribute__((aligned(64)));
  __local T k_lines[BK / EACH * WIDTH] __attribute__((aligned(64))), dk[BK * WIDTH] __attribute__((aligned(64)));
  __local T dv[BK * VALUE_WIDTH] __attribute__((aligned(64))), dq[BQ * WIDTH] __attribute__((aligned(64)));
  __local T scores[BQ * BK] __attribute__((aligned(64))), gradients[BQ * BK] __attribute__((aligned(64)));
#ifdef BFLOAT16_DOT
  __local T q_lines[BQ / 2 * WIDTH] __attribute__((aligned(64)));
  __local T g_lines[BQ / 2 * VALUE_WIDTH] __attribute__((aligned(64)));
  __local T powers[BQ / 2 * BK] __attribute__((aligned(64))), changes[BQ / 2 * BK] __attribute__((aligned(64)));
  __local ushort rounded[BQ * BK] __attribute__((aligned(64)));
  __local const T *along = (__local const T *)rounded;
#else
  __local T *q_lines = q_rows, *g_lines = g_rows, *powers = scores, *changes = gradients;
  __local const T *along = gradients;
#endif
  const int key_heads = p->heads / p->sharing, batch = (int)get_group_id(0) / key_heads;
  const int key_head = (int)get_group_id(0) % key_heads;
  __global const STORAGE(TAG) *K = CONST_POINTER(STORAGE(TAG), k) + head_at(&p->k, batch, key_head);
  __global const STORAGE(TAG) *V = CONST_POINTER(STORAGE(TAG), v) + head_at(&p->v, batch, key_head);
  for (int key = 0; key < p->keys; key += BK) {
    const int count = min(BK, p->keys - key);
    lay_panels(K + (long)key * p->k.row, p->k.row, count, p->width, DEPTH, k_panels);
    lay_panels(V + (long)key * p->v.row, p->v.row, count, p->value_width, VALUE_DEPTH, v_panels);
    lay_rows(K + (long)key * p->k.row, p->k.row, count, p->width, KEYS, k_lines);
    clear(dk, BK * KEYS), clear(dv, BK * VALUES);
    for (int head = key_head * p->sharing; head < (key_head + 1) * p->sharing; head++) {
      BIAS_DATA
      for (int first = CAUSAL ? key / BQ * BQ : 0; first < p->queries; first += BQ) {
        const int rows = min(BQ, p->queries - first), pairs = (rows + EACH - 1) / EACH;
        const long statistics = ((long)batch * p->heads + head) * p->queries + first;
        __global const STORAGE(TAG) *Q = ROWS_OF(CONST_POINTER(STORAGE(TAG), q), q, head, first);
        __global const STORAGE(TAG) *G = ROWS_OF(CONST_POINTER(STORAGE(TAG), grad_out), grad_out, head, first);
        __global float *sum = POINTER(float, sums) + statistics * WIDTH;
        lay_elements(Q, p->q.row, rows, p->width, DEPTH, q_rows);
        lay_elements(G, p->grad_out.row, rows, p->value_width, VALUE_DEPTH, g_rows);
        for (int d = 0; d < rows * KEYS; d++) vstore16(key > 0 ? vload16(d, sum) : (VEC)(0), d, dq);
#ifdef BFLOAT16_DOT
        lay_rows(Q, p->q.row, rows, p->width, KEYS, q_lines);
        lay_rows(G, p->grad_out.row, rows, p->value_width, VALUES, g_lines);
#endif
        multiply_block(q_rows, g_rows, k_panels, v_panels, rows, count, scores, gradients);
        for (int i = 0; i < rows; i++) {
          const int seen = CAUSAL ? clamp(first + i + 1 - key, 0, count) : count;
          differentiate(scores + i * BK, gradients + i * BK, BIAS_VALUE first + i, key, seen,
                        LOG2_E * CONST_POINTER(float, logsumexp)[statistics + i],
                        CONST_POINTER(float, delta)[statistics + i], p);
        }
#ifdef BFLOAT16_DOT
        for (int i = 0; i < rows; i += 2) {
          pair(scores + i * BK, i + 1 < rows, powers + i / 2 * BK, 0);
          pair(gradients + i * BK, i + 1 < rows, changes + i / 2 * BK, rounded + i * BK);
        }
#endif
        ADD_PRODUCT(add_columns, add_rest_of_values, 4, count, VALUES, powers, 1, BK, g_lines, pairs, dv)
        ADD_PRODUCT(add_columns, add_rest_of_keys, 4, count, KEYS, changes, 1, BK, q_lines, pairs, dk)
        ADD_PRODUCT(add_queries, add_rest_of_queries, 6, rows, KEYS, along, BK / EACH, BK / EACH, k_lines,
                    (count + EACH - 1) / EACH, dq)
        for (int d = 0; d < rows * KEYS; d++) vstore16(vload16(d, dq), d, sum);
      }
    }
    store_rows(dk, KEYS, p->scale, ROWS_OF(POINTER(STORAGE(TAG), grad_k), grad_k, key_head, key), p->grad_k.row, count,
               p->width);
    store_rows(dv, VALUES, 1, ROWS_OF(POINTER(STORAGE(TAG), grad_v), grad_v, key_head, key), p->grad_v.row, count,
               p->value_width);
  }
  for (int head = key_head * p->sharing; head < (key_head + 1) * p->sharing; head++)
    for (int first = 0; first < p->queries; first += BQ) {
      const int rows = min(BQ, p->queries - first);
      __global const float *sum =
          POINTER(float, sums) + (((long)batch * p->heads + head) * p->queries + first) * WIDTH;
      for (int d = 0; d < rows * KEYS; d++) vstore16(vload16(d, sum), d, dq);
      store_rows(dq, KEYS, p->scale, ROWS_OF(POINTER(STORAGE(TAG), grad_q), grad_q, head, first), p->grad_q.row, rows,
                 p->width);
    }
}
