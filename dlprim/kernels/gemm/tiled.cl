// SPDX-License-Identifier: MIT
// Core for GPUs: a work-group computes BM x BN of C, a work-item TM x TN of it in registers; A and B pass through two
// local buffers BK deep, the next one being loaded while the current one is used. The host also defines
//   VA, VB      1 or 4: elements a work-item loads at once along the fast direction of A and B
//   FULL_K      every split of k is a multiple of BK
//   A_ALONG_K, B_ALONG_K   that direction is k        VC  1 or 4: elements stored at once along n
#include "gemm/operands.clh"

#define GROUP ((BM / TM) * (BN / TN))
#define PITCH_A (BM + 4)
#define PITCH_B (BN + 4)
#define EARLY (MODE ? 2 : 1)  // rounds before the first product: one to find what moves, one to load
#define LOADS_A (BM * BK / (GROUP * VA))
#define LOADS_B (BN * BK / (GROUP * VB))
#define T4 CONCAT(T, 4)
#define VA_M (A_ALONG_K ? 1 : VA)
#define VB_N (B_ALONG_K ? 1 : VB)

#if A_ALONG_K
#define A_K(i) (((i) % (BK / VA)) * VA)
#define A_M(i) ((i) / (BK / VA))
#else
#define A_K(i) ((i) / (BM / VA))
#define A_M(i) (((i) % (BM / VA)) * VA)
#endif
#if B_ALONG_K
#define B_K(i) (((i) % (BK / VB)) * VB)
#define B_N(i) ((i) / (BK / VB))
#else
#define B_K(i) ((i) / (BN / VB))
#define B_N(i) (((i) % (BN / VB)) * VB)
#endif

#define FETCH4(tag, out, pointer)                                                            \
  do {                                                                                       \
    const CONCAT(vector_, tag) raw = *(__global const CONCAT(vector_, tag) *)(pointer);       \
    out[0] = DECODE(tag, raw.x), out[1] = DECODE(tag, raw.y);                                \
    out[2] = DECODE(tag, raw.z), out[3] = DECODE(tag, raw.w);                                \
  } while (0)
#define vector_f32 float4
#define vector_f16 ushort4
#define vector_bf16 ushort4
#define vector_f64 double4

// Rows and columns of a work-item lie in runs of 4, so that its local reads are 4 wide and free of bank conflicts.
#define RUN(i, lane, lanes) (((i) / 4) * (lanes) * 4 + (lane) * 4 + (i) % 4)

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void gemm_tiled(GEMM_ARGUMENTS) {
  const Params *p = &params;
  __local T As[2][BK * PITCH_A] __attribute__((aligned(16)));
  __local T Bs[2][BK * PITCH_B] __attribute__((aligned(16)));
#if MODE
  __local Place moving[2][BK], fixed[BN];
#endif
  const int item = get_local_id(0);
  EACH_PART(part) {
    const Tile tile = part.tile;
    const INDEX m0 = tile.m * BM, n0 = tile.n * BN, k_begin = part.k_begin, k_end = part.k_end;
    __global const STORAGE(TA) *A = CONST_POINTER(STORAGE(TA), a) + tile.batch * p->a_batch;
    __global const STORAGE(TB) *B = CONST_POINTER(STORAGE(TB), b) + tile.batch * p->b_batch;

    // What stays the same for a work-item while k advances. Rows and columns past the end repeat the last.
    INDEX a_fixed[LOADS_A];
#pragma unroll
    for (int e = 0; e < LOADS_A; e++) {
      const int i = item + e * GROUP;
      a_fixed[e] = min(m0 + A_M(i), p->m - VA_M) * p->a_m;
#if MODE != 2
      a_fixed[e] += A_K(i) * p->a_k;
#endif
    }
#if MODE == 0
    INDEX b_fixed[LOADS_B];
#pragma unroll
    for (int e = 0; e < LOADS_B; e++) {
      const int i = item + e * GROUP;
      b_fixed[e] = min(n0 + B_N(i), p->n - VB_N) * p->b_n + B_K(i) * p->b_k;
    }
#else
    NOUNROLL for (int i = item; i < BN; i += GROUP) {
      const INDEX n = min(n0 + i, p->n - VB_N);
#if MODE == 1
      fixed[i] = place_point(n, p);
#else
      fixed[i] = place_tap(n, p);
#endif
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    Place b_fixed[LOADS_B];
#pragma unroll
    for (int e = 0; e < LOADS_B; e++) b_fixed[e] = fixed[B_N(item + e * GROUP)];
#endif

    T a_next[LOADS_A][VA], b_next[LOADS_B][VB];
    bool a_valid[LOADS_A], b_valid[LOADS_B];

#if MODE == 1
#define PLACE_MOVING(buffer, k0) if (item < BK) moving[buffer][item] = place_tap((k0) + item, p);
#elif MODE == 2
#define PLACE_MOVING(buffer, k0) if (item < BK) moving[buffer][item] = place_point((k0) + item, p);
#else
#define PLACE_MOVING(buffer, k0)
#endif

#if MODE == 2
#define A_AT(e, i, k0) (a_fixed[e] + moving[buffer][A_K(i)].y)
#else
#define A_AT(e, i, k0) (a_fixed[e] + (k0) * p->a_k)
#endif
#if MODE
#define B_AT(e, i, k0) (b_fixed[e].x + moving[buffer][B_K(i)].x)
#if MODE == 1
#define B_INSIDE(e, i) inside(b_fixed[e], moving[buffer][B_K(i)], p)
#else
#define B_INSIDE(e, i) inside(moving[buffer][B_K(i)], b_fixed[e], p)
#endif
#else
#define B_AT(e, i, k0) (b_fixed[e] + (k0) * p->b_k)
#define B_INSIDE(e, i) true
#endif

#if VA == 4
#define LOAD_A(e, at) FETCH4(TA, a_next[e], A + at)
#else
#define LOAD_A(e, at) a_next[e][0] = LOAD(TA, A, at)
#endif
#if VB == 4
#define LOAD_B(e, at) FETCH4(TB, b_next[e], B + at)
#else
#define LOAD_B(e, at) b_next[e][0] = LOAD(TB, B, at)
#endif

// Loads never branch: what lies outside reads the first element and is replaced by 0 when it is stored.
#define LOAD_NEXT(next, k0)                                             \
  do {                                                                  \
    const int buffer = next;                                            \
    _Pragma("unroll") for (int e = 0; e < LOADS_A; e++) {               \
      const int i = item + e * GROUP;                                   \
      a_valid[e] = FULL_K || (k0) + A_K(i) < k_end;                               \
      LOAD_A(e, (a_valid[e] ? A_AT(e, i, k0) : 0));                     \
    }                                                                   \
    _Pragma("unroll") for (int e = 0; e < LOADS_B; e++) {               \
      const int i = item + e * GROUP;                                   \
      b_valid[e] = (FULL_K || (k0) + B_K(i) < k_end) & B_INSIDE(e, i);            \
      LOAD_B(e, (b_valid[e] ? B_AT(e, i, k0) : 0));                     \
    }                                                                   \
  } while (0)

#define A_VALUE(e, v) (a_valid[e] ? a_next[e][v] : 0)
#define B_VALUE(e, v) (b_valid[e] ? b_next[e][v] : 0)

#if VA == 4 && !A_ALONG_K
#define KEEP_A(e, i)                                                \
  *(__local T4 *)(As[buffer] + A_K(i) * PITCH_A + A_M(i)) =       \
      (T4)(A_VALUE(e, 0), A_VALUE(e, 1), A_VALUE(e, 2), A_VALUE(e, 3))
#else
#define KEEP_A(e, i) for (int v = 0; v < VA; v++) As[buffer][(A_K(i) + v) * PITCH_A + A_M(i)] = A_VALUE(e, v)
#endif
#if VB == 4 && !B_ALONG_K
#define KEEP_B(e, i)                                                \
  *(__local T4 *)(Bs[buffer] + B_K(i) * PITCH_B + B_N(i)) =       \
      (T4)(B_VALUE(e, 0), B_VALUE(e, 1), B_VALUE(e, 2), B_VALUE(e, 3))
#else
#define KEEP_B(e, i) for (int v = 0; v < VB; v++) Bs[buffer][(B_K(i) + v) * PITCH_B + B_N(i)] = B_VALUE(e, v)
#endif

#define KEEP_NEXT(next)                                                                    \
  do {                                                                                     \
    const int buffer = next;                                                               \
    _Pragma("unroll") for (int e = 0; e < LOADS_A; e++) { KEEP_A(e, item + e * GROUP); }   \
    _Pragma("unroll") for (int e = 0; e < LOADS_B; e++) { KEEP_B(e, item + e * GROUP); }   \
  } while (0)

    // Lanes of a warp form 8 columns by 4 rows.
    const int columns = BN / TN, rows = BM / TM;
    const int blocks = columns / 8;
    const int column = item % 8 + 8 * ((item / 32) % blocks);
    const int row = (item / 8) % 4 + 4 * (item / (32 * blocks));

    T acc[TM][TN];
#pragma unroll
    for (int i = 0; i < TM; i++)
#pragma unroll
      for (int j = 0; j < TN; j++) acc[i][j] = 0;

    // The compiler sees loads, stores and places once, which takes it less time than copies before the loop.
    int current = 0;
    NOUNROLL for (INDEX k0 = k_begin - EARLY * BK; k0 < k_end; k0 += BK) {
      const bool more = k0 + BK >= k_begin && k0 + BK < k_end;
      if (more) LOAD_NEXT(current ^ 1, k0 + BK);
      PLACE_MOVING(current, k0 + 2 * BK)
      if (k0 >= k_begin) {
        __local const T *a_tile = As[current] + row * 4;
        __local const T *b_tile = Bs[current] + column * 4;
#pragma unroll
        for (int k = 0; k < BK; k++) {
          T av[TM], bv[TN];
#pragma unroll
          for (int i = 0; i < TM; i += 4) {
            const T4 v = *(__local const T4 *)(a_tile + k * PITCH_A + i * rows);
            av[i] = v.x, av[i + 1] = v.y, av[i + 2] = v.z, av[i + 3] = v.w;
          }
#pragma unroll
          for (int j = 0; j < TN; j += 4) {
            const T4 v = *(__local const T4 *)(b_tile + k * PITCH_B + j * columns);
            bv[j] = v.x, bv[j + 1] = v.y, bv[j + 2] = v.z, bv[j + 3] = v.w;
          }
#pragma unroll
          for (int i = 0; i < TM; i++)
#pragma unroll
            for (int j = 0; j < TN; j++) acc[i][j] = fma(av[i], bv[j], acc[i][j]);
        }
      }
      if (more) KEEP_NEXT(current ^ 1);
      barrier(CLK_LOCAL_MEM_FENCE);
      current ^= 1;
    }

#if SPLIT
    __global T *C = POINTER(T, c) + (tile.batch * p->splits + tile.split) * p->m * p->n;
#else
    __global STORAGE(TC) *C = POINTER(STORAGE(TC), c) + tile.batch * p->c_batch;
#if ADDEND
    __global const STORAGE(TD) *D = CONST_POINTER(STORAGE(TD), d) + tile.batch * p->d_batch;
#endif
#endif
#pragma unroll
    for (int j = 0; j < TN; j += VC) {
      const INDEX n = n0 + RUN(j, column, columns);
      if (n >= p->n) continue;
#if SPLIT
      const INDEX at_n = n;
#else
      const INDEX at_n = c_column(n, p);
#endif
#pragma unroll
      for (int i = 0; i < TM; i++) {
        const INDEX m = m0 + RUN(i, row, rows);
        if (m >= p->m) continue;
#if SPLIT
        for (int v = 0; v < VC; v++) C[m * p->n + at_n + v] = acc[i][j + v];
#else
        VALUE(TC) out[VC];
#pragma unroll
        for (int v = 0; v < VC; v++) {
#if ADDEND
          const T addend = LOAD(TD, D, m * p->d_m + (n + v) * p->d_n);
#endif
          LOAD_RESIDUAL(tile.batch * p->c_batch + m * p->c_m + at_n + v);
          out[v] = FINISH(acc[i][j + v], addend);
        }
#if VC == 4
        *(__global CONCAT(vector_, TC) *)(C + m * p->c_m + at_n) =
            (CONCAT(vector_, TC))(ENCODE(TC, out[0]), ENCODE(TC, out[1]), ENCODE(TC, out[2]), ENCODE(TC, out[3]));
#else
        STORE(TC, C, m * p->c_m + at_n, out[0]);
#endif
#endif
      }
    }
  }
}
