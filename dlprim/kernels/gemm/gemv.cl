// SPDX-License-Identifier: MIT
// Core for GPUs and products of few rows (a vector by a matrix), which memory bounds: B is read once, in pieces of up
// to 16 bytes. A work-group computes LINES * V columns of all MR rows of C; LANES work-items share the sums along k of
// V neighbouring columns. The host also defines
//   MR          rows of C, at most 8
//   B_ALONG_K   B is read in pieces of VB elements along k, a piece from each of V columns, A in pieces of VA (VB or
//               1); otherwise pieces lie along n and are V = VB wide
//   A_BYTES, B_BYTES   of a piece
//   MORE        products of the same A in this launch besides the first, at most 3, whose operands lie like B; no splits
//   GATED       1: C is GATE(A B) * (A b1) instead, elementwise, for a B that lies along k
#include "gemm/operands.clh"
#include "gemm/element.clh"
#include "lib/warp.clh"

#define GROUP (LANES * LINES)
#define COLUMNS (V * (1 + GATED))  // sums of a row, those of b1 behind the others
#if B_ALONG_K
#define DEPTH VB        // elements along k that a work-item takes at a time
#define PIECES COLUMNS  // loads for that
#else
#define DEPTH 1
#define PIECES 1
#endif
// Bytes of B under way at once, as long as that is no more than 8 pieces; Intel's GPUs have registers for fewer.
#if defined(cl_intel_subgroups) && !defined(CPU_DEVICE)
#define UNDER_WAY 32
#define EACH_ROW(i) _Pragma("unroll 1") for (int i = 0; i < MR; i++)
#else
#define UNDER_WAY 128
#define EACH_ROW(i) EACH(i, MR)
#endif
#define AHEAD \
  (PIECES * B_BYTES >= UNDER_WAY ? 1 : PIECES * B_BYTES * 8 <= UNDER_WAY ? 8 : UNDER_WAY / (PIECES * B_BYTES))
// Lanes that sum up by shuffles, which leaves PARTS sums of a column for local memory.
#if defined(NV_PTX) && B_ALONG_K && SHUFFLES
#define WARP_LANES (LANES < 32 ? LANES : 32)
#else
#define WARP_LANES 1
#endif
#define PARTS (LANES / WARP_LANES)
#ifdef CPU_DEVICE
#define EACH(i, count) _Pragma("nounroll") for (int i = 0; i < (count); i++)  // for tests only: builds faster
#else
#define EACH(i, count) _Pragma("unroll") for (int i = 0; i < (count); i++)
#endif

typedef uchar piece_1;
typedef ushort piece_2;
typedef uint piece_4;
typedef uint2 piece_8;
typedef uint4 piece_16;
typedef union {
  CONCAT(piece_, A_BYTES) bits;
  STORAGE(TA) at[VA];
} PieceA;
typedef union {
  CONCAT(piece_, B_BYTES) bits;
  STORAGE(TB) at[VB];
} PieceB;

// Multiplies `count` pieces along k, LANES * DEPTH apart, from k on; their loads go first.
#define STEPS(count)                                                                                             \
  do {                                                                                                           \
    PieceB b[count][PIECES];                                                                                     \
    EACH(u, count)                                                                                               \
      EACH(j, PIECES)                                                                                            \
        b[u][j].bits = *(__global const CONCAT(piece_, B_BYTES) *)(B[j] + (k + u * (LANES * DEPTH)) * p->b_k);   \
    EACH(u, count)                                                                                               \
      EACH_ROW(i) {                                                                                              \
        PieceA a[DEPTH / VA];                                                                                    \
        EACH(v, DEPTH / VA)                                                                                      \
          a[v].bits = *(__global const CONCAT(piece_, A_BYTES) *)(A + i * p->a_m +                               \
                                                                  (k + u * (LANES * DEPTH) + v * VA) * p->a_k);  \
        EACH(v, DEPTH) {                                                                                         \
          const T x = TO_T(DECODE(TA, a[v / VA].at[v % VA]));                                                    \
          EACH(j, COLUMNS) {                                                                                     \
            const T y = TO_T(DECODE(TB, b[u][j % PIECES].at[B_ALONG_K ? v : j]));                                \
            sum[i][j] += MULTIPLY(x, y);                                                                         \
          }                                                                                                      \
        }                                                                                                        \
      }                                                                                                          \
  } while (0)

// What a launch of several products takes: of each, its first tile and its columns.
#define OPERANDS(i) , CONST_GLOBAL(STORAGE(TB), b##i), GLOBAL(STORAGE(TC), c##i)
#if GATED
#define MORE_ARGUMENTS , CONST_GLOBAL(STORAGE(TB), b1)
#elif MORE == 1
#define MORE_ARGUMENTS OPERANDS(1), const Parts parts
#elif MORE == 2
#define MORE_ARGUMENTS OPERANDS(1) OPERANDS(2), const Parts parts
#elif MORE == 3
#define MORE_ARGUMENTS OPERANDS(1) OPERANDS(2) OPERANDS(3), const Parts parts
#else
#define MORE_ARGUMENTS
#endif
#if MORE
typedef struct { int tile[MORE], n[MORE]; } Parts;
// Goes on as if this product were the only one where the tile is one of its or a later one's.
#define TAKE(i)                                              \
  if (number >= parts.tile[i - 1]) {                         \
    first_b = CONST_POINTER(STORAGE(TB), b##i);              \
    c_memory = c##i##_memory, c_offset = c##i##_offset;      \
    own.n = own.c_m = parts.n[i - 1];                        \
    tile.n = number - parts.tile[i - 1];                     \
  }
#endif

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void gemm_gemv(GEMM_ARGUMENTS MORE_ARGUMENTS) {
  __local T shared[COLUMNS * PARTS * LINES];
  __global const STORAGE(TB) *first_b = CONST_POINTER(STORAGE(TB), b);
#if MORE
  Params own = params;
  const Params *p = &own;
  Tile tile = tile_of(get_group_id(0), p);
  const INDEX number = tile.n;
  TAKE(1)
#if MORE > 1
  TAKE(2)
#endif
#if MORE > 2
  TAKE(3)
#endif
#else
  const Params *p = &params;
  const Tile tile = tile_of(get_group_id(0), p);
#endif
  const int item = get_local_id(0);
  const int lane = B_ALONG_K ? item % LANES : item / LINES, line = B_ALONG_K ? item / LANES : item % LINES;
  const INDEX n0 = tile.n * (LINES * V);
  const INDEX k_begin = tile.split * p->k_split, k_end = min(p->k, k_begin + p->k_split);
  __global const STORAGE(TA) *A = CONST_POINTER(STORAGE(TA), a) + tile.batch * p->a_batch;
  __global const STORAGE(TB) *B[PIECES];  // columns past the last repeat it
  EACH(j, PIECES) {
#if GATED
    if (j == V) first_b = CONST_POINTER(STORAGE(TB), b1);
#endif
    B[j] = first_b + tile.batch * p->b_batch + min(n0 + line * V + j % V, p->n - (COLUMNS / PIECES)) * p->b_n;
  }

  T sum[MR][COLUMNS];
  EACH(i, MR)
    EACH(j, COLUMNS) sum[i][j] = (T)(0);
  INDEX k = k_begin + lane * DEPTH;
  for (; k + (AHEAD - 1) * (LANES * DEPTH) < k_end; k += AHEAD * (LANES * DEPTH)) STEPS(AHEAD);
  for (; k < k_end; k += LANES * DEPTH) STEPS(1);

  EACH(i, MR) {
    EACH(j, COLUMNS) {
      T part = sum[i][j];
#if defined(NV_PTX) && B_ALONG_K && SHUFFLES
      for (int far = WARP_LANES / 2; far > 0; far /= 2) part += shuffle_xor(part, (uint)far);
#endif
      if (lane % WARP_LANES == 0) shared[(j * PARTS + lane / WARP_LANES) * LINES + line] = part;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int half_parts = PARTS / 2; half_parts > 0; half_parts /= 2) {
      if (item < half_parts * LINES)
        EACH(j, COLUMNS) shared[j * (PARTS * LINES) + item] += shared[j * (PARTS * LINES) + item + half_parts * LINES];
      barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (int o = item; o < LINES * V; o += GROUP) {
      const INDEX n = n0 + o;
      if (n >= p->n) break;
      T total = shared[o % V * (PARTS * LINES) + o / V];
#if GATED
      total = GATE(total) * shared[(V + o % V) * (PARTS * LINES) + o / V];
#endif
      store_element(i, n, total, &tile, STORE_VALUES);
    }
    if (i + 1 < MR) barrier(CLK_LOCAL_MEM_FENCE);
  }
}
