// SPDX-License-Identifier: MIT
// Core for matrix units (16-bit types, float32 sums): a work-group computes BM x BN of C, a warp WM x WN of it. Slices of
// A and B, BK deep, travel through STAGES local buffers by asynchronous copies. The host also defines
//   VA, VB      8, 4, 2 or 1: elements that lie side by side, aligned, along the fast direction of A and B
//   A_ALONG_K, B_ALONG_K   that direction is k
//   TURNED      C lies along m: the matrix unit computes the transpose        VC  8 or 1: elements stored at once
#include "gemm_operands.clh"
#include "lib/nvidia.clh"

#define GROUP (32 * (BM / WM) * (BN / WN))
#define STEPS (BK / 16)

// A slice lies in local memory as it does in global memory: rows of chunks of 8 elements in the fast direction. Chunks
// change places within a row so that the same column of 8 rows falls into different banks.
#define ROWS_A (A_ALONG_K ? BM : BK)
#define ROWS_B (B_ALONG_K ? BN : BK)
#define CHUNKS_A ((A_ALONG_K ? BK : BM) / 8)
#define CHUNKS_B ((B_ALONG_K ? BK : BN) / 8)
#define LOADS_A (ROWS_A * CHUNKS_A / GROUP)
#define LOADS_B (ROWS_B * CHUNKS_B / GROUP)
#define AT(row, chunk, chunks) \
  (8 * ((row) * (chunks) + ((chunk) ^ ((chunks) >= 8 ? (row) & 7 : ((row) >> 1) & 3))))

inline Place flat(INDEX x) {
  Place r;
  r.x = x, r.y = 0, r.d = r.h = r.w = 0;
  return r;
}

// Offsets along k and along the other direction of each operand.
#define PLACE_RA(m) flat((m) * p->a_m)
#if MODE == 2
#define PLACE_KA(k) flat(place_point(k, p).y)
#define PLACE_KB(k) place_point(k, p)
#define PLACE_RB(n) place_tap(n, p)
#define INSIDE_B(r, k) inside(k, r, p)
#else
#define PLACE_KA(k) flat((k) * p->a_k)
#if MODE == 1
#define PLACE_KB(k) place_tap(k, p)
#define PLACE_RB(n) place_point(n, p)
#define INSIDE_B(r, k) inside(r, k, p)
#else
#define PLACE_KB(k) flat((k) * p->b_k)
#define PLACE_RB(n) flat((n) * p->b_n)
#define INSIDE_B(r, k) true
#endif
#endif
#define INSIDE_A(r, k) true

// Visits a work-item's share of a slice of X at k0, in pieces of VX elements.
#define EACH_PIECE(X, k0, VISIT)                                                                            \
  do {                                                                                                      \
    Place along[8 / V##X];                                                                                  \
    if (X##_ALONG_K)                                                                                        \
      UNROLL for (int v = 0; v < 8 / V##X; v++) along[v] = PLACE_K##X((k0) + 8 * chunk_##X + v * V##X);     \
    UNROLL for (int e = 0; e < LOADS_##X; e++) {                                                            \
      const int row = row_##X + e * (GROUP / CHUNKS_##X);                                                   \
      const Place across = X##_ALONG_K ? flat(0) : PLACE_K##X((k0) + row);                                  \
      UNROLL for (int v = 0; v < 8 / V##X; v++) {                                                           \
        const Place at_k = X##_ALONG_K ? along[v] : across, at_r = fixed_##X[X##_ALONG_K ? e : v];          \
        const INDEX k = (k0) + (X##_ALONG_K ? 8 * chunk_##X + v * V##X : row);                              \
        const bool valid = k < k_end && INSIDE_##X(at_r, at_k);                                             \
        VISIT(X, (valid ? at_k.x + at_r.x : 0));                                                            \
      }                                                                                                     \
    }                                                                                                       \
  } while (0)
#define COPY(X, at) copy_async(slice_##X + AT(row, chunk_##X, CHUNKS_##X) + v * V##X, X + at, 2 * V##X, valid)
#define FETCH(X, at)                 \
  const ushort value = X[at];        \
  next_##X[e][v % 8] = valid ? value : 0
#define KEEP(X)                                                                                              \
  UNROLL for (int e = 0; e < LOADS_##X; e++) {                                                               \
    const ushort *v = next_##X[e];                                                                           \
    *(__local ushort8 *)(slice_##X + AT(row_##X + e * (GROUP / CHUNKS_##X), chunk_##X, CHUNKS_##X)) =        \
        (ushort8)(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]);                                           \
  }
#define FETCH_SLICE(X, slice) \
  if (V##X == 1) EACH_PIECE(X, k_begin + (slice) * BK, FETCH)
// Single elements go through registers, one slice ahead.
#define ISSUE_OPERAND(X, slice)                                       \
  if (V##X > 1) {                                                     \
    EACH_PIECE(X, k_begin + (slice) * BK, COPY);                      \
  } else {                                                            \
    KEEP(X)                                                           \
    FETCH_SLICE(X, (slice) + 1);                                      \
  }
#define ISSUE(slice, stage)                                                                       \
  do {                                                                                            \
    __local ushort *slice_A = tiles + (stage) * (BM + BN) * BK, *slice_B = slice_A + BM * BK;     \
    ISSUE_OPERAND(A, slice)                                                                       \
    ISSUE_OPERAND(B, slice)                                                                       \
    COMMIT_COPIES();                                                                              \
  } while (0)

// The operand that gives the rows (P) and the columns (Q) of what the matrix unit computes.
#if TURNED
#define P_ALONG_K B_ALONG_K
#define Q_ALONG_K A_ALONG_K
#define CHUNKS_P CHUNKS_B
#define CHUNKS_Q CHUNKS_A
#define START_P (BM * BK)
#define START_Q 0
#define WP WN
#define WQ WM
#define BP BN
#define SIZE_P p->n
#define SIZE_Q p->m
#else
#define P_ALONG_K A_ALONG_K
#define Q_ALONG_K B_ALONG_K
#define CHUNKS_P CHUNKS_A
#define CHUNKS_Q CHUNKS_B
#define START_P 0
#define START_Q (BM * BK)
#define WP WM
#define WQ WN
#define BP BM
#define SIZE_P p->m
#define SIZE_Q p->n
#endif

#define LOAD_FRAGMENTS(to, stage, step)                                                                         \
  do {                                                                                                          \
    const __local ushort *slice = tiles + (stage) * (BM + BN) * BK;                                             \
    UNROLL for (int i = 0; i < WP / 16; i++)                                                                    \
      ps[to][i] = P_ALONG_K                                                                                     \
          ? load_matrices(slice + START_P + AT(p_warp + 16 * i + near, 2 * (step) + half_warp, CHUNKS_P), &warp)     \
          : load_matrices_turned(slice + START_P + AT(16 * (step) + far, p_warp / 8 + 2 * i + other, CHUNKS_P), &warp); \
    UNROLL for (int j = 0; j < WQ / 16; j++)                                                                    \
      qs[to][j] = Q_ALONG_K                                                                                     \
          ? load_matrices(slice + START_Q + AT(q_warp + 16 * j + far, 2 * (step) + other, CHUNKS_Q), &warp)     \
          : load_matrices_turned(slice + START_Q + AT(16 * (step) + near, q_warp / 8 + 2 * j + half_warp, CHUNKS_Q), &warp); \
  } while (0)

#define MULTIPLY_FRAGMENTS(from)                                                                  \
  UNROLL for (int i = 0; i < WP / 16; i++)                                                        \
    UNROLL for (int j = 0; j < WQ / 8; j++)                                                       \
      CONCAT(multiply_, TA)(&sum[i][j], ps[from][i], j % 2 ? qs[from][j / 2].zw : qs[from][j / 2].xy, &warp)

// Four lanes that hold words of four chunks exchange them for one chunk each.
inline uint4 gather_chunk(uint4 w, const Warp *warp) {
  const bool odd = warp->lane & 1, high = warp->lane & 2;
  const uint a = exchange(odd ? w.x : w.y, 1, warp), b = exchange(odd ? w.z : w.w, 1, warp);
  w = odd ? (uint4)(a, w.y, b, w.w) : (uint4)(w.x, a, w.z, b);
  const uint c = exchange(high ? w.x : w.z, 2, warp), d = exchange(high ? w.y : w.w, 2, warp);
  return high ? (uint4)(c, d, w.z, w.w) : (uint4)(w.x, w.y, c, d);
}

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void gemm_mma(GEMM_ARGUMENTS) {
  const Params *p = &params;
  __local ushort tiles[STAGES * (BM + BN) * BK] __attribute__((aligned(128)));
  WARPS_MEMORY(shared, GROUP / 32);
  const Warp warp = WARP(shared);
  const int item = get_local_id(0);
  const Tile tile = tile_of(get_group_id(0), p);
  const INDEX m0 = tile.m * BM, n0 = tile.n * BN;
  const INDEX k_begin = tile.split * p->k_split;
  const INDEX k_end = min(p->k, k_begin + p->k_split);
  __global const ushort *A = CONST_POINTER(ushort, a) + tile.batch * p->a_batch;
  __global const ushort *B = CONST_POINTER(ushort, b) + tile.batch * p->b_batch;

  // What stays the same for a work-item while k advances. Rows and columns past the end repeat the last.
  const int chunk_A = item % CHUNKS_A, row_A = item / CHUNKS_A, chunk_B = item % CHUNKS_B, row_B = item / CHUNKS_B;
  Place fixed_A[A_ALONG_K ? LOADS_A : 8 / VA], fixed_B[B_ALONG_K ? LOADS_B : 8 / VB];
  UNROLL for (int e = 0; e < (A_ALONG_K ? LOADS_A : 8 / VA); e++)
    fixed_A[e] = PLACE_RA(A_ALONG_K ? min(m0 + row_A + e * (GROUP / CHUNKS_A), p->m - 1)
                                    : min(m0 + 8 * chunk_A + e * VA, p->m - VA));
  UNROLL for (int e = 0; e < (B_ALONG_K ? LOADS_B : 8 / VB); e++)
    fixed_B[e] = PLACE_RB(B_ALONG_K ? min(n0 + row_B + e * (GROUP / CHUNKS_B), p->n - 1)
                                    : min(n0 + 8 * chunk_B + e * VB, p->n - VB));

  const int near = warp.lane & 15, half_warp = warp.lane >> 4;
  const int far = (warp.lane & 7) + 8 * half_warp, other = (warp.lane >> 3) & 1;
  const int p_warp = warp.number % (BP / WP) * WP, q_warp = warp.number / (BP / WP) * WQ;
  ushort next_A[LOADS_A][8], next_B[LOADS_B][8];
  uint4 ps[2][WP / 16], qs[2][WQ / 16];
  float4 sum[WP / 16][WQ / 8];
  UNROLL for (int i = 0; i < WP / 16; i++)
    UNROLL for (int j = 0; j < WQ / 8; j++) sum[i][j] = 0;

  FETCH_SLICE(A, 0);
  FETCH_SLICE(B, 0);
  UNROLL for (int s = 0; s < STAGES; s++) ISSUE(s, s);
  WAIT_COPIES(STAGES - 1);
  barrier(CLK_LOCAL_MEM_FENCE);
  LOAD_FRAGMENTS(0, 0, 0);
  int stage = 0;
  const int slices = (int)((k_end - k_begin + BK - 1) / BK);
  for (int slice_now = 0; slice_now < slices; slice_now++) {
    UNROLL for (int step = 0; step < STEPS - 1; step++) {
      LOAD_FRAGMENTS((step + 1) % 2, stage, step + 1);
      MULTIPLY_FRAGMENTS(step % 2);
    }
    // All fragments of this buffer are in registers: it can take the slice STAGES ahead.
    WAIT_COPIES(STAGES - 2);
    barrier(CLK_LOCAL_MEM_FENCE);
    const int free = stage;
    stage = stage + 1 == STAGES ? 0 : stage + 1;
    ISSUE(slice_now + STAGES, free);
    LOAD_FRAGMENTS(0, stage, 0);
    MULTIPLY_FRAGMENTS((STEPS - 1) % 2);
  }
  WAIT_COPIES(0);

#if SPLIT
  __global T *C = POINTER(T, c) + (tile.batch * p->splits + tile.split) * p->m * p->n;
#define C_ROW(m) ((m) * p->n)
#define C_COLUMN(n) (n)
#else
  __global STORAGE(TC) *C = POINTER(STORAGE(TC), c) + tile.batch * p->c_batch;
#define C_ROW(m) ((m) * p->c_m)
#define C_COLUMN(n) c_column(n, p)
#endif
#if ADDEND
  __global const STORAGE(TD) *D = CONST_POINTER(STORAGE(TD), d) + tile.batch * p->d_batch;
#endif
  const INDEX p0 = (TURNED ? n0 : m0) + p_warp + warp.lane / 4, q0 = (TURNED ? m0 : n0) + q_warp;
  const int quad = warp.lane % 4;
  UNROLL for (int i = 0; i < WP / 8; i++) {
    const INDEX row = min(p0 + 8 * i, SIZE_P - 1);
    const INDEX row_at = TURNED ? C_COLUMN(row) : C_ROW(row);
    UNROLL for (int j = 0; j < WQ / 8; j += 4) {
      uint words[4];
      UNROLL for (int e = 0; e < 8; e++) {
        const float4 sums = sum[i / 2][j + e / 2];
        const float value = i % 2 ? (e % 2 ? sums.w : sums.z) : (e % 2 ? sums.y : sums.x);
        const INDEX q = q0 + 8 * (j + e / 2) + 2 * quad + e % 2, column = min(q, SIZE_Q - 1);
#if ADDEND
        const T addend = LOAD(TD, D, (TURNED ? column : row) * p->d_m + (TURNED ? row : column) * p->d_n);
#endif
#if VC == 8
        const uint bits = ENCODE(TC, FINISH(value, addend));
        words[e / 2] = e % 2 ? words[e / 2] | bits << 16 : bits;
#else
        const bool store = p0 + 8 * i < SIZE_P && q < SIZE_Q;
        const INDEX at = row_at + (TURNED ? C_ROW(column) : C_COLUMN(column));
#if SPLIT
        if (store) C[at] = value;
#else
        if (store) STORE(TC, C, at, FINISH(value, addend));
#endif
#endif
      }
#if VC == 8
      const uint4 chunk = gather_chunk((uint4)(words[0], words[1], words[2], words[3]), &warp);
      const INDEX q = q0 + 8 * (j + quad);
      if (p0 + 8 * i < SIZE_P && q < SIZE_Q) *(__global uint4 *)(C + row_at + (TURNED ? C_ROW(q) : C_COLUMN(q))) = chunk;
#endif
    }
  }
}
