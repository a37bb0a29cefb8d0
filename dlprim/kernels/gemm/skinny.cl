// SPDX-License-Identifier: MIT
// Core for matrix units as NVIDIA's and products of few rows, which memory bounds: B is read once, straight from memory
// into registers. A work-group computes 16 R columns of all rows of C; its warps take turns along k. A lane reads 16
// bytes along k of a row of A and of a column of B at a time, which gives it the elements of k in another order than
// matrix units count them: the same order in both operands, so that sums are the same. Elsewhere the products are
// emulated, for tests. The host also defines
//   BYTES   2 or 4, of an element
//   PASSES  of float32, as in mma.cl
//   MT      tiles of 8 rows of C, at most 4: what the rows fill
//   R       tiles of 16 columns
//   U       steps of 64 bytes along k whose loads are under way together
//   WARPS   of a work-group
#include "gemm/operands.clh"
#include "gemm/element.clh"
#include "lib/nvidia.clh"

#define PIECE (16 / BYTES)  // elements
#define STEP (4 * PIECE)
#define DEPTH (STEP * U)
#define SUMS (R * MT * 4)  // of a lane
#if BYTES == 4
typedef uint Element;
#else
typedef ushort Element;
#endif

// sum += a step's half of 16 columns of B by one of 8 rows of A; `rest` of PASSES 3 takes the small products.
#if BYTES == 2
#define MULTIPLY(sum, rest, columns, rows) CONCAT(multiply_, TA)(&sum, columns, rows, &warp);
#elif PASSES == 1
#define MULTIPLY(sum, rest, columns, rows) multiply_tf32(&sum, round_tf32(columns), ROUNDED(rows), &warp);
#define ROUNDED(rows) round_tf32((uint4)(rows, rows)).xy
#else
#define MULTIPLY(sum, rest, columns, rows)                         \
  {                                                                \
    const uint4 both = (uint4)(rows, rows), whole = columns;       \
    const uint2 big = big_part(both).xy;                           \
    sum += product_tf32(big_part(whole), big, &warp);              \
    multiply_tf32(&rest, small_part(whole), big, &warp);           \
    multiply_tf32(&rest, big_part(whole), small_part(both).xy, &warp); \
  }
#endif

inline uint4 load_piece(__global const Element *from, bool valid) {
  return valid ? *(__global const uint4 *)from : (uint4)(0);
}

// Multiplies U steps from k on; INSIDE(k) tells whether a piece from there on is of the product.
#define STEPS(INSIDE)                                                                               \
  do {                                                                                              \
    uint4 b[U][R][2];                                                                               \
    UNROLL for (int u = 0; u < U; u++)                                                              \
      UNROLL for (int r = 0; r < R; r++)                                                            \
        UNROLL for (int h = 0; h < 2; h++) b[u][r][h] = load_piece(B[r][h] + k + STEP * u, INSIDE(k + STEP * u)); \
    uint4 a[U][MT];                                                                                 \
    UNROLL for (int u = 0; u < U; u++)                                                              \
      UNROLL for (int t = 0; t < MT; t++) a[u][t] = load_piece(A[t] + k + STEP * u, INSIDE(k + STEP * u));\
    UNROLL for (int u = 0; u < U; u++)                                                              \
      UNROLL for (int t = 0; t < MT; t++)                                                           \
        UNROLL for (int r = 0; r < R; r++) {                                                        \
          const uint4 above = b[u][r][0], below = b[u][r][1];                                       \
          MULTIPLY(sum[r][t], rest[r][t], (uint4)(above.x, below.x, above.y, below.y), a[u][t].xy)  \
          MULTIPLY(sum[r][t], rest[r][t], (uint4)(above.z, below.z, above.w, below.w), a[u][t].zw)  \
        }                                                                                           \
  } while (0)
#define ALL_INSIDE(k) true
#define SOME_INSIDE(k) ((k) < k_end)

__kernel __attribute__((reqd_work_group_size(32 * WARPS, 1, 1))) void gemm_skinny(GEMM_ARGUMENTS) {
  const Params *p = &params;
  __local float parts[WARPS * SUMS * 32];
  WARPS_MEMORY(shared, WARPS);
  const Warp warp = WARP(shared);
  const Tile tile = tile_of(get_group_id(0), p);
  const int line = warp.lane / 4, item = get_local_id(0);
  const INDEX n0 = tile.n * (16 * R);
  const INDEX k_begin = tile.split * p->k_split, k_end = min(p->k, k_begin + p->k_split);
  __global const Element *A[MT], *B[R][2];  // rows past the last repeat it
  UNROLL for (int t = 0; t < MT; t++)
    A[t] = CONST_POINTER(Element, a) + tile.batch * p->a_batch + min((INDEX)(line + 8 * t), p->m - 1) * p->a_m;
  UNROLL for (int r = 0; r < R; r++)
    UNROLL for (int h = 0; h < 2; h++)
      B[r][h] = CONST_POINTER(Element, b) + tile.batch * p->b_batch + min(n0 + 16 * r + 8 * h + line, p->n - 1) * p->b_n;

  float4 sum[R][MT], rest[R][MT];
  UNROLL for (int r = 0; r < R; r++)
    UNROLL for (int t = 0; t < MT; t++) sum[r][t] = rest[r][t] = 0;
  INDEX from = k_begin, k = k_begin + warp.number * DEPTH + warp.lane % 4 * PIECE;
  for (; from + WARPS * DEPTH <= k_end; from += WARPS * DEPTH, k += WARPS * DEPTH) STEPS(ALL_INSIDE);
  if (from < k_end) STEPS(SOME_INSIDE);

  UNROLL for (int r = 0; r < R; r++)
    UNROLL for (int t = 0; t < MT; t++) {
#if PASSES == 3
      // Where it is not finite, the sum of the large products says all.
      sum[r][t] += select((float4)0, rest[r][t], isfinite(rest[r][t]));
#endif
      __local float *to = parts + (warp.number * SUMS + (r * MT + t) * 4) * 32 + warp.lane;
      to[0] = sum[r][t].x, to[32] = sum[r][t].y, to[64] = sum[r][t].z, to[96] = sum[r][t].w;
    }
  barrier(CLK_LOCAL_MEM_FENCE);
  // Neighbours in a warp take neighbouring columns.
  for (int o = item; o < 16 * R * 8 * MT; o += 32 * WARPS) {
    const int column = o % (16 * R), i = o / (16 * R);
    const INDEX n = n0 + column;
    if (i >= p->m || n >= p->n) continue;
    const int slot = (column / 16 * MT + i / 8) * 4 + column % 16 / 8 * 2 + i % 2, lane = column % 8 * 4 + i % 8 / 2;
    float total = 0;
    for (int w = 0; w < WARPS; w++) total += parts[(w * SUMS + slot) * 32 + lane];
    store_element(i, n, total, &tile, STORE_VALUES);
  }
}
