// SPDX-License-Identifier: MIT
// Core for Hopper's matrix units (float32 sums) that reads A and B where they lie. Work-groups stay and take tile after
// tile. In each, one work-item orders boxes of A and B (lib/tensor_maps.clh) for a ring of stages in local memory, as
// far ahead of those that multiply as the ring reaches, so that a tile's first stages arrive while the last tile is
// stored. A stage is 128 bytes deep in k; of an operand contiguous along its rows, boxes are 128 bytes of rows wide.
// Each warp group, four warps, multiplies TM x BN of the tile at its own pace; P is the factor that gives the matrix
// unit's rows. Elsewhere the sums are formed without matrix units from the same boxes, for tests.
// The host also defines
//   TILE_M, TILE_N           the tile
//   TM, BN                   what a warp group computes of it, rows of P by columns: TM is 64 or 128, BN a multiple of 32
//                            from 64 to 256, and of 64 where warp groups lie side by side. Where TM is 128 and one
//                            computes the whole tile, two take tiles in turns: one multiplies while the other stores
//   RESIDENT                 work-groups that share a compute unit
//   STAGES                   stages in local memory, at least 2
//   BYTES                    1, 2 or 4 (tf32), of an element
//   E5M2_A, E5M2_B           of 1 byte: of e5m2, else of e4m3; A and B are contiguous along k
//   EXACT_SUMS               of 1 byte: the matrix unit, which keeps about 14 bits of them, adds up a stage's products;
//                            the sums of stages are rounded as float32. TM is 64
//   A_ALONG_K, B_ALONG_K     whether they are contiguous along k. Of 4 bytes one may be not (gemm/tma_registers.clh):
//                            it is P, so that the transpose is computed where it is B. Where neither is, the other one
//                            is turned (gemm/turn.clh)
//   VC                       see gemm/store.clh (4 where boxes may be stored) and gemm/tma_registers.clh
//   C_BYTES, C_WORD          of an element of C; see gemm/store_boxes.clh, 0: C is not contiguous along n, or VC serves
//   GROUPED                  see gemm/groups.clh. With groups of rows A, with groups of k neither factor lies along k
// Parameter shares is the number of tiles of all splits and batches; k_split is a multiple of a stage's depth.
#define BAND (2048 / TILE_M)
#include "gemm/operands.clh"
#include "lib/nvidia.clh"
#include "lib/tensor_maps.clh"

#define REGISTERS (BYTES == 4 && !(A_ALONG_K && B_ALONG_K))
#define TURNED (REGISTERS && !A_ALONG_K && !B_ALONG_K)
#define TRANSPOSED (REGISTERS && !B_ALONG_K)
#if TRANSPOSED
#define WM BN
#define WN 16
#else
#define WM 16
#define WN BN
#endif
#include "gemm/transposed.clh"

#include "gemm/groups.clh"

#define TILE_P FOR_P(TILE_M, TILE_N)
#define WARP_GROUPS_OF_TILE (TILE_P / TM * (FOR_Q(TILE_M, TILE_N) / BN))
// Warp groups that take tiles in turns. Each has the matrix unit to itself until it has ordered its last products.
#if NV_PTX == 90 && WARP_GROUPS_OF_TILE == 1 && TM == 128 && !REGISTERS
#define TURNS 2
#else
#define TURNS 1
#endif
#define GROUP (TURNS * WARP_GROUPS_OF_TILE * 128)
#define SETS (TM / 64)
// Work-items of which one copies; in its warp group the others only hand on registers, or turn an operand.
#define MANY_REGISTERS (REGISTERS || BYTES == 1 || TURNS == 2)
#define MOVES_REGISTERS (MANY_REGISTERS && GROUP == 256 && RESIDENT == 1)
#define TEAM (MOVES_REGISTERS || TURNED ? 128 : 32)
#define DEPTH (128 / BYTES)
#define COUNTED (BYTES == 1 ? 2 : 1)  // elements that tensor maps count as one
#define PANEL (128 * DEPTH)  // bytes of a box of DEPTH rows of an operand that is contiguous along these
#define PANELS(size) (((size) + DEPTH - 1) / DEPTH)
#define PART_BYTES(size, along_k) ((along_k) ? 128 * (size) : PANELS(size) * PANEL)
#define STAGE_A PART_BYTES(TILE_M, A_ALONG_K)
#define STAGE (STAGE_A + PART_BYTES(TILE_N, B_ALONG_K))
#define START_P FOR_P(0, STAGE_A)
#define START_Q FOR_Q(0, STAGE_A)
#define Q_ALONG_K (REGISTERS || FOR_Q(A_ALONG_K, B_ALONG_K))  // as the matrix unit finds it

typedef struct {
  TensorMap a, b, c;  // c: where BOXES
} Maps;

// Empty groups of k take a step, of which all is cleared.
#define TILE_STEPS TILE_K const int steps = max((k_end - k_begin + DEPTH - 1) / DEPTH, GROUPED == 2 ? 1 : 0);
// COPY(to, operand, column, row) for each box of an operand's part of a stage. Boxes have to begin inside the matrix,
// which has `rows`; what is computed from others in their place is not stored.
#define COPY_OPERAND(COPY, to, operand, along_k, size, row, rows, k) \
  if (along_k) COPY(to, operand, k, row);                            \
  else                                                               \
    for (int i = 0; i < PANELS(size); i++)                           \
      COPY((to) + i * PANEL, operand, (row) + DEPTH * i < (int)(rows) ? (row) + DEPTH * i : 0, k);

// Where number k of a row of an operand lies in a stage.
inline int place(int along_k, int row, int k) {
  const int r = along_k ? row : k, c = (along_k ? k : row % DEPTH) * BYTES;
  return (along_k ? 0 : row / DEPTH * PANEL) + 128 * r + 16 * (c / 16 ^ r % 8) + c % 16;
}

#if REGISTERS
#include "gemm/tma_registers.clh"
#define HELD 0
#else
// Results go as boxes where there is room for their panels beside the stages and the addend's parts, and a box holds no
// others' columns or, of groups, rows. Those of float32 to which something is added wait longer for it that way. Rows
// that begin anywhere go through the same panels.
#define WARPS_PANELS(count) (GROUP / 32 * (count) * 2048)
#define HELD_BYTES (ADDEND == 6 ? (STAGES + TURNS) * TILE_N * 2 : 0)
#define ROOM (233472 / RESIDENT - 1024 * (TURNS + 1) - STAGES * STAGE - HELD_BYTES)
#define BOX_PANELS (ROOM >= WARPS_PANELS(2) ? 2 : 1)
#define WHOLE_BOXES (VC == 8 ? BN % 64 == 0 : VC == 4 && BN % 32 == 0 && !ADDEND && !RESIDUAL)
#if WHOLE_BOXES && RESIDENT == 1 && GROUPED != 1 && ROOM >= WARPS_PANELS(1)
#define BOXES 1
#elif C_WORD && GROUPED != 1 && ROOM >= WARPS_PANELS(1)
#define BOXES 2
#undef VC
#define VC 1
#elif VC == 4
#undef VC
#define VC 2
#endif
#include "gemm/store.clh"
#endif
#if BOXES
#define DECLARE_PANELS uint sent = 0; __local uchar panels[WARPS_PANELS(BOX_PANELS)] __attribute__((aligned(1024)));
#if BOXES == 2
#define PANELS_OF(map) panels + warp.number * BOX_PANELS * BOX_BYTES, &sent,
#else
#define PANELS_OF(map) panels + warp.number * BOX_PANELS * BOX_BYTES, &sent, map,
#endif
#else
#define DECLARE_PANELS
#define PANELS_OF(map)
#endif
#if REGISTERS
#define WAIT_FOR_PANELS()
#endif

// With HELD a tile's part of the addend comes with its first stage, in turns into one of SLOTS. When a slot is filled
// again, a stage is free of the tile that the same warps computed after the one that had it, which so is stored.
#if HELD
#define SLOTS (STAGES + TURNS)
#define HELD_OF(number) (held + (number) % SLOTS * (TILE_N / 2) + own_column / 2),
#define ADDEND_BYTES(n) (2 * min(TILE_N, (int)p->n - (n)))
#define ADDEND_AT(tile, n) (CONST_POINTER(ushort, d) + (tile).batch * p->d_batch + (n))
#else
#define SLOTS 0
#define HELD_OF(number)
#endif

#if NV_PTX == 90
// What the matrix unit wants to know of an operand (see panel_operand in hopper_tiles.clh), and from where on it reads
// 64 rows further, and 32 bytes or 16 rows further along k.
#define OPERAND(at, along_k) \
  ((ulong)((at) >> 4) | (ulong)((along_k) ? 1 : PANEL / 16) << 16 | (ulong)64 << 32 | (ulong)1 << 62)
#define NEXT_ROWS(along_k) ((along_k) ? 64 * 128 / 16 : PANEL / 16)
#define NEXT_K(along_k) ((along_k) ? 32 / 16 : 16 * 128 / 16)

#if BYTES == 1
#define KIND_0 "e4m3"
#define KIND_1 "e5m2"
#define KINDS CONCAT(KIND_, E5M2_A) "." CONCAT(KIND_, E5M2_B)
#define WGMMA(set, a, b, more) WGMMA_WITH("k32", KINDS, "", set, a, b, more)
#elif BYTES == 2
#define TURNED_0 ", 1"
#define TURNED_1 ", 0"
#define FLAGS CONCAT(TURNED_, A_ALONG_K) CONCAT(TURNED_, B_ALONG_K)
#define TAG HOPPER_STRING(TA)
#define WGMMA(set, a, b, more) WGMMA_WITH("k16", TAG "." TAG, FLAGS, set, a, b, more)
#else
#define WGMMA(set, a, b, more) WGMMA_WITH("k8", "tf32.tf32", "", set, a, b, more)
#endif

// A place in the ring. Each stage has a barrier that tells it is full and one that tells it is free, with TURNED a third
// that tells Q is turned.
typedef struct {
  uint memory, barriers, stage, parity;
} Ring;
inline uint full(const Ring *r) { return r->barriers + 16 * r->stage; }
inline uint turned(const Ring *r) { return r->barriers + 16 * STAGES + 8 * r->stage; }
inline void advance(Ring *r) {
  if (++r->stage == STAGES) r->stage = 0, r->parity ^= 1;
}
// Past the stages of a tile that other warps multiply.
inline void skip(Ring *r, uint steps) {
  const uint stage = r->stage + steps, rounds = stage / STAGES;
  r->stage = stage - rounds * STAGES, r->parity ^= rounds & 1;
}

// By one work-item.
__attribute__((always_inline)) inline void produce(Ring ring, ulong maps, const Params *p, ulong A, ulong B,
                                                   uint held, CONST_GLOBAL(STORAGE(TD), d) GROUPS_ARGUMENT) {
  const ulong map_a = maps, map_b = maps + 128;
  uint turn = 0;
  EACH_TILE(tile) {
    TILE_STEPS
    const ulong at_a = A + (ulong)(tile.batch * p->a_batch) * BYTES;
    const ulong at_b = B + (ulong)(tile.batch * p->b_batch) * BYTES;
    const int m = FIRST_ROW + tile.m * TILE_M, n = tile.n * TILE_N;
    for (int i = 0; i < steps; i++) {
#if GROUPED == 2
      const int k = min(k_begin + i * DEPTH, (int)p->k - 1);
#else
      const int k = k_begin + i * DEPTH;
#endif
      const uint to = ring.memory + ring.stage * STAGE, barrier = full(&ring);
      wait_barrier(barrier + 8, ring.parity ^ 1);
#if HELD
      expect_bytes(barrier, STAGE + (i ? 0 : ADDEND_BYTES(n)));
      if (i == 0) copy_bulk(held + turn++ % SLOTS * (2 * TILE_N), ADDEND_AT(tile, n), ADDEND_BYTES(n), barrier);
#else
      expect_bytes(barrier, STAGE);
#endif
#define ORDER(to, operand, column, row) copy_box(to, map_##operand, (column) / COUNTED, row, at_##operand, barrier)
      COPY_OPERAND(ORDER, to, a, A_ALONG_K, TILE_M, m, p->m, k)
      COPY_OPERAND(ORDER, to + STAGE_A, b, B_ALONG_K, TILE_N, n, p->n, k)
      advance(&ring);
    }
  }
}

#if TURNED
#include "gemm/turn.clh"
#endif

#if GROUPED == 2
// Clears what a warp group reads of a stage behind its first `rows` of k, where another group's begin.
inline void clear_rows(__local uchar *stage, int rows, int own_p, int own_q, int own) {
  if (rows >= DEPTH) return;
  const int count = 8 * (DEPTH - rows), panels = (TM + BN) / DEPTH;
  for (int i = get_local_id(0) % 128; i < count * panels; i += 128) {
    const int panel = i / count, at = rows * 128 + i % count * 16;
    __local uchar *from = panel < TM / DEPTH ? stage + (own_p / DEPTH + panel) * PANEL
                                             : stage + STAGE_A + (own_q / DEPTH + panel - TM / DEPTH) * PANEL;
    *(__local uint4 *)(from + at) = 0;
  }
  publish_to_units();
  asm volatile("bar.sync %0, 128;" ::"r"(1 + own) : "memory");
}
#endif

#define STORE_8(set, j, b) READ_8(set, j, b, sum[0][4 * j + b]);
#define STORE_32(set, j) STORE_8(set, j, 0) STORE_8(set, j, 1) STORE_8(set, j, 2) STORE_8(set, j, 3)
// A warp's sums times the scales of their rows and columns, of which a lane loads every 32nd.
#if SCALES == 2
#define SCALE_8(set, j, b) SCALE_SUMS_8(set, j, b, of_rows * of_columns(own[j], 8 * b + 2 * (warp.lane % 4)))
#define SCALE_32(set, j) SCALE_8(set, j, 0) SCALE_8(set, j, 1) SCALE_8(set, j, 2) SCALE_8(set, j, 3)
#define SCALE_SET(set, row, column)                                                                   \
  const INDEX line = row + warp.lane / 4;                                                             \
  const float upper = SCALE_OF(a, min(line, p->m - 1)), lower = SCALE_OF(a, min(line + 8, p->m - 1)); \
  const float4 of_rows = (float4)(upper, upper, lower, lower);                                        \
  float own[BN / 32];                                                                                 \
  UNROLL for (int j = 0; j < BN / 32; j++)                                                            \
    own[j] = SCALE_OF(b, min((INDEX)(column + 32 * j + warp.lane), p->n - 1));                        \
  EACH_32(set, SCALE_32)
// The number of a lane, which may be another one for each lane that asks.
inline float of_lane(float value, uint lane) {
  float r;
  asm volatile("shfl.sync.idx.b32 %0, %1, %2, 31, 0xffffffff;" : "=f"(r) : "f"(value), "r"(lane));
  return r;
}
inline float4 of_columns(float own, uint lane) {
  const float2 pair = (float2)(of_lane(own, lane), of_lane(own, lane + 1));
  return (float4)(pair, pair);
}
#elif SCALES
#define SCALE_8(set, j, b) SCALE_SUMS_8(set, j, b, of_all)
#define SCALE_32(set, j) SCALE_8(set, j, 0) SCALE_8(set, j, 1) SCALE_8(set, j, 2) SCALE_8(set, j, 3)
#define SCALE_SET(set, row, column)                            \
  const float4 of_all = SCALE_OF(a, 0) * SCALE_OF(b, 0);       \
  EACH_32(set, SCALE_32)
#else
#define SCALE_SET(set, row, column)
#endif
#define STORE_SET(set, row, column)                            \
  {                                                            \
    SCALE_SET(set, row, column)                                \
    float4 sum[1][BN / 8];                                     \
    EACH_32(set, STORE_32)                                     \
    store_sums(sum, row, column, &tile, &warp, HELD_OF(turn)   \
               PANELS_OF(at_maps + 256) STORE_VALUES);         \
  }

// The products of a stage.
#if REGISTERS
#define MULTIPLY_RING(more, RELEASE) \
  MULTIPLY_STAGE(low + ring.stage * STAGE, high + ring.stage * STAGE, at_q, more, RELEASE)
#else
#if SETS == 2
#define SECOND_SET(p, q, more) WGMMA(r, (p) + NEXT_ROWS(A_ALONG_K), q, more);
#else
#define SECOND_SET(p, q, more)
#endif
#if EXACT_SUMS
#define TOTAL t
#define ADD_32(set, j) ADD_SET_8(t, set, j, 0) ADD_SET_8(t, set, j, 1) ADD_SET_8(t, set, j, 2) ADD_SET_8(t, set, j, 3)
#define ANEW(more) 0
#define WAIT_FOR_STAGE() WGMMA_WAIT(0)
#define ADD_STAGE EACH_32(s, ADD_32)
#else
#define TOTAL s
#define ANEW(more) more
#define WAIT_FOR_STAGE() WGMMA_WAIT(1)  // for the one before
#define ADD_STAGE
#endif
#define MULTIPLY_RING(more, RELEASE)                                                          \
  const ulong at_p = first_p + ring.stage * (STAGE / 16);                                     \
  WGMMA_FENCE();                                                                              \
  UNROLL for (int k = 0; k < 4; k++) {                                                        \
    const ulong p_of_k = at_p + k * NEXT_K(A_ALONG_K), q_of_k = at_q + k * NEXT_K(B_ALONG_K); \
    WGMMA(s, p_of_k, q_of_k, ANEW(more) | k);                                                 \
    SECOND_SET(p_of_k, q_of_k, more | k)                                                      \
  }                                                                                           \
  WGMMA_COMMIT();                                                                             \
  WAIT_FOR_STAGE();                                                                           \
  RELEASE;                                                                                    \
  ADD_STAGE
#endif

// Registers move from the warps that copy to those that multiply.
#if MOVES_REGISTERS
#define MAKE_REGISTERS_FEW() asm volatile("//@setmaxnreg.dec.sync.aligned.u32 56;")
#define MAKE_REGISTERS_MANY() asm volatile("//@setmaxnreg.inc.sync.aligned.u32 224;")
#else
#define MAKE_REGISTERS_FEW()
#define MAKE_REGISTERS_MANY()
#endif

#if TURNS == 2
// The barrier of a warp group that tells it is its turn.
#define TURN_OF(own) (ring.barriers + 16 * STAGES + 8 * (own))
#define EACH_OWN_TILE(tile) EACH_TILE(tile)
#else
#define EACH_OWN_TILE(tile) EACH_TILE_AHEAD(tile)
#endif

__kernel __attribute__((reqd_work_group_size(GROUP + TEAM, 1, 1))) void gemm_tma(const Maps maps,
                                                                                 GEMM_ARGUMENTS GROUPS_ARGUMENT) {
  const Params *p = &params;
  __local uchar memory[STAGES * STAGE] __attribute__((aligned(1024)));
  __local ulong barriers[(TURNED ? 3 : 2) * STAGES + (TURNS == 2 ? 2 : 0)];
#if HELD
  __local uint held[SLOTS * TILE_N / 2] __attribute__((aligned(16)));
#else
  const __local uint *held = 0;
#endif
  DECLARE_PANELS
  const Warp warp = WARP(shared);
  Ring ring = {local_address(memory), local_address(barriers), 0, 0};
  if (get_local_id(0) == 0) {
    for (int i = 0; i < STAGES; i++) {
      init_barrier(ring.barriers + 16 * i, 1);
      init_barrier(ring.barriers + 16 * i + 8, GROUP / 32 / TURNS);
      if (TURNED) init_barrier(ring.barriers + 16 * STAGES + 8 * i, TEAM / 32 - 1);
    }
#if TURNS == 2
    init_barrier(TURN_OF(0), 4), init_barrier(TURN_OF(1), 4);
#endif
    publish_barriers();
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  ulong at_maps;
  PARAMETER_ADDRESS(gemm_tma_param_0, at_maps);
  if (warp.number >= GROUP / 32) {
    MAKE_REGISTERS_FEW();
#if TURNED
    if (warp.number > GROUP / 32) {
      turn_stages(ring, p, &warp);
      return;
    }
#endif
    if (get_local_id(0) != GROUP) return;
    produce(ring, at_maps, p, (ulong)CONST_POINTER(STORAGE(TA), a), (ulong)CONST_POINTER(STORAGE(TB), b),
            HELD ? local_address(held) : 0, d_memory, d_offset GROUPS_VALUE);
    return;
  }
  MAKE_REGISTERS_MANY();
  const int own = warp.number / 4, in_tile = TURNS == 2 ? 0 : own;
  const int own_p = in_tile % (TILE_P / TM) * TM, own_q = in_tile / (TILE_P / TM) * BN;
  const ulong first_q = OPERAND(ring.memory + START_Q, Q_ALONG_K) + own_q / 64 * NEXT_ROWS(Q_ALONG_K);
#if REGISTERS
  const int own_row = own_p + lane_row(&warp), own_column = own_q + 2 * (warp.lane % 4);
  const uint low = ring.memory + START_P + place(0, own_row, warp.lane % 4);
  const uint high = ring.memory + START_P + place(0, own_row, warp.lane % 4 + 4);
#else
  const int own_row = own_p + 16 * (warp.number % 4), own_column = own_q;
  const ulong first_p = OPERAND(ring.memory, A_ALONG_K) + own_p / 64 * NEXT_ROWS(A_ALONG_K);
#endif
  DECLARE_SUMS(s)
#if EXACT_SUMS
  DECLARE_SUMS(t)
#endif
#if SETS == 2
  DECLARE_SUMS(r)
#endif
  uint turn = 0;
  KEEP_C
  EACH_OWN_TILE(tile) {
    GROUP_PARAMETERS
    TILE_STEPS
#if TURNS == 2
    if (turn % 2 != own) {
      skip(&ring, steps);
      turn++;
      continue;
    }
#endif
    uint last = 0;  // the barrier of the stage before
#if EXACT_SUMS
    CLEAR_SUMS(t)
#endif
    CLEAR_SUMS(s)  // else the assembler keeps their registers while the last tile is stored
#if SETS == 2
    CLEAR_SUMS(r)
#endif
    PLACE_C
#if TURNS == 2
    wait_barrier(TURN_OF(own), turn / 2 % 2 ^ own ^ 1);
#endif
    for (int i = 0; i < steps; i++) {
      const uint barrier = full(&ring);
      const ulong at_q = first_q + ring.stage * (STAGE / 16);
      wait_barrier(barrier, ring.parity);
#if TURNED
      wait_barrier(turned(&ring), ring.parity);
#endif
#if GROUPED == 2
      if (i == steps - 1) clear_rows(memory + ring.stage * STAGE, k_end - k_begin - i * DEPTH, own_p, own_q, own);
#endif
      MULTIPLY_RING(i, if (i && warp.lane == 0) arrive(last + 8))
      last = barrier;
      advance(&ring);
#if TURNS == 1
      if (i == 0) {
        FIND_NEXT
      }
#endif
    }
#if TURNS == 2
    if (warp.lane == 0) arrive(TURN_OF(1 - own));
#endif
    WGMMA_WAIT(0);
    if (warp.lane == 0) arrive(last + 8);
    const INDEX row = FOR_P(tile.m * TILE_M, tile.n * TILE_N) + own_row;
    const INDEX column = FOR_Q(tile.m * TILE_M, tile.n * TILE_N) + own_column;
#if REGISTERS
    EACH_32(s, STORE_ROWS_32)
#else
    STORE_SET(TOTAL, row, column)
#if SETS == 2
    STORE_SET(r, row + 64, column)
#endif
    turn++;
#endif
  }
  WAIT_FOR_PANELS();
}
#else
#if BYTES == 1
#include "lib/small_floats.clh"
#endif
// Number k of a row of an operand in a stage.
inline float element(const __local uchar *part, int along_k, int e5m2, int row, int k) {
  const __local uchar *at = part + place(along_k, row, k);
#if BYTES == 1
  return e5m2 ? decode_e5m2(*at) : decode_e4m3fn(*at);
#elif BYTES == 2
  return DECODE(TA, *(const __local ushort *)at);
#else
  return as_float(*(const __local uint *)at & 0xffffe000u);
#endif
}

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void gemm_tma(const Maps maps,
                                                                          GEMM_ARGUMENTS GROUPS_ARGUMENT) {
  const Params *p = &params;
  __local uchar memory[STAGE] __attribute__((aligned(16)));
#if HELD
  __local uint held[TILE_N / 2];
#endif
  DECLARE_PANELS
  WARPS_MEMORY(shared, GROUP / 32);
  const Warp warp = WARP(shared);
  const int own = warp.number / 4, own_p = own % (TILE_P / TM) * TM, own_q = own / (TILE_P / TM) * BN;
  const Maps *both = &maps;
  KEEP_C
  EACH_TILE(tile) {
    GROUP_PARAMETERS
    TILE_STEPS
    PLACE_C
    __global const uchar *from_a = (__global const uchar *)(CONST_POINTER(STORAGE(TA), a) + tile.batch * p->a_batch);
    __global const uchar *from_b = (__global const uchar *)(CONST_POINTER(STORAGE(TB), b) + tile.batch * p->b_batch);
    const int m = tile.m * TILE_M, n = tile.n * TILE_N, own_column = own_q;
#if HELD
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = get_local_id(0); i < ADDEND_BYTES(n) / 4; i += GROUP)
      held[i] = ((__global const uint *)ADDEND_AT(tile, n))[i];
    barrier(CLK_LOCAL_MEM_FENCE);
#endif
#if REGISTERS
    const int line = own_p + lane_row(&warp), next_set = 2, next_row = 1;
#else
    const int line = own_p + 16 * (warp.number % 4) + warp.lane / 4, next_set = 64, next_row = 8;
#endif
    const int pair = own_q + 2 * (warp.lane % 4);
    float4 sum[SETS][1][BN / 8];
    for (int i = 0; i < SETS * BN / 2; i++) ((float *)sum)[i] = 0;
    for (int k = k_begin; k < k_end; k += DEPTH) {
      barrier(CLK_LOCAL_MEM_FENCE);
#define ORDER(to, operand, column, row) copy_box(to, &both->operand, (column) / COUNTED, row, from_##operand)
      COPY_OPERAND(ORDER, memory, a, A_ALONG_K, TILE_M, FIRST_ROW + m, p->m, k)
      COPY_OPERAND(ORDER, memory + STAGE_A, b, B_ALONG_K, TILE_N, n, p->n, k)
      barrier(CLK_LOCAL_MEM_FENCE);
      for (int i = 0; i < SETS * BN / 2; i++) {
        const int row = line + next_set * (i / (BN / 2)) + next_row * (i % 4 / 2);
        const int column = pair + i % (BN / 2) / 4 * 8 + i % 2;
        float s = 0;
        for (int l = 0; l < min(DEPTH, k_end - k); l++)
          s += element(memory + START_P, FOR_P(A_ALONG_K, B_ALONG_K), E5M2_A, row, l) *
               element(memory + START_Q, FOR_Q(A_ALONG_K, B_ALONG_K), E5M2_B, column, l);
        ((float *)sum)[i] += s;
      }
    }
#if SCALES
    for (int i = 0; i < SETS * BN / 2; i++) {
      const INDEX row = m + line + next_set * (i / (BN / 2)) + next_row * (i % 4 / 2);
      const INDEX column = n + pair + i % (BN / 2) / 4 * 8 + i % 2;
      ((float *)sum)[i] = SCALED(((float *)sum)[i], min(row, p->m - 1), min(column, p->n - 1));
    }
#endif
#if REGISTERS
    for (int j = 0; j < BN / 8; j++) {
      float4 sets[SETS];
      for (int i = 0; i < SETS; i++) sets[i] = sum[i][0][j];
      store_rows(sets, FOR_P(m, n) + line, FOR_Q(m, n) + pair + 8 * j, &tile, STORE_VALUES);
    }
#else
    for (int i = 0; i < SETS; i++)
      store_sums(sum[i], m + own_p + 64 * i + 16 * (warp.number % 4), n + own_q, &tile, &warp, HELD_OF(0)
                 PANELS_OF(&both->c) STORE_VALUES);
#endif
  }
}
#endif
