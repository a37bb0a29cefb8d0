// SPDX-License-Identifier: MIT
// Core for matrix units of sub-groups (Intel, AMD; 16-bit elements, float32 sums): a work-group computes BM x BN of
// C, a sub-group WM x WN of it. Slices of A and B, BK deep, pass through two local buffers, in which either lies
// along k; the next slice travels to registers while one is multiplied. The host also defines
//   VA, VB      up to 8: elements that lie side by side, aligned, along the fast direction of A and B
//   A_ALONG_K, B_ALONG_K   that direction is k
//   TRANSPOSED  C is contiguous along m: the matrix unit computes the transpose
#include "gemm/operands.clh"
#include "gemm/places.clh"
#include "lib/matrix_units.clh"

#define GROUP (LANES * (BM / WM) * (BN / WN))
#define STRIDE (BK + 8)  // of rows in local memory: 16 bytes more, so that a column of them falls into different banks
#define SIDE_A BM
#define SIDE_B BN
#define PIECES(X) (SIDE_##X * BK / V##X)
#define LOADS(X) ((PIECES(X) + GROUP - 1) / GROUP)
#define PIECE_K(X, piece) (X##_ALONG_K ? (piece) % (BK / V##X) * V##X : (piece) / (SIDE_##X / V##X))
#define PIECE_R(X, piece) (X##_ALONG_K ? (piece) / (BK / V##X) : (piece) % (SIDE_##X / V##X) * V##X)
#define PIECE_TYPE(X) CONCAT(run_, V##X)
#define WHOLE(X) (PIECES(X) % GROUP == 0)

typedef union {
  CONCAT(run_, VA) bits;
  ushort at[VA];
} PieceA;
typedef union {
  CONCAT(run_, VB) bits;
  ushort at[VB];
} PieceB;

// A work-item's pieces of a slice of X: positions across k, which stay the same; from memory to registers; to local
// memory.
#define PLACE_PIECES(X, r0, size)                                                                              \
  EACH(e, LOADS(X))                                                                                            \
    fixed_##X[e] = PLACE_R##X(min((r0) + PIECE_R(X, e * GROUP + item), (size) - (X##_ALONG_K ? 1 : V##X)));
#define FETCH(X, k0)                                                                            \
  EACH(e, LOADS(X)) {                                                                           \
    const INDEX k = (k0) + PIECE_K(X, e * GROUP + item);                                        \
    const Place at_k = PLACE_K##X(k), at_r = fixed_##X[e];                                      \
    const bool valid = k < k_end && INSIDE_##X(at_r, at_k);                                     \
    next_##X[e].bits = *(__global const PIECE_TYPE(X) *)(X + (valid ? at_k.x + at_r.x : 0));    \
    if (!valid) next_##X[e].bits = 0;                                                           \
  }
#define KEEP(X, slice)                                                                          \
  EACH(e, LOADS(X)) {                                                                           \
    const int piece = e * GROUP + item;                                                         \
    __local ushort *to = (slice) + PIECE_R(X, piece) * STRIDE + PIECE_K(X, piece);              \
    if (!WHOLE(X) && piece >= PIECES(X)) break;                                                 \
    if (X##_ALONG_K)                                                                            \
      *(__local PIECE_TYPE(X) *)to = next_##X[e].bits;                                          \
    else                                                                                        \
      EACH(v, V##X) to[v * STRIDE] = next_##X[e].at[v];                                         \
  }

#include "gemm/transposed.clh"
#define START_P FOR_P(0, BM * STRIDE)
#define START_Q FOR_Q(0, BM * STRIDE)

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) MATRIX_SUBGROUPS void gemm_matrix(GEMM_ARGUMENTS) {
  const Params *p = &params;
  __local ushort tiles[2 * (BM + BN) * STRIDE] __attribute__((aligned(128)));
  MATRIX_MEMORY(memory, GROUP / LANES);
  __local float *shared = MATRIX_SHARED(memory);
  const int item = get_local_id(0), lane = MATRIX_LANE, number = MATRIX_NUMBER;
  EACH_PART(part) {
    const Tile tile = part.tile;
    const INDEX m0 = tile.m * BM, n0 = tile.n * BN, k_begin = part.k_begin, k_end = part.k_end;
    __global const ushort *A = (__global const ushort *)CONST_POINTER(STORAGE(TA), a) + tile.batch * p->a_batch;
    __global const ushort *B = (__global const ushort *)CONST_POINTER(STORAGE(TB), b) + tile.batch * p->b_batch;

    // Rows and columns past the end repeat the last.
    Place fixed_A[LOADS(A)], fixed_B[LOADS(B)];
    PieceA next_A[LOADS(A)];
    PieceB next_B[LOADS(B)];
    PLACE_PIECES(A, m0, p->m)
    PLACE_PIECES(B, n0, p->n)
    const int p_first = number % (BP / WP) * WP, q_first = number / (BP / WP) * WQ;
    FragmentSum sum[WP / ROWS][WQ / COLUMNS];
    EACH(i, WP / ROWS)
      EACH(j, WQ / COLUMNS) sum[i][j].bits = 0;

    FETCH(A, k_begin)
    FETCH(B, k_begin)
    int buffer = 0;
    for (INDEX k0 = k_begin; k0 < k_end; k0 += BK) {
      __local ushort *slice = tiles + buffer * ((BM + BN) * STRIDE);
      KEEP(A, slice)
      KEEP(B, slice + BM * STRIDE)
      barrier(CLK_LOCAL_MEM_FENCE);
      FETCH(A, k0 + BK)
      FETCH(B, k0 + BK)
      EACH(step, BK / DEPTH) {
        FragmentQ qs[WQ / COLUMNS];
        EACH(j, WQ / COLUMNS)
          qs[j] = load_q(slice + START_Q + (q_first + j * COLUMNS) * STRIDE + step * DEPTH, STRIDE, lane);
        EACH(i, WP / ROWS) {
          const FragmentP ps = load_p(slice + START_P + (p_first + i * ROWS) * STRIDE + step * DEPTH, STRIDE, lane);
          EACH(j, WQ / COLUMNS) sum[i][j] = CONCAT(matrix_multiply_, TA)(ps, qs[j], sum[i][j], shared, lane);
        }
      }
      buffer = 1 - buffer;
    }
#if STREAM
    barrier(CLK_LOCAL_MEM_FENCE);
#endif

#if SPLIT
    __global T *C = POINTER(T, c) + (tile.batch * p->splits + tile.split) * p->m * p->n;
#else
    __global STORAGE(TC) *C = POINTER(STORAGE(TC), c);
#endif
    EACH(i, WP / ROWS)
      EACH(j, WQ / COLUMNS)
        EACH(e, ELEMENTS_SUM) {
          const INDEX row = (TRANSPOSED ? n0 : m0) + p_first + i * ROWS + SUM_ROW(lane, e);
          const INDEX column = (TRANSPOSED ? m0 : n0) + q_first + j * COLUMNS + SUM_COLUMN(lane, e);
          const INDEX m = TRANSPOSED ? column : row, n = TRANSPOSED ? row : column;
          if (row >= SIZE_P || column >= SIZE_Q) continue;
#if SPLIT
          C[m * p->n + n] = sum[i][j].at[e];
#else
          const INDEX at = tile.batch * p->c_batch + m * p->c_m + c_column(n, p);
#if ADDEND
          const T addend = LOAD(TD, CONST_POINTER(STORAGE(TD), d), tile.batch * p->d_batch + m * p->d_m + n * p->d_n);
#endif
          LOAD_RESIDUAL(at);
          STORE(TC, C, at, FINISH(sum[i][j].at[e], addend));
#endif
        }
  }
}
