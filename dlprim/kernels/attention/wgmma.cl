// SPDX-License-Identifier: MIT
// Attention on Hopper's matrix units, forward (J. Shah et al., "FlashAttention-3", 2024): a work-group takes BLOCK
// queries at a time, four warps 64 of them. One work-item more orders copies of them and of slices of keys and values,
// as far ahead of the others as local memory allows. The others turn scores into probabilities while values are
// multiplied by those of the slice before, each four at their own pace or in turns. Scores and probabilities stay in
// registers. Elsewhere the same slices, in the same places, are multiplied as in mma.cl, for tests.
// Defines besides attention.clh's and mma.clh's (VECTOR is 8, TILES is 1, SLICE at most 128):
//   SCALE_FIRST    the scale is not positive, or there is a bias
//   OUT_PIECES     rows of the result are multiples of 8 elements, aligned to 16 bytes
//   BIAS_PIECES    the bias is of 16 bits, whose rows are multiples of 8 elements, aligned to 16 bytes
//   BIAS_PAIRS     two neighbours of the bias, of 16 bits or of a mask, lie side by side, aligned
//   KEY_TILES, VALUE_TILES   SLICE / 8 and VALUE_WIDTH / 8, as numbers
//   STAGES         slices in local memory
//   TURNS          the fours take turns to begin products
//   FEW, MANY      registers of a work-item that copies and of one that multiplies
//   HALVES         elements are float32, in two parts (see wgmma.clh)
#include "attention/wgmma.clh"

#define QUERY_BYTES MATRIX_BYTES(BLOCK, COLUMNS(WIDTH))
#define STAGE_BYTES MATRIX_BYTES(SLICE, COLUMNS(WIDTH > VALUE_WIDTH ? WIDTH : VALUE_WIDTH))
#define FORWARD_ARGUMENTS                                                                                        \
  const Maps maps, const Params params, CONST_GLOBAL(ushort, q), CONST_GLOBAL(ushort, k), CONST_GLOBAL(ushort, v), \
      BIAS_ARGUMENT GLOBAL(OUT, out), GLOBAL(float, logsumexp), SCALES_ARGUMENT const int together

#if NV_PTX == 90
#include "lib/hopper_tiles.clh"

// A position in the ring of slices: keys 0 and 1, values 0, keys 2, values 1, and so on. Each stage has a barrier that
// tells it is full and one that tells it is free; behind them are those of the queries.
typedef struct {
  uint memory, barriers, stage, parity;
} Ring;
inline uint full(const Ring *r) { return r->barriers + 16 * r->stage; }
inline uint freed(const Ring *r) { return r->barriers + 16 * r->stage + 8; }
inline void advance(Ring *r) {
  if (++r->stage == STAGES) r->stage = 0, r->parity ^= 1;
}
// Queries of two blocks, in turns.
#define QUERIES_FULL(ring, turn) ((ring).barriers + 16 * (STAGES + (turn) % 2))
#define QUERIES_FREE(ring, turn) (QUERIES_FULL(ring, turn) + 8)

#define ORDER(to, x, column, row) copy_box(to, map_##x, column, row, (ulong)x, barrier)
#define PRODUCE(x, row, width)                                                            \
  {                                                                                       \
    const uint barrier = full(&ring), to = ring.memory + ring.stage * STAGE_BYTES;        \
    wait_barrier(freed(&ring), ring.parity ^ 1);                                          \
    expect_bytes(barrier, MATRIX_BYTES(SLICE, COLUMNS(width)));                           \
    COPY_MATRIX(ORDER, to, x, row, SLICE, COLUMNS(width))                                 \
    advance(&ring);                                                                       \
  }

// By one work-item.
__attribute__((always_inline)) inline void produce(Ring ring, uint queries, ulong maps, const Params *p,
                                                   CONST_GLOBAL(ushort, q), CONST_GLOBAL(ushort, k),
                                                   CONST_GLOBAL(ushort, v) LIST_PARAMETER, const int together) {
  const ulong map_Q = maps, map_K = maps + 128, map_V = maps + 256;
  // A slice of keys more, which those that multiply begin with for a block that there is not.
  EACH_BLOCK_AND_MORE {
    BLOCK_VARIABLES
    BLOCK_MATRICES
    BLOCK_SLICES
    const uint barrier = QUERIES_FULL(ring, round), to = queries + round % 2 * QUERY_BYTES;
    wait_barrier(QUERIES_FREE(ring, round), round / 2 % 2 ^ 1);
    expect_bytes(barrier, QUERY_BYTES);
    COPY_MATRIX(ORDER, to, Q, first, BLOCK, COLUMNS(WIDTH))
    for (int i = 0; i <= (more ? slices : 0); i++) {
      if (i < slices) PRODUCE(K, SLICE_NUMBER(i) * SLICE, WIDTH)
      if (i > 0) PRODUCE(V, SLICE_NUMBER(i - 1) * SLICE, VALUE_WIDTH)
    }
  }
}

// Waits for the next slice; its barrier for who has read it.
__attribute__((always_inline)) inline uint next_slice(Ring *ring, ulong *operand) {
  wait_barrier(full(ring), ring->parity);
  *operand += ring->stage * (STAGE_BYTES / 16);
  const uint done = freed(ring);
  advance(ring);
  return done;
}
// Keeps the assembler from waiting for products before `sums`, never below 0, are there.
#define AFTER(sums) if ((sums).x + (sums).y < 0) asm volatile("nanosleep.u32 0;" ::: "memory");
#define RELEASE(done)                      \
  do {                                     \
    if (warp.lane == 0) arrive(done);      \
  } while (0)

// The matrix units work for one four while others weigh scores.
#if TURNS
#define TAKE_TURN() asm volatile("bar.sync %0, 256;" ::"r"(1 + four) : "memory")
#define PASS_TURN() asm volatile("bar.arrive %0, 256;" ::"r"(1 + (four + 1) % (WARPS / 4)) : "memory")
#else
#define TAKE_TURN()
#define PASS_TURN()
#endif
// A slice that is not read, and one of keys that only later queries see.
#define PASS_BY                                        \
  {                                                    \
    ulong nothing = 0;                                 \
    const uint done = next_slice(&ring, &nothing);     \
    RELEASE(done);                                     \
  }
#define PASS_BY_KEYS                                   \
  {                                                    \
    PASS_BY                                            \
    TAKE_TURN();                                       \
    PASS_TURN();                                       \
  }
// s = queries by the next slice of keys; o += probabilities by the next slice of values, or = with HALVES.
#define KEY_PRODUCT(n, keys, add)                                                                               \
  WGMMA_MEMORY(TAG, s, KEY_TILES, SLICE,                                                                        \
               own_queries + ALONG((n) % KEY_STEPS + FIRST_LOWER((n) / KEY_STEPS) * (HALF_ROW(WIDTH) / 16), BLOCK), \
               (keys) + ALONG((n) % KEY_STEPS + SECOND_LOWER((n) / KEY_STEPS) * (HALF_ROW(WIDTH) / 16), SLICE), add, "0", "0");
#define KEY_STEPS (WIDTH / 16)
#define MULTIPLY_KEYS(done)                                                       \
  ulong keys_##done = key_operand;                                                \
  const uint done = next_slice(&ring, &keys_##done);                              \
  TAKE_TURN();                                                                    \
  WGMMA_FENCE();                                                                  \
  KEY_PRODUCT(0, keys_##done, "0")                                                \
  UNROLL for (int n = 1; n < HALF_PRODUCTS * KEY_STEPS; n++) KEY_PRODUCT(n, keys_##done, "1") \
  WGMMA_COMMIT();
// The first product of the block of a round, which is under way while the block before is finished.
#define BEGIN_BLOCK(number)                                                                                     \
  {                                                                                                             \
    const ulong own_queries = first_queries + (number) % 2 * (QUERY_BYTES / 16);                                \
    wait_barrier(QUERIES_FULL(ring, number), (number) / 2 % 2);                                                 \
    MULTIPLY_KEYS(keys)                                                                                         \
    PASS_TURN();                                                                                                \
    begun = keys;                                                                                               \
  }
#define VALUE_STEPS (SLICE / 16)
#define VALUE_PRODUCT(n, values, add)                                                                           \
  WGMMA_ROWS(TAG, o, VALUE_TILES, VALUE_WIDTH, ps[(n) % VALUE_STEPS + FIRST_LOWER((n) / VALUE_STEPS) * VALUE_STEPS], \
             (values) + SECOND_LOWER((n) / VALUE_STEPS) * ALONG(HALF_ROW(VALUE_WIDTH) / 16, SLICE) + DOWN((n) % VALUE_STEPS), \
             add, "1");
#define MULTIPLY_VALUES(done)                                                     \
  ulong values_##done = value_operand;                                            \
  const uint done = next_slice(&ring, &values_##done);                            \
  WGMMA_FENCE();                                                                  \
  VALUE_PRODUCT(0, values_##done, FIRST_ADD)                                      \
  UNROLL for (int n = 1; n < HALF_PRODUCTS * VALUE_STEPS; n++) VALUE_PRODUCT(n, values_##done, "1") \
  WGMMA_COMMIT();
// What a slice's values become: o shrinks; with HALVES o is of this slice, and the sum of those before shrinks by what
// the slice before last let it.
#if HALVES
#define FIRST_ADD "0"
#define DECLARE_RESULT float4 sum[VALUE_WIDTH / 8], slice_sum[VALUE_WIDTH / 8]; float2 pending = 0; CLEAR_RESULT
#define CLEAR_RESULT UNROLL for (int j = 0; j < VALUE_WIDTH / 8; j++) sum[j] = 0;
#define ADD_SLICE                                                                 \
  READ_TILES(o, VALUE_TILES, slice_sum)                                           \
  UNROLL for (int j = 0; j < VALUE_WIDTH / 8; j++) sum[j] = sum[j] * pending.xxyy + slice_sum[j];
#define SHRINK_RESULT(by) ADD_SLICE pending = by;
#define READ_RESULT ADD_SLICE
#else
#define FIRST_ADD "1"
#define DECLARE_RESULT CLEAR_TILES(o, VALUE_TILES)
#define SHRINK_RESULT(by) SCALE_TILES(o, VALUE_TILES, by)
#define READ_RESULT float4 sum[VALUE_WIDTH / 8]; READ_TILES(o, VALUE_TILES, sum)
#endif

__kernel __attribute__((reqd_work_group_size(GROUP + 128, 1, 1)))
void forward(FORWARD_ARGUMENTS) {
  const Params *p = &params;
  __local uchar memory[2 * QUERY_BYTES + STAGES * STAGE_BYTES] __attribute__((aligned(1024)));
  __local ulong barriers[2 * STAGES + 4];
  const Warp warp = WARP(shared);
  const uint queries = local_address(memory);
  Ring ring = {queries + 2 * QUERY_BYTES, local_address(barriers), 0, 0};
  if (get_local_id(0) == 0) {
    for (int i = 0; i < STAGES + 2; i++) {
      init_barrier(ring.barriers + 16 * i, 1);
      init_barrier(ring.barriers + 16 * i + 8, WARPS);
    }
    publish_barriers();
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  if (warp.number >= WARPS) {
    asm volatile("//@setmaxnreg.dec.sync.aligned.u32 " HOPPER_STRING(FEW) ";");
    if (get_local_id(0) != GROUP) return;
    ulong at;
    PARAMETER_ADDRESS(forward_param_0, at)
    produce(ring, queries, at, p, q_memory, q_offset, k_memory, k_offset, v_memory, v_offset LIST_VALUE, together);
    return;
  }
  asm volatile("//@setmaxnreg.inc.sync.aligned.u32 " HOPPER_STRING(MANY) ";");
  const int line = warp.lane / 4, pair = 2 * (warp.lane % 4), four = warp.number / 4;
  const ulong first_queries = panel_operand(queries + four * 64 * 128, 16);
  const ulong key_operand = panel_operand(ring.memory, 16), value_operand = panel_operand(ring.memory, 128 * SLICE);
  uint begun = 0;  // the barrier of a block's first keys
#if TURNS
  if (four == WARPS / 4 - 1) PASS_TURN();
#endif
  DECLARE_TILES(s, KEY_TILES)
  DECLARE_TILES(o, VALUE_TILES)
  BEGIN_BLOCK(0)
  Block its;
  EACH_BLOCK {
    if (HALVES || round == 0) its = block_at(block, together, blocks, p);
    NAME_VARIABLES(its)
    BLOCK_SLICES
    BIAS_DATA
    const ulong own_queries = first_queries + round % 2 * (QUERY_BYTES / 16);
    const int row = first + 16 * warp.number + line;
    // Of the four warps, with CAUSAL.
    const int end = CAUSAL ? min(p->keys, first + (four + 1) * 64) : p->keys;
    const int own_slices = CAUSAL ? (end + SLICE - 1) / SLICE : slices;
    uint4 ps[PACKED];
    float4 scores[SLICE / 8];
    ROWS_OF_BLOCK
    DECLARE_RESULT
    DECLARE_BIASES
    WGMMA_WAIT(0);
    RELEASE(begun);
    READ_TILES(s, KEY_TILES, scores)
    weigh(scores, &rows, row, SLICE_NUMBER(0) * SLICE, end, &warp, p BIAS_VALUE(0));
    pack_probabilities(ps, scores);
    for (int i = 1; i < own_slices; i++) {
      MULTIPLY_KEYS(keys)
      MULTIPLY_VALUES(values)
      PASS_TURN();
      WGMMA_WAIT(1);
      RELEASE(keys);
      READ_TILES(s, KEY_TILES, scores)
      const float2 shrink = weigh(scores, &rows, row, SLICE_NUMBER(i) * SLICE, end, &warp, p BIAS_VALUE(i));
      AFTER(rows.total);
      WGMMA_WAIT(0);
      RELEASE(values);
      SHRINK_RESULT(shrink)
      pack_probabilities(ps, scores);
    }
    RELEASE(QUERIES_FREE(ring, round));
    if (own_slices < slices) PASS_BY_KEYS
    MULTIPLY_VALUES(last_values)
    for (int i = own_slices + 1; i < slices; i++) {
      PASS_BY_KEYS
      PASS_BY
    }
    if (own_slices < slices) PASS_BY
    BEGIN_BLOCK(round + 1)
    if (!HALVES) its = block_at(NEXT_BLOCK(round), together, blocks, p);
    WGMMA_WAIT(1);
    RELEASE(last_values);
    READ_RESULT
    finish(sum, &rows, row, batch, head, &warp, p, out_memory, out_offset, logsumexp_memory, logsumexp_offset);
  }
  WGMMA_WAIT(0);
}
#else
#define ORDER(to, x, column, row) copy_box(to, map_##x, column, row, (__global const uchar *)x)

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void forward(FORWARD_ARGUMENTS) {
  const Params *p = &params;
  const Maps *all = &maps;
  const TensorMap *map_Q = &all->q, *map_K = &all->k, *map_V = &all->v;
  __local uchar memory[QUERY_BYTES + 2 * STAGE_BYTES] __attribute__((aligned(16)));
  __local uchar *key_memory = memory + QUERY_BYTES, *value_memory = key_memory + STAGE_BYTES;
  WARPS_MEMORY(shared, WARPS);
  const Warp warp = WARP(shared);
  LANE_POSITIONS
  EACH_BLOCK {
    BLOCK_VARIABLES
    BLOCK_MATRICES
    BLOCK_SLICES
    BIAS_DATA
    const int own = 16 * warp.number, row = first + own + line;
    uint4 ps[PACKED];
    float4 s[SLICE / 8], sum[VALUE_WIDTH / 8];
    ROWS_OF_BLOCK
    DECLARE_BIASES
    UNROLL for (int j = 0; j < VALUE_WIDTH / 8; j++) sum[j] = 0;
    for (int i = 0; i < slices; i++) {
      const int begin = SLICE_NUMBER(i) * SLICE;
      barrier(CLK_LOCAL_MEM_FENCE);
      if (i == 0) COPY_MATRIX(ORDER, memory, Q, first, BLOCK, COLUMNS(WIDTH))
      COPY_MATRIX(ORDER, key_memory, K, begin, SLICE, COLUMNS(WIDTH))
      COPY_MATRIX(ORDER, value_memory, V, begin, SLICE, COLUMNS(VALUE_WIDTH))
      barrier(CLK_LOCAL_MEM_FENCE);
      UNROLL for (int j = 0; j < SLICE / 8; j++) s[j] = 0;
      UNROLL for (int n = 0; n < HALF_PRODUCTS * (WIDTH / 16); n++) {
        const int part = n / (WIDTH / 16), d = n % (WIDTH / 16), lower = HALF_ROW(WIDTH) / 16;
        const int query_at = d + FIRST_LOWER(part) * lower, key_at = d + SECOND_LOWER(part) * lower;
        const uint4 query = load_matrices(memory + place(own + near, 2 * query_at + half_warp, BLOCK), &warp);
        UNROLL for (int j = 0; j < SLICE / 16; j++) {
          const uint4 key = load_matrices(key_memory + place(16 * j + far, 2 * key_at + other, SLICE), &warp);
          MULTIPLY(&s[2 * j], query, key.xy, &warp);
          MULTIPLY(&s[2 * j + 1], query, key.zw, &warp);
        }
      }
      const float2 shrink = weigh(s, &rows, row, begin, p->keys, &warp, p BIAS_VALUE(i));
      pack_probabilities(ps, s);
      UNROLL for (int j = 0; j < VALUE_WIDTH / 8; j++) sum[j] *= shrink.xxyy;
      UNROLL for (int n = 0; n < HALF_PRODUCTS * (SLICE / 16); n++) {
        const int part = n / (SLICE / 16), t = n % (SLICE / 16);
        const uint4 weights = ps[t + FIRST_LOWER(part) * (SLICE / 16)];
        UNROLL for (int j = 0; j < VALUE_WIDTH / 16; j++) {
          const int chunk = 2 * j + half_warp + SECOND_LOWER(part) * (HALF_ROW(VALUE_WIDTH) / 8);
          const __local uchar *at = value_memory + place(16 * t + near, chunk, SLICE);
          const uint4 value = load_matrices_turned((const __local ushort *)at, &warp);
          MULTIPLY(&sum[2 * j], weights, value.xy, &warp);
          MULTIPLY(&sum[2 * j + 1], weights, value.zw, &warp);
        }
      }
    }
    finish(sum, &rows, row, batch, head, &warp, p, out_memory, out_offset, logsumexp_memory, logsumexp_offset);
  }
}
#endif
