// SPDX-License-Identifier: MIT
// Attention on Hopper's matrix units, forward (J. Shah et al., "FlashAttention-3", 2024): a work-group takes BLOCK
// queries at a time, four warps 64 of them. Four more warps bring slices of keys and values, ahead of the others as far
// as local memory allows. The others turn scores into probabilities while values are multiplied by those of the slice
// before, each four at their own pace. Queries, scores and probabilities stay in registers.
// Elsewhere the same slices, in the same places, are multiplied as in mma.cl, for tests.
// Defines besides attention.clh's and mma.clh's (VECTOR is 8, TILES is 1, SLICE at most 128):
//   SCALE_FIRST    the scale is not positive, or there is a bias
//   BIAS_PAIRS     two neighbours of the bias, of 16 bits each, lie side by side, aligned
//   KEY_TILES, VALUE_TILES   SLICE / 8 and VALUE_WIDTH / 8, as numbers
//   STAGES         slices in local memory
//   FEW, MANY      registers of a work-item that copies and of one that multiplies
#include "attention/wgmma.clh"

#if NV_PTX == 90
#include "lib/hopper_tiles.clh"

// A place in the ring of slices: keys 0 and 1, values 0, keys 2, values 1, and so on. Each stage has a barrier that
// tells it is full and one that tells it is free. A fence of those that read, behind the barrier, shows the matrix unit
// what copy_async brought.
typedef struct {
  uint memory, barriers, stage, parity;
} Ring;
inline uint full(const Ring *r) { return r->barriers + 16 * r->stage; }
inline uint freed(const Ring *r) { return r->barriers + 16 * r->stage + 8; }
inline void advance(Ring *r) {
  if (++r->stage == STAGES) r->stage = 0, r->parity ^= 1;
}

// Copies slices of a matrix [rows, WIDTH] by a group of four warps: 8 rows after 8 rows.
#define COPIER(name, padded)                                                                                   \
  const int name##_teams = 128 / (8 * ((padded) / 8));                                                         \
  const int name##_team = item / (padded), name##_row = item % (padded) / ((padded) / 8);                      \
  const int name##_chunk = item % ((padded) / 8);                                                              \
  const int name##_to = name##_team * (16 * (padded)) + place(name##_row, name##_chunk, padded);
#define COPY_EIGHTS(name, to, from, stride, begin, count, rows, width, padded)                                 \
  UNROLL for (int e = 0; e < (count) / 8; e += name##_teams) {                                                 \
    const int row = (begin) + 8 * (e + name##_team) + name##_row;                                              \
    if (name##_team < name##_teams && ((count) / 8 % name##_teams == 0 || e + name##_team < (count) / 8))      \
      copy_async((to) + name##_to + e * (16 * (padded)), (from) + (long)row * (stride) + 8 * name##_chunk, 16, \
                 row < (rows) && 8 * name##_chunk < (width));                                                  \
  }

// Four warps copy.
__attribute__((always_inline)) inline void produce(__local uchar *memory, Ring ring, int item, const Params *p,
                                                   CONST_GLOBAL(ushort, k), CONST_GLOBAL(ushort, v),
                                                   const int together) {
  COPIER(key, WIDTH)
  COPIER(value, VALUE_WIDTH)
  EACH_BLOCK {
    BLOCK_VARIABLES
    BLOCK_KEYS
    for (int i = 0; i <= slices; i++) {
      if (i < slices) {
        wait_barrier(freed(&ring), ring.parity ^ 1);
        COPY_EIGHTS(key, memory + ring.stage * STAGE_BYTES, K, p->k.row, i * SLICE, SLICE, p->keys, p->width, WIDTH)
        arrive_copied(full(&ring));
        advance(&ring);
      }
      if (i > 0) {
        wait_barrier(freed(&ring), ring.parity ^ 1);
        COPY_EIGHTS(value, memory + ring.stage * STAGE_BYTES, V, p->v.row, (i - 1) * SLICE, SLICE, p->keys,
                    p->value_width, VALUE_WIDTH)
        arrive_copied(full(&ring));
        advance(&ring);
      }
    }
  }
}

// Waits for the next slice; its barrier for who has read it.
__attribute__((always_inline)) inline uint next_slice(Ring *ring, ulong *operand) {
  wait_barrier(full(ring), ring->parity);
  publish_to_units();
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

// A slice that is not read.
#define PASS_BY                                        \
  {                                                    \
    ulong nothing = 0;                                 \
    const uint done = next_slice(&ring, &nothing);     \
    RELEASE(done);                                     \
  }
// s = queries by the next slice of keys; o += probabilities by the next slice of values.
#define MULTIPLY_KEYS(done)                                                                                     \
  ulong keys_##done = key_operand;                                                                              \
  const uint done = next_slice(&ring, &keys_##done);                                                            \
  WGMMA_FENCE();                                                                                                \
  WGMMA_ROWS(TAG, s, KEY_TILES, SLICE, qs[0], keys_##done, "0", "0");                                           \
  UNROLL for (int d = 1; d < WIDTH / 16; d++)                                                                   \
    WGMMA_ROWS(TAG, s, KEY_TILES, SLICE, qs[d],                                                                 \
               keys_##done + (d * 32 / PANEL(WIDTH) * (8 * PANEL(WIDTH)) + d * 32 % PANEL(WIDTH)) / 16, "1", "0"); \
  WGMMA_COMMIT();
#define MULTIPLY_VALUES(done)                                                                                   \
  ulong values_##done = value_operand;                                                                          \
  const uint done = next_slice(&ring, &values_##done);                                                          \
  WGMMA_FENCE();                                                                                                \
  UNROLL for (int t = 0; t < SLICE / 16; t++)                                                                   \
    WGMMA_ROWS(TAG, o, VALUE_TILES, VALUE_WIDTH, ps[t], values_##done + t * (2 * VALUE_WIDTH), "1", "1");       \
  WGMMA_COMMIT();

__kernel __attribute__((reqd_work_group_size(GROUP + 128, 1, 1)))
void forward(const Params params, CONST_GLOBAL(ushort, q), CONST_GLOBAL(ushort, k), CONST_GLOBAL(ushort, v),
             BIAS_ARGUMENT GLOBAL(ushort, out), GLOBAL(float, logsumexp),
             const int together) {
  const Params *p = &params;
  __local uchar memory[STAGES * STAGE_BYTES] __attribute__((aligned(1024)));
  __local ulong barriers[2 * STAGES];
  const Warp warp = WARP(shared);
  Ring ring = {local_address(memory), local_address(barriers), 0, 0};
  if (get_local_id(0) == 0) {
    for (int i = 0; i < STAGES; i++) {
      init_barrier(ring.barriers + 16 * i, 128);
      init_barrier(ring.barriers + 16 * i + 8, WARPS);
    }
    publish_barriers();
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  if (warp.number >= WARPS) {
    asm volatile("//@setmaxnreg.dec.sync.aligned.u32 " HOPPER_STRING(FEW) ";");
    produce(memory, ring, (int)get_local_id(0) - GROUP, p, k_memory, k_offset, v_memory, v_offset,
            together);
    return;
  }
  asm volatile("//@setmaxnreg.inc.sync.aligned.u32 " HOPPER_STRING(MANY) ";");
  const int line = warp.lane / 4, pair = 2 * (warp.lane % 4);
  const ulong key_operand = panel_operand(ring.memory, 16, 16 * WIDTH, PANEL(WIDTH));
  const ulong value_operand = panel_operand(ring.memory, 8 * PANEL(VALUE_WIDTH), 16 * VALUE_WIDTH, PANEL(VALUE_WIDTH));
  DECLARE_TILES(s, KEY_TILES)
  DECLARE_TILES(o, VALUE_TILES)
  EACH_BLOCK {
    BLOCK_VARIABLES
    BLOCK_KEYS
    BIAS_DATA
    const int own = first + 16 * warp.number, row = own + line;
    // Of the four warps, with CAUSAL.
    const int end = CAUSAL ? min(p->keys, first + (warp.number / 4 + 1) * 64) : p->keys;
    const int own_slices = (end + SLICE - 1) / SLICE;
    uint4 qs[WIDTH / 16], ps[SLICE / 16];
    float4 scores[SLICE / 8];
    Rows rows = {-INFINITY, 0};
    FETCH_QUERIES
    CLEAR_TILES(o, VALUE_TILES)
    if (own_slices > 0) {
      MULTIPLY_KEYS(first_keys)
      WGMMA_WAIT(0);
      RELEASE(first_keys);
      READ_TILES(s, KEY_TILES, scores)
      weigh(scores, &rows, row, 0, end, &warp, p BIAS_VALUE);
      pack_probabilities(ps, scores);
      for (int i = 1; i < own_slices; i++) {
        MULTIPLY_KEYS(keys)
        MULTIPLY_VALUES(values)
        WGMMA_WAIT(1);
        RELEASE(keys);
        READ_TILES(s, KEY_TILES, scores)
        const float2 shrink = weigh(scores, &rows, row, i * SLICE, end, &warp, p BIAS_VALUE);
        AFTER(rows.total);
        WGMMA_WAIT(0);
        RELEASE(values);
        SCALE_TILES(o, VALUE_TILES, shrink)
        pack_probabilities(ps, scores);
      }
      if (own_slices < slices) PASS_BY  // keys that only later queries see
      MULTIPLY_VALUES(last_values)
      WGMMA_WAIT(0);
      RELEASE(last_values);
    }
    for (int i = 2 * own_slices + (own_slices > 0 && own_slices < slices); i < 2 * slices; i++) PASS_BY
    float4 sum[VALUE_WIDTH / 8];
    READ_TILES(o, VALUE_TILES, sum)
    finish(sum, &rows, row, batch, head, &warp, p, out_memory, out_offset, logsumexp_memory, logsumexp_offset);
  }
}
#else
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void forward(const Params params, CONST_GLOBAL(ushort, q), CONST_GLOBAL(ushort, k), CONST_GLOBAL(ushort, v),
             BIAS_ARGUMENT GLOBAL(ushort, out), GLOBAL(float, logsumexp),
             const int together) {
  const Params *p = &params;
  __local uchar memory[2 * STAGE_BYTES] __attribute__((aligned(16)));
  WARPS_MEMORY(shared, WARPS);
  const Warp warp = WARP(shared);
  LANE_POSITIONS
  EACH_BLOCK {
    BLOCK_VARIABLES
    BLOCK_KEYS
    BIAS_DATA
    const int own = first + 16 * warp.number, row = own + line, item = get_local_id(0);
    uint4 qs[WIDTH / 16], ps[SLICE / 16];
    float4 s[SLICE / 8], sum[VALUE_WIDTH / 8];
    Rows rows = {-INFINITY, 0};
    FETCH_QUERIES
    UNROLL for (int j = 0; j < VALUE_WIDTH / 8; j++) sum[j] = 0;
    for (int i = 0; i < slices; i++) {
      barrier(CLK_LOCAL_MEM_FENCE);
      COPY_KEYS(memory, i * SLICE, item, GROUP);
      COPY_VALUES(memory + STAGE_BYTES, i * SLICE, SLICE, item, GROUP);
      COMMIT_COPIES();
      WAIT_COPIES(0);
      barrier(CLK_LOCAL_MEM_FENCE);
      UNROLL for (int j = 0; j < SLICE / 8; j++) s[j] = 0;
      UNROLL for (int d = 0; d < WIDTH / 16; d++)
        UNROLL for (int j = 0; j < SLICE / 16; j++) {
          const uint4 key = load_matrices(memory + place(16 * j + far, 2 * d + other, WIDTH), &warp);
          MULTIPLY(&s[2 * j], qs[d], key.xy, &warp);
          MULTIPLY(&s[2 * j + 1], qs[d], key.zw, &warp);
        }
      const float2 shrink = weigh(s, &rows, row, i * SLICE, p->keys, &warp, p BIAS_VALUE);
      pack_probabilities(ps, s);
      UNROLL for (int j = 0; j < VALUE_WIDTH / 8; j++) sum[j] *= shrink.xxyy;
      UNROLL for (int t = 0; t < SLICE / 16; t++)
        UNROLL for (int j = 0; j < VALUE_WIDTH / 16; j++) {
          const __local uchar *at = memory + STAGE_BYTES + place(16 * t + near, 2 * j + half_warp, VALUE_WIDTH);
          const uint4 value = load_matrices_turned((const __local ushort *)at, &warp);
          MULTIPLY(&sum[2 * j], ps[t], value.xy, &warp);
          MULTIPLY(&sum[2 * j + 1], ps[t], value.zw, &warp);
        }
    }
    finish(sum, &rows, row, batch, head, &warp, p, out_memory, out_offset, logsumexp_memory, logsumexp_offset);
  }
}
#endif
