// SPDX-License-Identifier: MIT
// Gradients of attention on Hopper's matrix units, in one pass (J. Shah et al., "FlashAttention-3", 2024). A work-group
// takes BLOCK keys, 64 for each four of warps, and passes over slices of 64 queries, which one more warp brings. In
// the notation of mma_backward.cl, transposed products keep p^T and ds^T in registers, where they are factors of
// grad_v += p^T grad_out and grad_k += ds^T q; ds passes through local memory for its part of grad_q.
// The parts of a slice's grad_q are added in memory by bulk copies, with ORDERED always in the order in which work-groups
// start: each waits until all before it have added theirs, so results never vary and no work-group waits for a later one.
// Without, the sums begin as 0.
// Elsewhere one work-group takes all blocks of a head of keys, and sums are formed without matrix units, for tests.
// Defines besides attention.clh's and mma.clh's (SLICE is 64, VECTOR is 8, TILES is 1):
//   STAGES     slices in local memory
//   KEY_TILES, VALUE_TILES           WIDTH / 8 and VALUE_WIDTH / 8, as numbers
//   PART, PART_TILES   columns of grad_q that a four of warps computes, and / 8: those of a box, or half of the only one
//   FEW, MANY  registers of a work-item that copies and of one that multiplies
//   ORDERED    whether parts of grad_q are added in order
//   AHEAD      whether scores of the next slice are computed while one is finished, for which registers must be left
//   WIDE       whether rows are wider than 128; what more is defined then, wgmma_backward_wide.clh says
#include "attention/wgmma_backward.clh"

#if NV_PTX == 90 && WIDE
#include "attention/wgmma_backward_wide.clh"
#elif NV_PTX == 90
// Local memory: keys, values, stages (queries, gradients, their statistics), ds twice, grad_q of two slices, barriers.
#define VALUES_AT MATRIX_BYTES(BLOCK, WIDTH)
#define STAGES_AT (VALUES_AT + MATRIX_BYTES(BLOCK, VALUE_WIDTH))
#define GRADS_AT MATRIX_BYTES(SLICE, WIDTH)
#define STAGE_SIZE (MATRIX_BYTES(SLICE, WIDTH) + MATRIX_BYTES(SLICE, VALUE_WIDTH))
#define DS_AT (STAGES_AT + STAGES * STAGE_SIZE)
#define PARTIAL_AT (DS_AT + 2 * MATRIX_BYTES(BLOCK, SLICE))
#define STATS_AT (PARTIAL_AT + 2 * PARTIAL_BYTES)
#define BARRIERS_AT (STATS_AT + STAGES * SLICE * 8)
#define MEMORY_BYTES (BARRIERS_AT + 16 * STAGES + 40)

typedef struct {
  uint barriers, stage, parity;
} Ring;
inline uint full(const Ring *r) { return r->barriers + 16 * r->stage; }
inline uint freed(const Ring *r) { return r->barriers + 16 * r->stage + 8; }
inline void advance(Ring *r) {
  if (++r->stage == STAGES) r->stage = 0, r->parity ^= 1;
}
// Those of grad_q of the n-th slice.
#define SUM_FULL(memory, n) ((memory) + BARRIERS_AT + 16 * STAGES + (n) % 2 * 16)
#define SUM_FREE(memory, n) (SUM_FULL(memory, n) + 8)
#define KEYS_FULL(memory) (SUM_FULL(memory, 0) + 32)

// One warp copies: its first work-item orders boxes, all bring statistics of queries.
__attribute__((always_inline)) inline void produce(__local uchar *memory, Ring ring, int lane, ulong maps,
                                                   const Heads heads, int first, const Params *p, CONST_GLOBAL(ushort, q),
                                                   CONST_GLOBAL(ushort, k), CONST_GLOBAL(ushort, v),
                                                   CONST_GLOBAL(ushort, grad_out), CONST_GLOBAL(float, logsumexp),
                                                   CONST_GLOBAL(float, delta) LIST_PARAMETER) {
  const uint at = local_address(memory);
  const int batch = heads.batch;
  const ulong map_Q = maps, map_K = maps + 128, map_V = maps + 256, map_G = maps + 384;
  COUNT_SLICES
  if (lane == 0 && left > 0) {
    __global const ushort *K = CONST_POINTER(ushort, k) + head_at(&p->k, heads.batch, heads.key_head);
    __global const ushort *V = CONST_POINTER(ushort, v) + head_at(&p->v, heads.batch, heads.key_head);
    const uint barrier = KEYS_FULL(at);
    expect_bytes(barrier, STAGES_AT);
    COPY_MATRIX(ORDER, at, K, first, BLOCK, WIDTH)
    COPY_MATRIX(ORDER, at + VALUES_AT, V, first, BLOCK, VALUE_WIDTH)
  }
  EACH_HEAD {
    HEAD_VARIABLES
    HEAD_SLICES
    for (int n = 0; n < slices; n++) {
      const int slice = SLICE_NUMBER(n);
      const uint barrier = full(&ring), to = at + STAGES_AT + ring.stage * STAGE_SIZE;
      wait_barrier(freed(&ring), ring.parity ^ 1);
      if (lane == 0) {
        expect_bytes(barrier, STAGE_SIZE);
        COPY_MATRIX(ORDER, to, Q, slice * SLICE, SLICE, WIDTH)
        COPY_MATRIX(ORDER, to + GRADS_AT, G, slice * SLICE, SLICE, VALUE_WIDTH)
      }
      __local float *statistics = (__local float *)(memory + STATS_AT) + ring.stage * 2 * SLICE;
      UNROLL for (int i = 0; i < 2 * SLICE; i += 32) {
        const int of = slice * SLICE + (i + lane) % SLICE;
        copy_async(statistics + i + lane, (i < SLICE ? L : D) + (of < p->queries ? of : 0), 4, of < p->queries);
      }
      arrive_copied(barrier);
      advance(&ring);
    }
  }
  COMMIT_COPIES();
  WAIT_COPIES(0);
}

// A work-item adds every other slice's part of grad_q in memory. Two of them take half of the time that it is until an
// addition can be seen.
inline void add_partials(uint memory, uint own, const Heads heads, int first, const Params *p, GLOBAL(float, partial),
                         GLOBAL(uint, turns) LIST_PARAMETER) {
  const int batch = heads.batch;
  uint parts = 0;
  EACH_HEAD {
    HEAD_SLICES
    for (int n = 0; n < slices; n++, parts++) {
      if (parts % 2 != own) continue;
      const int slice = SLICE_NUMBER(n);
      const long at = (long)(heads.batch * p->heads + head) * slices_of(p) + slice;
      const bool fresh = AWAIT_TURN(POINTER(uint, turns) + at, turn_of(slice, first, p));
      wait_barrier(SUM_FULL(memory, parts), parts / 2 % 2);
      add_in_memory(POINTER(float, partial) + at * (PARTIAL_BYTES / 4), memory + PARTIAL_AT + own * PARTIAL_BYTES,
                    PARTIAL_BYTES, fresh);
      arrive(SUM_FREE(memory, parts));
      END_TURN(POINTER(uint, turns) + at);
    }
  }
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

// Products with values and parts of grad_q are never needed together: where they are as large, the same registers hold
// them, which the assembler does not find out.
#if PART_TILES == 8
#define PARTS d
#else
#define PARTS q
#endif
// Columns from `from` on of a slice's grad_q, and into local memory.
#define MULTIPLY_PART(tiles, columns)                                                                         \
  WGMMA_MEMORY(TAG, PARTS, tiles, columns, WHOLE(ds), WHOLE(part_keys), "0", "1", "1");                           \
  UNROLL for (int t = 1; t < BLOCK / 16; t++)                                                                 \
    WGMMA_MEMORY(TAG, PARTS, tiles, columns, WHOLE(ds + DOWN(t)), WHOLE(part_keys + DOWN(t)), "1", "1", "1");     \
  WGMMA_COMMIT();
#define STORE_PART(tiles, columns)                                                                   \
  {                                                                                                  \
    float4 part[(columns) / 8];                                                                      \
    READ_TILES(PARTS, tiles, part)                                                                       \
    wait_barrier(SUM_FREE(at, parts), parts / 2 % 2 ^ 1);                                            \
    UNROLL for (int j = 0; j < (columns) / 8; j++)                                                   \
      if (WIDTH % 64 == 0 || from + 8 * j < WIDTH) (partial_rows + parts % 2 * (PARTIAL_BYTES / 16))[j * 128] = part[j]; \
  }

__kernel __attribute__((reqd_work_group_size(GROUP + 128, 1, 1)))
void backward(BACKWARD_ARGUMENTS) {
  const Params *p = &params;
  __local uchar memory[MEMORY_BYTES] __attribute__((aligned(1024)));
  const Warp warp = WARP(shared);
  const uint at = local_address(memory);
  Ring ring = {at + BARRIERS_AT, 0, 0};
  if (get_local_id(0) == 0) {
    for (int i = 0; i < STAGES; i++) {
      init_barrier(ring.barriers + 16 * i, 33);
      init_barrier(ring.barriers + 16 * i + 8, WARPS);
    }
    for (int i = 0; i < 2; i++) {
      init_barrier(SUM_FULL(at, i), WARPS);
      init_barrier(SUM_FREE(at, i), 1);
    }
    init_barrier(KEYS_FULL(at), 1);
    publish_barriers();
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  const int blocks = (p->keys + BLOCK - 1) / BLOCK, all_heads = p->batch * (p->heads / p->sharing) * sharers;
  const int before = (int)get_group_id(0) / (together * blocks) * together;
  const int rest = (int)get_group_id(0) % (together * blocks), near_heads = min(together, all_heads - before);
  const int batch_head = before + rest % near_heads, first = (blocks - 1 - rest / near_heads) * BLOCK;
  const Heads heads = heads_of(batch_head, sharers, p);
  const int batch = heads.batch;
  if (warp.number >= WARPS) {
    asm volatile("//@setmaxnreg.dec.sync.aligned.u32 " HOPPER_STRING(FEW) ";");
    const int item = (int)get_local_id(0) - GROUP;
    ulong at_maps;
    PARAMETER_ADDRESS(backward_param_0, at_maps)
    if (item < 32)
      produce(memory, ring, item, at_maps, heads, first, p, q_memory, q_offset, k_memory, k_offset, v_memory,
              v_offset, grad_out_memory, grad_out_offset, logsumexp_memory, logsumexp_offset, delta_memory,
              delta_offset LIST_VALUE);
    else if (item == 32 || item == 64)
      add_partials(at, item / 32 - 1, heads, first, p, partial_memory, partial_offset, turns_memory, turns_offset LIST_VALUE);
    return;
  }
  asm volatile("//@setmaxnreg.inc.sync.aligned.u32 " HOPPER_STRING(MANY) ";");
  const int four = warp.number / 4, from = four * (WIDTH > 64 ? 64 : WIDTH - PART);
  const int pair = 2 * (warp.lane % 4), row = first + 16 * warp.number + warp.lane / 4;
  const uint keys = STRAIGHT(at + four * 64 * 128), values = STRAIGHT(at + VALUES_AT + four * 64 * 128);
  const uint part_keys = TURNED(at, BLOCK) + ALONG(from / 16, BLOCK);
  // Where a lane stores rows of ds: of four 8 x 8 matrices, two below each other.
  const int ds_row = 16 * warp.number + warp.lane % 16, ds_chunk = warp.lane / 16;
  __local float4 *partial_rows = (__local float4 *)(memory + PARTIAL_AT) + get_local_id(0) % 128 + from * 16;
  DECLARE_TILES(s, 8)
  DECLARE_TILES(d, 8)
  DECLARE_TILES(k, KEY_TILES)
  DECLARE_TILES(v, VALUE_TILES)
#if PART_TILES != 8
  DECLARE_TILES(q, PART_TILES)
#endif
  CLEAR_TILES(k, KEY_TILES)
  CLEAR_TILES(v, VALUE_TILES)
  uint parts = 0;
  COUNT_SLICES
  if (left > 0) {
    wait_barrier(KEYS_FULL(at), 0);
    wait_barrier(full(&ring), 0);
  }
#if AHEAD
  WGMMA_FENCE();
  MULTIPLY_ROWS(s, keys, STRAIGHT(at + STAGES_AT), WIDTH)
  WGMMA_WAIT(0);
#endif
  EACH_HEAD {
    BIAS_DATA
    HEAD_SLICES
    for (int n = 0; n < slices; n++) {
      const int slice = SLICE_NUMBER(n);
      const uint stage = at + STAGES_AT + ring.stage * STAGE_SIZE, freed_stage = freed(&ring);
      const __local float *statistics = (const __local float *)(memory + STATS_AT) + ring.stage * 2 * SLICE;
      const uint ds_at = DS_AT + parts % 2 * MATRIX_BYTES(BLOCK, SLICE);
      float4 scores[SLICE / 8], grads[SLICE / 8];
      uint4 ps[SLICE / 16], ds_rows[SLICE / 16];
      const bool more = --left > 0;
      WGMMA_FENCE();
#if !AHEAD
      MULTIPLY_ROWS(s, keys, STRAIGHT(stage), WIDTH)
#endif
      MULTIPLY_ROWS(d, values, STRAIGHT(stage + GRADS_AT), VALUE_WIDTH)
#if !AHEAD
      WGMMA_WAIT(1);
#endif
      READ_TILES(s, 8, scores)
      DECLARE_FACTORS(scores)
      probabilities(scores, factors, statistics, row, slice * SLICE, &warp, p BIAS_VALUE(n));
      pack_probabilities(ps, scores);
      WGMMA_FENCE();
      ADD_PRODUCT(v, VALUE_TILES, VALUE_WIDTH, ps, TURNED(stage + GRADS_AT, SLICE))
      WGMMA_WAIT(1);
      READ_TILES(d, 8, grads)
      differences(grads, factors, statistics + SLICE, &warp);
      pack_probabilities(ds_rows, grads);
      UNROLL for (int t = 0; t < SLICE / 16; t++)
        store_matrices(memory + ds_at + place(ds_row, 2 * t + ds_chunk, BLOCK), ds_rows[t]);
      publish_to_units();
      asm volatile("bar.sync 1, %0;" ::"n"(GROUP) : "memory");
      const uint ds = TURNED(at + ds_at, BLOCK);
      WGMMA_FENCE();
      MULTIPLY_PART(PART_TILES, PART)
      ADD_PRODUCT(k, KEY_TILES, WIDTH, ds_rows, TURNED(stage, SLICE))
      advance(&ring);
#if AHEAD
      if (more) wait_barrier(full(&ring), ring.parity);
      WGMMA_FENCE();
      MULTIPLY_ROWS(s, keys, STRAIGHT(at + STAGES_AT + ring.stage * STAGE_SIZE), WIDTH)
      WGMMA_WAIT(2);
#else
      WGMMA_WAIT(1);
#endif
      STORE_PART(PART_TILES, PART)
      publish_to_units();
      asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
      if (warp.lane == 0) arrive(SUM_FULL(at, parts));
      parts++;
      WGMMA_WAIT(0);
      if (warp.lane == 0) arrive(freed_stage);
#if !AHEAD
      if (more) wait_barrier(full(&ring), ring.parity);
#endif
    }
  }
  float4 sum_k[WIDTH / 8], sum_v[VALUE_WIDTH / 8];
  READ_TILES(k, KEY_TILES, sum_k)
  READ_TILES(v, VALUE_TILES, sum_v)
  STORE_GRADIENTS
}
#else
#define AT(x, stride, row, rows, column, width) \
  ((row) < (rows) && (column) < (width) ? DECODE(TAG, (x)[(long)(row) * (stride) + (column)]) : 0.0f)

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void backward(BACKWARD_ARGUMENTS) {
  const Params *p = &params;
  __local ushort ps[BLOCK * SLICE], ds[BLOCK * SLICE];
  __local float statistics[2 * SLICE];
  WARPS_MEMORY(shared, WARPS);
  const Warp warp = WARP(shared);
  const int pair = 2 * (warp.lane % 4), own = 16 * warp.number + warp.lane / 4, item = get_local_id(0);
  const Heads heads = heads_of(get_group_id(0), sharers, p);
  const int batch = heads.batch;
  __global const ushort *K = CONST_POINTER(ushort, k) + head_at(&p->k, heads.batch, heads.key_head);
  __global const ushort *V = CONST_POINTER(ushort, v) + head_at(&p->v, heads.batch, heads.key_head);
  for (int first = (p->keys - 1) / BLOCK * BLOCK; first >= 0; first -= BLOCK) {
    const int row = first + own;
    float4 sum_k[WIDTH / 8], sum_v[VALUE_WIDTH / 8];
    for (int j = 0; j < WIDTH / 8; j++) sum_k[j] = 0;
    for (int j = 0; j < VALUE_WIDTH / 8; j++) sum_v[j] = 0;
    EACH_HEAD {
      HEAD_VARIABLES
      BIAS_DATA
      HEAD_SLICES
      for (int number = 0; number < slices; number++) {
        const int slice = SLICE_NUMBER(number), begin = slice * SLICE;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (item < SLICE) {
          statistics[item] = begin + item < p->queries ? L[begin + item] : 0;
          statistics[SLICE + item] = begin + item < p->queries ? D[begin + item] : 0;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        float4 s[SLICE / 8], d[SLICE / 8];
        for (int i = 0; i < SLICE / 2; i++) {
          const int at = row + i % 4 / 2 * 8, of = begin + i / 4 * 8 + pair + i % 2;
          float x = 0, y = 0;
          for (int c = 0; c < WIDTH; c++)
            x += AT(K, p->k.row, at, p->keys, c, p->width) * AT(Q, p->q.row, of, p->queries, c, p->width);
          for (int c = 0; c < VALUE_WIDTH; c++)
            y += AT(V, p->v.row, at, p->keys, c, p->value_width) *
                 AT(G, p->grad_out.row, of, p->queries, c, p->value_width);
          ((float *)s)[i] = x, ((float *)d)[i] = y;
        }
        DECLARE_FACTORS(s)
        probabilities(s, factors, statistics, row, begin, &warp, p BIAS_VALUE(number));
        differences(d, factors, statistics + SLICE, &warp);
        for (int j = 0; j < SLICE / 8; j++) {
          const int to = own * SLICE + 8 * j + pair;
          *(__local uint *)(ps + to) = PACK(s[j].lo), *(__local uint *)(ps + to + 8 * SLICE) = PACK(s[j].hi);
          *(__local uint *)(ds + to) = PACK(d[j].lo), *(__local uint *)(ds + to + 8 * SLICE) = PACK(d[j].hi);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int i = 0; i < VALUE_WIDTH / 2; i++)
          for (int n = 0; n < SLICE; n++)
            ((float *)sum_v)[i] += DECODE(TAG, ps[(own + i % 4 / 2 * 8) * SLICE + n]) *
                AT(G, p->grad_out.row, begin + n, p->queries, i / 4 * 8 + pair + i % 2, p->value_width);
        for (int i = 0; i < WIDTH / 2; i++)
          for (int n = 0; n < SLICE; n++)
            ((float *)sum_k)[i] += DECODE(TAG, ds[(own + i % 4 / 2 * 8) * SLICE + n]) *
                AT(Q, p->q.row, begin + n, p->queries, i / 4 * 8 + pair + i % 2, p->width);
        __global float *to = POINTER(float, partial) + ((long)batch_head * slices_of(p) + slice) * (PARTIAL_BYTES / 4);
        for (int i = item; i < SLICE * WIDTH; i += GROUP) {
          const int lane = i / 4 % 32, of = i / 128 % 4 * 16 + lane / 4 + i % 4 / 2 * 8;
          const int column = i / 512 * 8 + 2 * (lane % 4) + i % 2;
          float x = 0;
          for (int n = 0; n < BLOCK; n++)
            x += DECODE(TAG, ds[n * SLICE + of]) * AT(K, p->k.row, first + n, p->keys, column, p->width);
          to[i] = ORDERED && turn_of(slice, first, p) == 0 ? x : to[i] + x;
        }
      }
    }
    STORE_GRADIENTS
  }
}
#endif

#ifdef INDEX
// The sums of grad_q as its elements. A work-item takes 8 columns of two rows, 8 apart. Defines besides: INDEX, which
// counts work-items; EIGHTS: whether 8 columns may be written at once.
__kernel __attribute__((reqd_work_group_size(128, 1, 1)))
void queries(const Params params, CONST_GLOBAL(float, partial), GLOBAL(ushort, grad_q)) {
  const Params *p = &params;
  const INDEX item = get_global_id(0), tile = item % (WIDTH / 8), line = item / (WIDTH / 8) % 32;
  const INDEX at = item / (WIDTH / 8) / 32;
  const INDEX slices = slices_of(p);
  if (at >= slices * p->heads * p->batch) return;
  const int head = at / slices % p->heads, batch = at / slices / p->heads;
  const int row = (int)(at % slices) * SLICE + line / 8 * 16 + line % 8;
  __global const float4 *from =
      (__global const float4 *)(CONST_POINTER(float, partial) + (long)at * (PARTIAL_BYTES / 4)) + tile * 128 + line * 4;
  __global ushort *G = POINTER(ushort, grad_q) + head_at(&p->grad_q, batch, head);
  float4 sums[4];
  for (int i = 0; i < 4; i++) sums[i] = p->keys > 0 ? from[i] * p->scale : (float4)0;
#if EIGHTS
  __global ushort *to = G + (long)row * p->grad_q.row + 8 * tile;
  if (8 * (int)tile >= p->width) return;
  if (row < p->queries)
    *(__global uint4 *)to = (uint4)(PACK(sums[0].lo), PACK(sums[1].lo), PACK(sums[2].lo), PACK(sums[3].lo));
  if (row + 8 < p->queries)
    *(__global uint4 *)(to + 8 * (long)p->grad_q.row) =
        (uint4)(PACK(sums[0].hi), PACK(sums[1].hi), PACK(sums[2].hi), PACK(sums[3].hi));
#else
  for (int i = 0; i < 4; i++)
    store_tile(G, p->grad_q.row, row, p->queries, 8 * tile + 2 * i, p->width, sums[i]);
#endif
}
#endif
