// SPDX-License-Identifier: MIT
// Core of convolutions for Hopper's matrix units (float32 sums), as gemm/mma.cl without copies of operands: eight warps
// gather slices of A and B, 128 bytes deep in k (MODE 2: 64 points), into a ring of STAGES in local memory, ahead of
// eight that multiply them. A work-group takes tiles BM x BN of C in turns: the next tile's slices come while one's
// sums are stored. Chunks of 16 bytes are whole and aligned. Elsewhere the same slices, in the same places, are
// multiplied without matrix units, for tests. The host also defines
//   BYTES       2 or 4, of an element; 4 is tf32, and not for MODE 2
//   TRANSPOSED  C is contiguous along m: the matrix unit computes the transpose
//   WM, WN      of a warp: 16 rows (of the transpose: columns) by COLUMNS
//   COLUMNS     64 or 128: of four warps, which have BLOCKS times 64 rows of them, at most 2
//   VC          see gemm/store.clh
// p->shares counts the tiles of all batches and splits.
#include "gemm/operands.clh"
#include "gemm/places.clh"
#include "lib/nvidia.clh"
#include "gemm/transposed.clh"

#define GROUP 256  // work-items that multiply
#define TURNED (MODE == 2)
#define CHUNK (16 / BYTES)  // elements
#define PANEL 8192          // 64 rows (TURNED: columns) of an operand
#define BK (128 / BYTES)
#define STAGE (128 * (BM + BN))
#define SHARES_P (COLUMNS == FOR_Q(BM, BN))  // fours of warps share the rows of P, else the columns of Q
#define BLOCKS (SHARES_P ? BP / 128 : BP / 64)
#define START_P FOR_P(0, 128 * BM)
#define START_Q FOR_Q(0, 128 * BM)
#if BYTES == 4
typedef uint Element;
#else
typedef ushort Element;
#endif

#if NV_PTX == 90
#include "lib/hopper_ring.clh"
#define TEAM 256
#define COPY(to, from, valid) copy_chunk(to, from, valid)
#define MEET_WARP() meet_warp()
#else
#define TEAM GROUP
#define COPY(to, from, valid) copy_async(memory + (to), from, 16, valid)
#define MEET_WARP() barrier(CLK_LOCAL_MEM_FENCE)
#endif

#if VC == 1
#include "gemm/spread.clh"
#define STAGED __local float staged[GROUP / 32 * SPREAD_FLOATS];
#define END(sum, p_first, q_first) \
  store_sums(sum, staged + warp.number * SPREAD_FLOATS, p_first, q_first, &tile, &warp, STORE_VALUES)
#else
#include "gemm/store.clh"
#define STAGED
#define END(sum, p_first, q_first) \
  store_sums((const float4(*)[WQ / 8])(sum), p_first, q_first, &tile, &warp, STORE_VALUES)
#endif

#define EACH_TURN for (INDEX group = get_group_id(0); group < p->shares; group += get_num_groups(0))
#define TILE_VARIABLES                                                                                         \
  const Part part = part_of(group, p);                                                                         \
  const Tile tile = part.tile;                                                                                 \
  const INDEX m0 = tile.m * BM, n0 = tile.n * BN;                                                              \
  const int slices = (int)((part.k_end - part.k_begin + BK - 1) / BK);

// The team's work-items copy chunk `chunk` of every LINES-th row from `row` on, and what COPY_VARIABLES declares stays
// the same while k advances. Chunks change places in a row as panel_operand() wants it.
#define LINES (TEAM / 8)
#define COPY_POSITION                                \
  const int chunk = item % 8, row = item / 8;        \
  const int position = 128 * row + 16 * (chunk ^ (row & 7));
#define OPERANDS                                                                                                   \
  __global const Element *A = (__global const Element *)CONST_POINTER(STORAGE(TA), a) + tile.batch * p->a_batch;   \
  __global const Element *B = (__global const Element *)CONST_POINTER(STORAGE(TB), b) + tile.batch * p->b_batch;
#if TURNED
#define COPY_VARIABLES                                                                        \
  OPERANDS                                                                                    \
  const INDEX m = m0 + CHUNK * chunk, n = n0 + CHUNK * chunk;                                 \
  Place taps[BN / 64];                                                                        \
  UNROLL for (int i = 0; i < BN / 64; i++) taps[i] = PLACE_RB(min(n + 64 * i, p->n - CHUNK));
#define COPY_SLICE(to, k0)                                                                                 \
  do {                                                                                                     \
    POINTS(k0)                                                                                             \
    UNROLL for (int e = 0; e < BK / LINES; e++) {                                                          \
      const Place point = POINT(k0, e);                                                                    \
      const bool in = (k0) + row + e * LINES < part.k_end;                                                 \
      UNROLL for (int i = 0; i < BM / 64; i++)                                                             \
        COPY((to) + i * PANEL + e * (128 * LINES), A + point.y + m + 64 * i, in && m + 64 * i < p->m);     \
      UNROLL for (int i = 0; i < BN / 64; i++)                                                             \
        COPY((to) + 128 * BM + i * PANEL + e * (128 * LINES), B + point.x + taps[i].x,                     \
             in && inside(point, taps[i], p));                                                             \
    }                                                                                                      \
  } while (0)
#if NV_PTX == 90
// A lane finds one of the 8 points that its warp copies; the others come from other lanes.
#define POINTS(k0) const Place own = place_point((k0) + item / 32 * 4 + item % 4 + item % 8 / 4 * LINES, p);
#define POINT(k0, e) place_of_lane(&own, 4 * (e) + item % 32 / 8)
inline INDEX index_of_lane(INDEX x, int lane) {
#if WIDE
  return (INDEX)(of_lane((uint)x, lane) | (ulong)of_lane((uint)((ulong)x >> 32), lane) << 32);
#else
  return (INDEX)of_lane((uint)x, lane);
#endif
}
inline Place place_of_lane(const Place *own, int lane) {
  Place r;
  r.x = index_of_lane(own->x, lane), r.y = index_of_lane(own->y, lane);
  r.d = r.h = r.w = 0;
#if CHECK
  r.w = (int)of_lane((uint)own->w, lane);
#if RANK > 1
  r.h = (int)of_lane((uint)own->h, lane);
#endif
#if RANK > 2
  r.d = (int)of_lane((uint)own->d, lane);
#endif
#endif
  return r;
}
#else
#define POINTS(k0)
#define POINT(k0, e) place_point((k0) + row + (e) * LINES, p)
#endif
#else
#define COPY_VARIABLES                                                                                     \
  OPERANDS                                                                                                 \
  const INDEX a_row = (m0 + row) * p->a_m;                                                                 \
  Place points[BN / LINES];                                                                                \
  UNROLL for (int e = 0; e < BN / LINES; e++) points[e] = PLACE_RB(min(n0 + row + e * LINES, p->n - 1));
#define COPY_SLICE(to, k0)                                                                                 \
  do {                                                                                                     \
    const INDEX k = (k0) + CHUNK * chunk;                                                                  \
    const bool in = k < part.k_end;                                                                        \
    const Place tap = PLACE_KB(k);                                                                         \
    UNROLL for (int e = 0; e < BM / LINES; e++)                                                            \
      COPY((to) + e * (128 * LINES), A + a_row + e * LINES * p->a_m + k, in && m0 + row + e * LINES < p->m); \
    UNROLL for (int e = 0; e < BN / LINES; e++)                                                            \
      COPY((to) + 128 * BM + e * (128 * LINES), B + points[e].x + tap.x, in && inside(points[e], tap, p)); \
  } while (0)
#endif

// What four warps have of a tile: rows of P, of which a warp takes 16 of each 64, and columns of Q.
#define OWN_P (SHARES_P ? warp.number / 4 * (64 * BLOCKS) : 0)
#define OWN_Q (SHARES_P ? 0 : warp.number / 4 * COLUMNS)
#define FIRST_P ((TRANSPOSED ? n0 : m0) + OWN_P + 16 * (warp.number % 4))
#define FIRST_Q ((TRANSPOSED ? m0 : n0) + OWN_Q)


#if NV_PTX == 90
#if BYTES == 4
#define MATRIX(names, a, b) WGMMA_LOCAL("k8", "tf32", "", names, COLUMNS, a, b)
#define STEP (32 / 16)
#elif TURNED
#define MATRIX(names, a, b) WGMMA_LOCAL("k16", HOPPER_STRING(TA), ", 1, 1", names, COLUMNS, a, b)
#define STEP (16 * 128 / 16)
#else
#define MATRIX(names, a, b) WGMMA_LOCAL("k16", HOPPER_STRING(TA), ", 0, 0", names, COLUMNS, a, b)
#define STEP (32 / 16)
#endif
#if COLUMNS == 64
#define SET_TILES 8
#else
#define SET_TILES 16
#endif
// The products of 32 bytes of k, by one set of sums for each block of 64 rows.
#if BLOCKS == 2
#define MULTIPLY(a, b)                \
  MATRIX(NAMES(s, SET_TILES), a, b);  \
  MATRIX(NAMES(t, SET_TILES), (a) + PANEL / 16, b);
#else
#define MULTIPLY(a, b) MATRIX(NAMES(s, SET_TILES), a, b);
#endif

__attribute__((always_inline)) inline void produce(Ring ring, int item, const Params *p, CONST_GLOBAL(STORAGE(TA), a),
                                                   CONST_GLOBAL(STORAGE(TB), b)) {
  COPY_POSITION
  EACH_TURN {
    TILE_VARIABLES
    COPY_VARIABLES
    for (int i = 0; i < slices; i++) {
      wait_barrier(freed(&ring), ring.parity ^ 1);
      COPY_SLICE(ring.memory + ring.stage * STAGE + position, part.k_begin + i * BK);
      arrive_copied(full(&ring));
      advance(&ring, STAGES);
    }
  }
}

__kernel __attribute__((reqd_work_group_size(GROUP + TEAM, 1, 1))) void gemm_gather(GEMM_ARGUMENTS) {
  const Params *p = &params;
  __local uchar memory[STAGES * STAGE] __attribute__((aligned(1024)));
  __local ulong barriers[2 * STAGES];
  STAGED
  const Warp warp = WARP(shared);
  Ring ring = {local_address(memory), local_address(barriers), 0, 0};
  if (get_local_id(0) == 0) make_ring(&ring, STAGES, TEAM, GROUP / 32);
  barrier(CLK_LOCAL_MEM_FENCE);
  if (warp.number >= GROUP / 32) {
    asm volatile("//@setmaxnreg.dec.sync.aligned.u32 56;");
    produce(ring, (int)get_local_id(0) - GROUP, p, a_memory, a_offset, b_memory, b_offset);
    return;
  }
  asm volatile("//@setmaxnreg.inc.sync.aligned.u32 200;");
  const int near = TURNED ? PANEL : 16;
  const ulong ps = panel_operand(ring.memory + START_P + 128 * OWN_P, near);
  const ulong qs = panel_operand(ring.memory + START_Q + 128 * OWN_Q, near);
  DECLARE_TILES(s, SET_TILES)
  DECLARE_TILES(t, SET_TILES)
  EACH_TURN {
    TILE_VARIABLES
    CLEAR_TILES(s, SET_TILES)
#if BLOCKS == 2
    CLEAR_TILES(t, SET_TILES)
#endif
    uint done = 0;
    for (int i = 0; i < slices; i++) {
      wait_barrier(full(&ring), ring.parity);
      publish_to_units();
      const ulong a = ps + ring.stage * (STAGE / 16), b = qs + ring.stage * (STAGE / 16);
      WGMMA_FENCE();
      UNROLL for (int step = 0; step < 4; step++) {
        MULTIPLY(a + step * STEP, b + step * STEP)
      }
      WGMMA_COMMIT();
      WGMMA_WAIT(1);
      if (done && warp.lane == 0) arrive(done);  // the slice before is multiplied
      done = freed(&ring);
      advance(&ring, STAGES);
    }
    WGMMA_WAIT(0);
    if (warp.lane == 0) arrive(done);
    float4 sum[COLUMNS / 8];
    READ_TILES(s, SET_TILES, sum)
    END(sum, FIRST_P, FIRST_Q);
#if BLOCKS == 2
    READ_TILES(t, SET_TILES, sum)
    END(sum, FIRST_P + 64, FIRST_Q);
#endif
  }
}
#else
// Element k of a row of an operand that begins at `start` of a slice.
inline float element(const __local uchar *memory, int start, int row, int k) {
  const int line = TURNED ? k : row % 64, column = TURNED ? row % 64 : k;
  const int at = start + row / 64 * PANEL + 128 * line + 16 * ((column / CHUNK) ^ (line & 7));
#if BYTES == 2
  return DECODE(TA, ((const __local ushort *)(memory + at))[column % CHUNK]);
#else
  return as_float(((const __local uint *)(memory + at))[column % CHUNK] & 0xffffe000u);
#endif
}

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void gemm_gather(GEMM_ARGUMENTS) {
  const Params *p = &params;
  __local uchar memory[STAGE] __attribute__((aligned(16)));
  WARPS_MEMORY(shared, GROUP / 32);
  STAGED
  const Warp warp = WARP(shared);
  const int item = get_local_id(0);
  COPY_POSITION
  EACH_TURN {
    TILE_VARIABLES
    COPY_VARIABLES
    float4 sum[BLOCKS][COLUMNS / 8];
    for (int i = 0; i < BLOCKS * COLUMNS / 8; i++) sum[0][i] = 0;
    for (int i = 0; i < slices; i++) {
      barrier(CLK_LOCAL_MEM_FENCE);
      COPY_SLICE(position, part.k_begin + i * BK);
      COMMIT_COPIES();
      WAIT_COPIES(0);
      barrier(CLK_LOCAL_MEM_FENCE);
      for (int e = 0; e < BLOCKS * COLUMNS / 2; e++) {
        const int block = e / (COLUMNS / 2), r = OWN_P + 64 * block + 16 * (warp.number % 4) + warp.lane / 4;
        const int c = OWN_Q + e % (COLUMNS / 2) / 4 * 8 + 2 * (warp.lane % 4) + e % 2;
        float value = 0;
        for (int k = 0; k < BK; k++)
          value += element(memory, START_P, r + 8 * (e % 4 / 2), k) * element(memory, START_Q, c, k);
        ((float *)sum)[e] += value;
      }
    }
    for (int block = 0; block < BLOCKS; block++) END(sum[block], FIRST_P + 64 * block, FIRST_Q);
  }
}
#endif
