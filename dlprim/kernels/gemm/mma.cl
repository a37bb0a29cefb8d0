// SPDX-License-Identifier: MIT
// Core for matrix units (float32 sums): a work-group computes BM x BN of C, a warp WM x WN of it. Slices of A and B, BK
// deep, travel through STAGES local buffers by asynchronous copies. The host also defines
//   BYTES       2 or 4, of an element
//   PASSES      float32 only. 1: elements are rounded to tf32. 3: they are split into two tf32 numbers each, of whose
//               products all but the smallest are summed, which keeps float32's accuracy
//   VA, VB      up to 16 / BYTES: elements that lie side by side, aligned, along the fast direction of A and B
//   A_ALONG_K, B_ALONG_K   that direction is k
//   TRANSPOSED  C is contiguous along m: the matrix unit computes the transpose
//   VC          see gemm/store.clh
//   BOTH        see gemm/scatter.clh
#include "gemm/operands.clh"
#include "gemm/places.clh"
#include "lib/nvidia.clh"

#define GROUP (32 * (BM / WM) * (BN / WN))
#define CHUNK (16 / BYTES)  // elements
#define STEPS (BK / (2 * CHUNK))
#define SLICE ((BM + BN) * BK)  // elements
#if BYTES == 4
typedef uint Element;
#else
typedef ushort Element;
#endif

// A slice lies in local memory as it does in global memory: rows of chunks of 16 bytes in the fast direction. Chunks
// change places within a row so that what a warp reads at once falls into different banks: the same column of 8 rows
// or, of float32 across k (ACROSS), two columns of 4 rows.
#define ROWS_A (A_ALONG_K ? BM : BK)
#define ROWS_B (B_ALONG_K ? BN : BK)
#define CHUNKS_A ((A_ALONG_K ? BK : BM) / CHUNK)
#define CHUNKS_B ((B_ALONG_K ? BK : BN) / CHUNK)
#define LOADS_A (ROWS_A * CHUNKS_A / GROUP)
#define LOADS_B (ROWS_B * CHUNKS_B / GROUP)
#define TURN(row, chunks) ((chunks) >= 8 ? (row) & 7 : (chunks) >= 4 ? ((row) >> 1) & 3 : ((row) >> 2) & 1)
#define AT(row, chunk, chunks) (CHUNK * ((row) * (chunks) + ((chunk) ^ TURN(row, chunks))))
#define AT_ACROSS(row, chunk, chunks) (CHUNK * ((row) * (chunks) + ((chunk) ^ (2 * ((row) & 3)))))
#define AT_A(row, chunk) (BYTES == 4 && !A_ALONG_K ? AT_ACROSS(row, chunk, CHUNKS_A) : AT(row, chunk, CHUNKS_A))
#define AT_B(row, chunk) (BYTES == 4 && !B_ALONG_K ? AT_ACROSS(row, chunk, CHUNKS_B) : AT(row, chunk, CHUNKS_B))

// Visits a work-item's share of a slice of X at k0, in pieces of VX elements.
#define EACH_PIECE(X, k0, VISIT)                                                                            \
  do {                                                                                                      \
    Place along[CHUNK / V##X];                                                                              \
    if (X##_ALONG_K)                                                                                        \
      UNROLL for (int v = 0; v < CHUNK / V##X; v++) along[v] = PLACE_K##X((k0) + CHUNK * chunk_##X + v * V##X); \
    UNROLL for (int e = 0; e < LOADS_##X; e++) {                                                            \
      const int row = row_##X + e * (GROUP / CHUNKS_##X);                                                   \
      const Place across = X##_ALONG_K ? flat(0) : PLACE_K##X((k0) + row);                                  \
      UNROLL for (int v = 0; v < CHUNK / V##X; v++) {                                                       \
        const Place at_k = X##_ALONG_K ? along[v] : across, at_r = fixed_##X[X##_ALONG_K ? e : v];          \
        const INDEX k = (k0) + (X##_ALONG_K ? CHUNK * chunk_##X + v * V##X : row);                          \
        const bool valid = k < k_end && INSIDE_##X(at_r, at_k);                                             \
        VISIT(X, X + (at_k.x + at_r.x));                                                                    \
      }                                                                                                     \
    }                                                                                                       \
  } while (0)
#define COPY(X, from) copy_async(slice_##X + AT_##X(row, chunk_##X) + v * V##X, from, BYTES * V##X, valid)
// Pieces of 2 bytes are too small for that and go through registers, one slice ahead: they start with slice -1.
#define BY_REGISTERS(X) (BYTES * V##X < 4)
#define FETCH(X, from) next_##X[e][v % CHUNK] = load_valid((__global const ushort *)(from), valid)
#define KEEP(X)                                                                                              \
  UNROLL for (int e = 0; e < LOADS_##X; e++) {                                                               \
    const Element *v = next_##X[e];                                                                          \
    *(__local ushort8 *)(slice_##X + AT_##X(row_##X + e * (GROUP / CHUNKS_##X), chunk_##X)) =                \
        (ushort8)(v[0], v[1], v[2], v[3], v[4 % CHUNK], v[5 % CHUNK], v[6 % CHUNK], v[7 % CHUNK]);           \
  }
#define ISSUE_OPERAND(X, slice)                                       \
  if (!BY_REGISTERS(X)) {                                             \
    if ((slice) >= 0) EACH_PIECE(X, k_begin + (slice) * BK, COPY);    \
  } else {                                                            \
    KEEP(X)                                                           \
    EACH_PIECE(X, k_begin + ((slice) + 1) * BK, FETCH);               \
  }
#define ISSUE(slice, stage)                                       \
  {                                                               \
    __local Element *slice_A = stage, *slice_B = stage + BM * BK; \
    ISSUE_OPERAND(A, slice)                                       \
    ISSUE_OPERAND(B, slice)                                       \
  }

#include "gemm/transposed.clh"
#define P_ALONG_K FOR_P(A_ALONG_K, B_ALONG_K)
#define Q_ALONG_K FOR_Q(A_ALONG_K, B_ALONG_K)
#define CHUNKS_P FOR_P(CHUNKS_A, CHUNKS_B)
#define CHUNKS_Q FOR_Q(CHUNKS_A, CHUNKS_B)
#define START_P FOR_P(0, BM * BK)
#define START_Q FOR_Q(0, BM * BK)
#if BOTH
#include "gemm/scatter.clh"
#else
#include "gemm/store.clh"
#endif

#define LOAD_P(i, stage, step)                                                                              \
  ps[i] = P_ALONG_K ? load_matrices(stage + START_P + AT(16 * i, 0, CHUNKS_P) +                             \
                                        AT(p_warp + near, 2 * (step) + half_warp, CHUNKS_P), &warp)         \
                    : load_across(stage + START_P, step, p_warp + 16 * i, CHUNKS_P, true, &warp)
#define LOAD_Q(stage, step)                                                                                 \
  UNROLL for (int j = 0; j < WQ / 16; j++)                                                                  \
    q_next[j] = Q_ALONG_K ? load_matrices(stage + START_Q + AT(16 * j, 0, CHUNKS_Q) +                       \
                                              AT(q_warp + far, 2 * (step) + other, CHUNKS_Q), &warp)        \
                          : load_across(stage + START_Q, step, q_warp + 16 * j, CHUNKS_Q, false, &warp)

// 16 of a slice's columns across k as the fragment of an operand that gives rows (or columns) of the product.
inline uint4 load_across(const __local Element *slice, int step, int first, int chunks, bool rows, const Warp *warp) {
#if BYTES == 4
  const int k = warp->lane % 4, column = first + warp->lane / 4;
  const int at = AT_ACROSS(k, column / 4, chunks) + column % 4, right = at ^ 8;  // 8 columns on
  slice += AT_ACROSS(8 * step, 0, chunks);
  const uint low = slice[at], low_right = slice[right];
  slice += AT_ACROSS(4, 0, chunks);
  const uint high = slice[at], high_right = slice[right];
  return rows ? (uint4)(low, low_right, high, high_right) : (uint4)(low, high, low_right, high_right);
#else
  const int half_warp = warp->lane >> 4, other = (warp->lane >> 3) & 1;
  const int k = (warp->lane & 7) + 8 * (rows ? half_warp : other);
  slice += AT(16 * step, 0, chunks);
  return load_matrices_turned(slice + AT(k, first / 8 + (rows ? other : half_warp), chunks), warp);
#endif
}

#define PAIR(q, j) ((j) % 2 ? (q)[(j) / 2].zw : (q)[(j) / 2].xy)
// Multiplies the fragments of a step; those of the next, from `stage`, take their place as soon as they are used.
#define BEGIN_STEP(stage, step) \
  PREPARE                       \
  LOAD_Q(stage, step);          \
  MULTIPLY_ROW(0)               \
  LOAD_P(0, stage, step);
#define END_STEP(stage, step)                \
  UNROLL for (int i = 1; i < WP / 16; i++) { \
    MULTIPLY_ROW(i)                          \
    LOAD_P(i, stage, step);                  \
  }                                          \
  UNROLL for (int j = 0; j < WQ / 16; j++) qs[j] = q_next[j];
#define RUN_STEP(stage, step) \
  {                           \
    uint4 q_next[WQ / 16];    \
    BEGIN_STEP(stage, step)   \
    END_STEP(stage, step)     \
  }
#define EACH_COLUMN UNROLL for (int j = 0; j < WQ / 8; j++)
#if BYTES == 2
#define PREPARE
#define MULTIPLY_ROW(i) EACH_COLUMN CONCAT(multiply_, TA)(&sum[i][j], ps[i], PAIR(qs, j), &warp);
#elif PASSES == 1
#define PREPARE UNROLL for (int j = 0; j < WQ / 16; j++) qs[j] = round_tf32(qs[j]);
#define MULTIPLY_ROW(i)              \
  const uint4 a = round_tf32(ps[i]);       \
  EACH_COLUMN multiply_tf32(&sum[i][j], a, PAIR(qs, j), &warp);
#else
// What the matrix unit adds is truncated, so that it adds 8 large products only; float32 additions do the rest. The
// small products are less than a thousandth of that.
#define PREPARE                            \
  uint4 q_small[WQ / 16];                        \
  UNROLL for (int j = 0; j < WQ / 16; j++) {     \
    q_small[j] = small_part(qs[j]);        \
    qs[j] = big_part(qs[j]);         \
  }
#define MULTIPLY_ROW(i)                                                       \
  const uint4 big = big_part(ps[i]), small = small_part(ps[i]);                     \
  float4 part[WQ / 8];                                                              \
  EACH_COLUMN part[j] = product_tf32(big, PAIR(qs, j), &warp);                \
  EACH_COLUMN multiply_tf32(&rest[i][j], small, PAIR(qs, j), &warp);          \
  EACH_COLUMN multiply_tf32(&rest[i][j], big, PAIR(q_small, j), &warp);             \
  EACH_COLUMN sum[i][j] += part[j];
#endif

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void gemm_mma(GEMM_ARGUMENTS) {
  const Params *p = &params;
  __local Element tiles[STAGES * SLICE] __attribute__((aligned(128)));
  WARPS_MEMORY(shared, GROUP / 32);
  const Warp warp = WARP(shared);
  const int item = get_local_id(0);
  EACH_PART(part) {
    const Tile tile = part.tile;
    const INDEX m0 = tile.m * BM, n0 = tile.n * BN, k_begin = part.k_begin, k_end = part.k_end;
    __global const Element *A = (__global const Element *)CONST_POINTER(STORAGE(TA), a) + tile.batch * p->a_batch;
    __global const Element *B = (__global const Element *)CONST_POINTER(STORAGE(TB), b) + tile.batch * p->b_batch;

    // What stays the same for a work-item while k advances. Rows and columns past the end repeat the last.
    const int chunk_A = item % CHUNKS_A, row_A = item / CHUNKS_A, chunk_B = item % CHUNKS_B, row_B = item / CHUNKS_B;
    Place fixed_A[A_ALONG_K ? LOADS_A : CHUNK / VA], fixed_B[B_ALONG_K ? LOADS_B : CHUNK / VB];
    UNROLL for (int e = 0; e < (A_ALONG_K ? LOADS_A : CHUNK / VA); e++)
      fixed_A[e] = PLACE_RA(A_ALONG_K ? min(m0 + row_A + e * (GROUP / CHUNKS_A), p->m - 1)
                                      : min(m0 + CHUNK * chunk_A + e * VA, p->m - VA));
#if MODE == 1 && !B_ALONG_K && CHUNK / VB >= 4
    // Work-items share many points: each is found once.
    __local Place *points = (__local Place *)tiles;
    for (int n = item; n < BN; n += GROUP) points[n] = PLACE_RB(min(n0 + n, p->n - 1));
    barrier(CLK_LOCAL_MEM_FENCE);
    UNROLL for (int e = 0; e < CHUNK / VB; e++)
      fixed_B[e] = points[min(CHUNK * chunk_B + e * VB, (int)(p->n - VB - n0))];
    barrier(CLK_LOCAL_MEM_FENCE);
#else
    UNROLL for (int e = 0; e < (B_ALONG_K ? LOADS_B : CHUNK / VB); e++)
      fixed_B[e] = PLACE_RB(B_ALONG_K ? min(n0 + row_B + e * (GROUP / CHUNKS_B), p->n - 1)
                                      : min(n0 + CHUNK * chunk_B + e * VB, p->n - VB));
#endif

    const int near = warp.lane & 15, half_warp = warp.lane >> 4;
    const int far = (warp.lane & 7) + 8 * half_warp, other = (warp.lane >> 3) & 1;
    const int p_warp = warp.number % (BP / WP) * WP, q_warp = warp.number / (BP / WP) * WQ;
    Element next_A[LOADS_A][CHUNK] = {{0}}, next_B[LOADS_B][CHUNK] = {{0}};
    uint4 ps[WP / 16], qs[WQ / 16];
    UNROLL for (int i = 0; i < WP / 16; i++) ps[i] = 0;
    UNROLL for (int j = 0; j < WQ / 16; j++) qs[j] = 0;
    float4 sum[WP / 16][WQ / 8];
    UNROLL for (int i = 0; i < WP / 16; i++)
      UNROLL for (int j = 0; j < WQ / 8; j++) sum[i][j] = 0;
#if PASSES == 3
    float4 rest[WP / 16][WQ / 8];
    UNROLL for (int i = 0; i < WP / 16; i++)
      UNROLL for (int j = 0; j < WQ / 8; j++) rest[i][j] = 0;
#endif

    const int slices = (int)((k_end - k_begin + BK - 1) / BK);
    const int first = BY_REGISTERS(A) || BY_REGISTERS(B) ? -1 : 0;
    __local Element *const last_stage = tiles + (STAGES - 1) * SLICE, *stage = first < 0 ? last_stage : tiles;
    // Rounds before -1 only issue the first slices; round -1 multiplies zeros and loads the first fragments. So what
    // issues, a lot of code, stands here once and builds faster.
    NOUNROLL for (int slice_now = first - STAGES;; slice_now++) {
      // All fragments of this slice are in registers: its buffer can take the slice STAGES ahead.
      __local Element *const free = stage;
      stage = stage == last_stage ? tiles : stage + SLICE;
#if BYTES == 2  // the first products before the copies
      uint4 q_next[WQ / 16];
      if (slice_now >= -1) {
        BEGIN_STEP(stage, 0)
      }
#endif
      if (slice_now < slices - STAGES) ISSUE(slice_now + STAGES, free)
      COMMIT_COPIES();
      if (slice_now >= -1) {
#if BYTES == 2
        END_STEP(stage, 0)
#else
        RUN_STEP(stage, 0)
#endif
        if (slice_now >= slices - 1) break;
        UNROLL for (int step = 1; step < STEPS; step++) RUN_STEP(stage, step)
      }
      WAIT_COPIES(STAGES - 2);
      barrier(CLK_LOCAL_MEM_FENCE);
    }
#if PASSES == 3
    // Where it is not finite, the sum of the large products says all.
    UNROLL for (int i = 0; i < WP / 16; i++)
      UNROLL for (int j = 0; j < WQ / 8; j++) sum[i][j] += select((float4)0, rest[i][j], isfinite(rest[i][j]));
#endif

#if BOTH
    store_sums(sum, (__local float *)tiles, TRANSPOSED ? n0 : m0, TRANSPOSED ? m0 : n0, p_warp, q_warp, &tile, &warp,
               STORE_VALUES);
#else
    store_sums(sum, (TRANSPOSED ? n0 : m0) + p_warp, (TRANSPOSED ? m0 : n0) + q_warp, &tile, &warp, STORE_VALUES);
#endif
#if STREAM
    barrier(CLK_LOCAL_MEM_FENCE);  // before the next part takes the local memory
#endif
  }
}
