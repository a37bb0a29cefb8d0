// SPDX-License-Identifier: MIT
// Products by a matrix that stays the same, on CPUs: C = A B of rows of A along k, with B in panels of NR columns,
// [n / NR][k][NR], zeros behind the last one. A work-group is one work-item, which computes a tile. The host defines
//   T, VEC     type, vector of 16      MR, NR   rows and columns held in registers
//   SUMS       elements of a tile that sums of several slices need at most
//   RESIDUAL   1: `e` lies as C does   ACTIVATE(x0)
#define ACTIVATED VEC
#define NOUNROLL _Pragma("nounroll")
#include "lib/types.clh"
#include "lib/activations.clh"
#include "lib/vec16.clh"
#include "lib/prefetch.clh"

// Mirrored by gemm/cores/constant.cpp.
typedef struct {
  long m, n, k, a_m, c_m, d_m;
  long slice, tile_m, tile_panels, tiles_m, tiles_n;
} Shape;

// Where a block's results go, and what they are made of: columns of C, of the addend, of the residual.
typedef struct {
  __global T *c;
  __global const T *d, *e;
  int rows, columns;
  T alpha, beta;
} Output;

inline VEC load_columns(__global const T *from, int count) {
  return count >= 16 ? vload16(0, from) : load_some(from, count);
}

#if RESIDUAL
#define ADD_RESIDUAL(sum, at, load) sum += load(o->e + (at))
#else
#define ADD_RESIDUAL(sum, at, load)
#endif
#define LOAD_WHOLE(from) vload16(0, from)
#define LOAD_COLUMNS(from) load_columns(from, count)

// Stores the results of a block's sums. Not unrolled: compilers would take many times as long.
inline void finish(__local const T *sums, const Output *o, const Shape *s) {
  NOUNROLL for (int i = 0; i < o->rows; i++, sums += NR) {
    NOUNROLL for (int j = 0; j < o->columns; j += 16) {
      const int count = o->columns - j;
      VEC sum = vload16(0, sums + j) * o->alpha;
      if (o->d) sum = fma(load_columns(o->d + i * s->d_m + j, count), (VEC)(o->beta), sum);
      ADD_RESIDUAL(sum, i * s->c_m + j, LOAD_COLUMNS);
      const VEC result = ACTIVATE(sum);
      __global T *to = o->c + i * s->c_m + j;
      if (count >= 16) vstore16(result, 0, to);
      else store_some(result, to, count);
    }
  }
}

// c (+)= a b for MR rows, of which `last` is the last one of the tile, and 16 * WIDTH columns of a panel over k; `direct`:
// stores the results, whole vectors, instead. On the way, brings a part of the next panel into the cache. A slice has sums
// of its own, which loses less than one over all of k.
#define DEFINE_MULTIPLY(name, WIDTH)                                                                        \
  inline void name(__global const T *a, int last, __global const T *b, __global const T *next, int k,       \
                   __local T *c, bool first, bool direct, const Output *o, const Shape *s) {                \
    __global const T *row[MR];                                                                              \
    _Pragma("unroll") for (int i = 0; i < MR; i++) row[i] = a + min(i, last) * s->a_m;                      \
    VEC acc[MR][WIDTH];                                                                                     \
    _Pragma("unroll") for (int i = 0; i < MR; i++)                                                          \
      _Pragma("unroll") for (int j = 0; j < WIDTH; j++) acc[i][j] = (VEC)(0);                               \
    for (int l = 0; l < k; l++) {                                                                           \
      PREFETCH(next + l * 16);                                                                              \
      VEC bv[WIDTH];                                                                                        \
      _Pragma("unroll") for (int j = 0; j < WIDTH; j++) bv[j] = vload16(l * (NR / 16) + j, b);              \
      _Pragma("unroll") for (int i = 0; i < MR; i++) {                                                      \
        const VEC av = (VEC)(row[i][l]);                                                                    \
        _Pragma("unroll") for (int j = 0; j < WIDTH; j++) acc[i][j] = fma(av, bv[j], acc[i][j]);            \
      }                                                                                                     \
    }                                                                                                       \
    if (direct) {                                                                                           \
      _Pragma("unroll") for (int i = 0; i < MR; i++) {                                                      \
        if (i > last) break;                                                                                \
        _Pragma("unroll") for (int j = 0; j < WIDTH; j++) {                                                 \
          VEC sum = acc[i][j] * o->alpha;                                                                   \
          if (o->d) sum = fma(vload16(j, o->d + i * s->d_m), (VEC)(o->beta), sum);                          \
          ADD_RESIDUAL(sum, i * s->c_m + j * 16, LOAD_WHOLE);                                               \
          vstore16(ACTIVATE(sum), j, o->c + i * s->c_m);                                                    \
        }                                                                                                   \
      }                                                                                                     \
      return;                                                                                               \
    }                                                                                                       \
    _Pragma("unroll") for (int i = 0; i < MR; i++)                                                          \
      _Pragma("unroll") for (int j = 0; j < WIDTH; j++)                                                     \
        vstore16(first ? acc[i][j] : acc[i][j] + vload16(j, c + i * NR), j, c + i * NR);                    \
  }
DEFINE_MULTIPLY(multiply, (NR / 16))
#if NR > 32
DEFINE_MULTIPLY(multiply_two, 2)
#endif
#if NR > 16
DEFINE_MULTIPLY(multiply_one, 1)
#endif

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void gemm_constant(
    CONST_GLOBAL(T, a), CONST_GLOBAL(T, b), GLOBAL(T, c), CONST_GLOBAL(T, d), CONST_GLOBAL(T, e), const int added,
    const T alpha, const T beta, const Shape shape) {
  const Shape *s = &shape;
  __local T sums[SUMS] __attribute__((aligned(64)));
  const long m0 = get_group_id(0) / s->tiles_n * s->tile_m, p0 = get_group_id(0) % s->tiles_n * s->tile_panels;
  const int rows = (int)min(s->tile_m, s->m - m0), panels = (int)min(s->tile_panels, (s->n + NR - 1) / NR - p0);
  __global const T *A = CONST_POINTER(T, a) + m0 * s->a_m, *B = CONST_POINTER(T, b) + p0 * s->k * NR;
  __global T *C = POINTER(T, c) + m0 * s->c_m + p0 * NR;
  __global const T *D = CONST_POINTER(T, d) + m0 * s->d_m + p0 * NR;
#if RESIDUAL
  __global const T *E = CONST_POINTER(T, e) + m0 * s->c_m + p0 * NR;
#endif
  Output o;
  o.alpha = alpha, o.beta = beta;
  const bool whole = s->slice >= s->k;
  for (long k0 = 0; k0 < s->k; k0 += s->slice) {
    const int depth = (int)min(s->slice, s->k - k0);
    const bool first = k0 == 0, final = k0 + depth == s->k;
    for (int j = 0; j < panels; j++) {
      __global const T *panel = B + (j * s->k + k0) * NR;
      __global const T *after = j + 1 < panels ? panel + s->k * NR : B + (k0 + depth) * NR;
      o.columns = (int)min((long)NR, s->n - (p0 + j) * NR);
      for (int i = 0; i < rows; i += MR) {
        // The first blocks fetch what comes next, as much of it each as 16 columns are.
        const int part = i / MR;
        __global const T *next = part < NR / 16 ? after + part * depth * 16 : panel;
        __local T *c = whole ? sums : sums + (j * s->tile_m + i) * NR;
        __global const T *from = A + i * s->a_m + k0;
        const bool direct = first && final && o.columns % 16 == 0;
        o.rows = min(MR, rows - i);
        o.c = C + i * s->c_m + j * NR, o.d = added ? D + i * s->d_m + j * NR : 0;
#if RESIDUAL
        o.e = E + i * s->c_m + j * NR;
#endif
#if NR > 16
        if (o.columns <= 16) multiply_one(from, rows - i - 1, panel, next, depth, c, first, direct, &o, s);
        else
#endif
#if NR > 32
        if (o.columns <= 32) multiply_two(from, rows - i - 1, panel, next, depth, c, first, direct, &o, s);
        else
#endif
          multiply(from, rows - i - 1, panel, next, depth, c, first, direct, &o, s);
        if (final && !direct) finish(c, &o, s);
      }
    }
  }
}
