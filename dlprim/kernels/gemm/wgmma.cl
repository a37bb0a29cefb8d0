// SPDX-License-Identifier: MIT
// Core for Hopper's matrix units (float32 sums). A and B come packed (gemm/pack.cl), so that one bulk copy each brings
// a slab, 32 bytes deep in k. Four warps compute 64 x BN of C; several work-groups share a compute unit, and while one
// waits for its slabs another multiplies. Elsewhere the sums are formed without matrix units, to test the rest.
// The host also defines
//   BN       columns of C a work-group computes: 96, 128, 192 or 256
//   STAGES   slabs in local memory
//   BYTES    2 or 4, of an element
//   PASSES   float32 only, as in gemm/mma.cl
//   VC       see gemm/store.clh
// Of the packed operands, parameters tile_m and tile_n are the bytes from tile to tile, a_batch and b_batch from batch
// to batch; k_split is a multiple of a slab's depth.
#define BM 64
#define BAND 16
#include "gemm/operands.clh"
#include "lib/nvidia.clh"

#define GROUP 128
#define PARTS (PASSES == 3 ? 2 : 1)
#define SLAB (32 / BYTES)
#define SLAB_A (32 * BM * PARTS)
#define SLAB_B (32 * BN * PARTS)

#define TRANSPOSED 0
#define WP 16
#define WQ BN
#define SIZE_P p->m
#define SIZE_Q p->n
#include "gemm/store.clh"

typedef __global const uchar *Slabs;

#if NV_PTX == 90
#include "lib/hopper.clh"

// Sums float32 additions make, and what of set s they add.
#define ADD_8(j, b)                 \
  {                                 \
    float4 part;                    \
    READ_8(s, j, b, part);          \
    sum[4 * j + b] += part;         \
  }
#define ADD_32(set, j) ADD_8(j, 0) ADD_8(j, 1) ADD_8(j, 2) ADD_8(j, 3)
#define REST_8(j, b)                                                  \
  {                                                                   \
    float4 rest;                                                      \
    READ_8(r, j, b, rest);                                            \
    sum[4 * j + b] += select((float4)0, rest, isfinite(rest));        \
  }
#define REST_32(set, j) REST_8(j, 0) REST_8(j, 1) REST_8(j, 2) REST_8(j, 3)

// The products of slab `slab`, whose operands lie at a and b. At most PENDING groups of products are under way then.
#if PASSES == 3
// As in gemm/mma.cl: the matrix unit truncates, so it adds 8 large products only.
#define PENDING 0
#define MULTIPLY_SLAB(a, b)                               \
  WGMMA_TF32_ALONE(s, a, b);                              \
  WGMMA_TF32(r, (a) + 2 * BM, b);                         \
  WGMMA_TF32(r, a, (b) + 2 * BN);                         \
  WGMMA_COMMIT();                                         \
  WGMMA_WAIT(0);                                          \
  EACH_32(s, ADD_32)
#else
#define PENDING 1
#if BYTES == 2
#define MULTIPLY_SLAB(a, b) WGMMA_16(TA, s, a, b); WGMMA_COMMIT(); WGMMA_WAIT(1);
#else
#define MULTIPLY_SLAB(a, b) WGMMA_TF32(s, a, b); WGMMA_COMMIT(); WGMMA_WAIT(1);
#endif
#endif

// Local memory: the slabs, then their barriers.
#define MULTIPLY_MEMORY(name) \
  __local uint4 name[STAGES * (SLAB_A + SLAB_B) / 16 + STAGES / 2 + 1] __attribute__((aligned(128)))

__attribute__((always_inline)) inline void multiply(Slabs A, Slabs B, int slabs, float4 *sum,
                                                    const __local uint4 *memory) {
  const uint stages = local_address(memory), barriers = stages + STAGES * (SLAB_A + SLAB_B);
  const int item = get_local_id(0);
  if (item == 0) {
    for (int s = 0; s < STAGES; s++) init_barrier(barriers + 8 * s, 1);
    publish_barriers();
  }
  barrier(CLK_LOCAL_MEM_FENCE);
#define ISSUE(slab, stage)                                                              \
  do {                                                                                  \
    const uint to = stages + (stage) * (SLAB_A + SLAB_B), full = barriers + 8 * (stage); \
    expect_bytes(full, SLAB_A + SLAB_B);                                                \
    copy_bulk(to, A + (size_t)(slab) * SLAB_A, SLAB_A, full);                           \
    copy_bulk(to + SLAB_A, B + (size_t)(slab) * SLAB_B, SLAB_B, full);                  \
  } while (0)
  if (item == 0)
    for (int s = 0; s < STAGES && s < slabs; s++) ISSUE(s, s);
  DECLARE_SUMS(s)
  CLEAR_SUMS(s)
#if PASSES == 3
  DECLARE_SUMS(r)
  CLEAR_SUMS(r)
#endif
  const ulong a = operand(stages, BM), b = operand(stages + SLAB_A, BN);
  int stage = 0;
  uint parity = 0;
  for (int slab = 0; slab < slabs; slab++) {
    wait_barrier(barriers + 8 * stage, parity);
    WGMMA_FENCE();
    MULTIPLY_SLAB(a + stage * ((SLAB_A + SLAB_B) / 16), b + stage * ((SLAB_A + SLAB_B) / 16))
    // Slab `slab - PENDING` is multiplied: its position is free.
    const int free = stage >= PENDING ? stage - PENDING : STAGES - 1;
    if (item == 0 && slab >= PENDING && slab - PENDING + STAGES < slabs) ISSUE(slab - PENDING + STAGES, free);
    if (++stage == STAGES) stage = 0, parity ^= 1;
  }
  WGMMA_WAIT(0);
#if PASSES == 3
  EACH_32(r, REST_32)
#else
  EACH_32(s, ADD_32)
#endif
}
#else
// Element k of a row in one of a slab's parts.
inline float element(Slabs slab, int part, int row, int rows, int k) {
  const int at = ((2 * part + k / (SLAB / 2)) * rows + row) * (SLAB / 2) + k % (SLAB / 2);
#if BYTES == 2
  return DECODE(TA, ((__global const ushort *)slab)[at]);
#else
  return as_float(((__global const uint *)slab)[at] & 0xffffe000u);
#endif
}

#define MULTIPLY_MEMORY(name) __local uint4 name[1]

inline void multiply(Slabs A, Slabs B, int slabs, float4 *sum, const __local uint4 *memory) {
  const int lane = get_local_id(0) % 32, first = get_local_id(0) / 32 * 16;
  for (int i = 0; i < BN / 2; i++) {
    const int row = first + lane / 4 + 8 * (i % 4 / 2), column = i / 4 * 8 + 2 * (lane % 4) + i % 2;
    float s = 0, rest = 0;
    for (int slab = 0; slab < slabs; slab++) {
      Slabs a = A + (size_t)slab * SLAB_A, b = B + (size_t)slab * SLAB_B;
      for (int k = 0; k < SLAB; k++) {
        s += element(a, 0, row, BM, k) * element(b, 0, column, BN, k);
#if PASSES == 3
        rest += element(a, 1, row, BM, k) * element(b, 0, column, BN, k);
        rest += element(a, 0, row, BM, k) * element(b, 1, column, BN, k);
#endif
      }
    }
    ((float *)sum)[i] = s + (isfinite(rest) ? rest : 0);
  }
}
#endif

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void gemm_wgmma(GEMM_ARGUMENTS) {
  const Params *p = &params;
  const Tile tile = tile_of(get_group_id(0), p);
  WARPS_MEMORY(shared, GROUP / 32);
  const Warp warp = WARP(shared);
  const INDEX k_begin = tile.split * p->k_split;
  const int slabs = (int)((min(p->k, k_begin + p->k_split) - k_begin + SLAB - 1) / SLAB);
  const INDEX a_at = tile.batch * p->a_batch + tile.m * p->tile_m + k_begin / SLAB * SLAB_A;
  const INDEX b_at = tile.batch * p->b_batch + tile.n * p->tile_n + k_begin / SLAB * SLAB_B;
  MULTIPLY_MEMORY(memory);
  float4 sum[1][BN / 8];
  UNROLL for (int j = 0; j < BN / 8; j++) sum[0][j] = 0;
  multiply(CONST_POINTER(uchar, a) + a_at, CONST_POINTER(uchar, b) + b_at, slabs, sum[0], memory);
  store_sums(sum, tile.m * BM + 16 * warp.number, tile.n * BN, &tile, &warp, STORE_VALUES);
}
