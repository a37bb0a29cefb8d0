// SPDX-License-Identifier: MIT
// Convolutions on CPUs of images whose channels lie side by side, and so do the result's: MR points at a time read
// their windows where they lie, a tap's channels after the other's, and are multiplied by NR rows of the weights, which
// come in panels, [m / NR][k][NR]. A work-group is one work-item, which computes tile_m rows (channels) of tile_n
// points. The host also defines
//   MR, NR         points and channels held in registers      POINTS, TAPS   the most of a tile
//   ACTIVE         0 where ACTIVATE(x) is x      ROUNDS   1: C is bfloat16, of pairs
//   BFLOAT16_DOT   where elements of the weights and the image are pairs of bfloat16 (lib/bfloat16_dot.clh)
// Points outside the image read the weights' last elements, behind the panels, which are zeros.
#define VEC float16
#define ACTIVATED VEC
#include "gemm/operands.clh"
#define DIRECT (!RESIDUAL && !ACTIVE)
#include "lib/bfloat16_dot.clh"
#include "lib/vectors.clh"
#if ROUNDS
#define RESULT(v) ROUND_TO_BFLOAT16(v)
#else
#define RESULT(v) (v)
#endif

#define LOAD_COLUMNS(tag, from, step, count)                                   \
  T each[16] = {0};                                                            \
  NOUNROLL for (int k = 0; k < count; k++) each[k] = LOAD(tag, from, k * step); \
  v = vload16(0, each);

// Where a block's results go, and what they are made of: columns of the addend, none where beta is 0.
typedef struct {
  __global STORAGE(TC) *c;
  __global const STORAGE(TD) *d;
  INDEX step;
  T alpha, beta;
} Output;

inline VEC load_addend(const Output *o, int column, int count) {
  VEC v = 0;
  if (o->beta == 0) return v;
  __global const STORAGE(TD) *from = o->d + column * o->step;
  LOAD_COLUMNS(TD, from, o->step, count)
  return v;
}

inline VEC load_residual(__global const STORAGE(TC) *from, int count) {
  VEC v;
  if (count == 16) v = LOAD16(TC, from);
  else {
    LOAD_COLUMNS(TC, from, 1, count)
  }
  return v;
}

// The sums of MR points, of which `last` is the last one there is, and 16 * WIDTH rows of a panel. DIRECT: these are
// stored as results where that is asked for; with an activation in it, compilers would take many times as long.
#if DIRECT
#define STORE_RESULTS(WIDTH)                                                                                   \
  if (direct) {                                                                                                \
    const T alpha = o->alpha, beta = o->beta;                                                                  \
    VEC addend[WIDTH];                                                                                         \
    for (int j = 0; j < WIDTH; j++) addend[j] = load_addend(o, 16 * j, 16);                                    \
    _Pragma("unroll") for (int i = 0; i < MR; i++) {                                                           \
      if (i > last) break;                                                                                     \
      __global STORAGE(TC) *c = o->c + points[i].y;                                                            \
      _Pragma("unroll") for (int j = 0; j < WIDTH; j++) vstore16(RESULT(FINISH(acc[i][j], addend[j])), j, c);  \
    }                                                                                                          \
    return;                                                                                                    \
  }
#else
#define STORE_RESULTS(WIDTH)
#endif
#define DEFINE_MULTIPLY(name, WIDTH)                                                                           \
  inline void name(__global const T *x, __global const T *w, __global const T *zeros, __local const Place *points, \
                   int last, __local const Place *taps, int number, int channels, bool direct,                 \
                   const Output *o, __local T *sums, const Params *p) {                                        \
    VEC acc[MR][WIDTH];                                                                                        \
    _Pragma("unroll") for (int i = 0; i < MR; i++)                                                             \
      _Pragma("unroll") for (int j = 0; j < WIDTH; j++) acc[i][j] = (VEC)(0);                                  \
    for (int t = 0; t < number; t++) {                                                                         \
      __global const T *row[MR];                                                                               \
      _Pragma("unroll") for (int i = 0; i < MR; i++) {                                                         \
        const Place point = points[min(i, last)];                                                              \
        row[i] = inside(point, taps[t], p) ? x + point.x + taps[t].x : zeros;                                  \
      }                                                                                                        \
      for (int l = 0; l < channels; l++, w += NR) {                                                            \
        VEC bv[WIDTH];                                                                                         \
        _Pragma("unroll") for (int j = 0; j < WIDTH; j++) bv[j] = vload16(j, w);                               \
        _Pragma("unroll") for (int i = 0; i < MR; i++) {                                                       \
          const VEC av = (VEC)(row[i][l]);                                                                     \
          _Pragma("unroll") for (int j = 0; j < WIDTH; j++) acc[i][j] = ADD_PRODUCTS(acc[i][j], av, bv[j]);    \
        }                                                                                                      \
      }                                                                                                        \
    }                                                                                                          \
    STORE_RESULTS(WIDTH)                                                                                       \
    _Pragma("unroll") for (int i = 0; i < MR; i++)                                                             \
      _Pragma("unroll") for (int j = 0; j < WIDTH; j++) vstore16(acc[i][j], j, sums + i * NR);                 \
  }
DEFINE_MULTIPLY(multiply, (NR / 16))
#if NR > 32
DEFINE_MULTIPLY(multiply_two, 2)
#endif
#if NR > 16
DEFINE_MULTIPLY(multiply_one, 1)
#endif

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void gemm_points(GEMM_ARGUMENTS) {
  const Params *p = &params;
  __local Place points[POINTS], taps[TAPS];
  __local T sums[MR * NR] __attribute__((aligned(64)));
  const Tile tile = tile_of(get_group_id(0), p);
  const INDEX m0 = tile.m * p->tile_m, n0 = tile.n * p->tile_n;
  const int rows = (int)min(p->tile_m, p->m - m0), columns = (int)min(p->tile_n, p->n - n0);
  const int channels = (int)p->channels.size, number = (int)(p->k / p->channels.size);
  __global const T *W = CONST_POINTER(STORAGE(TA), a), *X = CONST_POINTER(STORAGE(TB), b);
  __global const T *zeros = W + (p->m + NR - 1) / NR * NR * p->k;
  Output output;
  output.alpha = alpha, output.beta = beta, output.step = p->d_m;
#if RESIDUAL
  __global const STORAGE(TC) *E = CONST_POINTER(STORAGE(TC), e) + m0;
#endif
  for (int i = 0; i < columns; i++) points[i] = place_point(n0 + i, p);
  for (int t = 0; t < number; t++) taps[t] = place_tap(t * p->channels.size, p);
  for (int j = 0; j < rows; j += NR) {
    const int width = min(NR, rows - j);
    const bool direct = DIRECT && width % 16 == 0;
    __global const T *panel = W + (m0 + j) * p->k;
    output.c = POINTER(STORAGE(TC), c) + m0 + j;
    output.d = CONST_POINTER(STORAGE(TD), d) + (m0 + j) * p->d_m;
    for (int i = 0; i < columns; i += MR) {
      __local const Place *from = points + i;
      const int last = columns - i - 1;
#if NR > 16
      if (width <= 16) multiply_one(X, panel, zeros, from, last, taps, number, channels, direct, &output, sums, p);
      else
#endif
#if NR > 32
      if (width <= 32) multiply_two(X, panel, zeros, from, last, taps, number, channels, direct, &output, sums, p);
      else
#endif
        multiply(X, panel, zeros, from, last, taps, number, channels, direct, &output, sums, p);
      if (direct) continue;
      NOUNROLL for (int k = 0; k < width; k += 16) {
        const int count = min(16, width - k);
        const VEC addend = load_addend(&output, k, count);
        NOUNROLL for (int r = 0; r <= min(last, MR - 1); r++) {
          const VEC sum = vload16(0, sums + r * NR + k);
          const INDEX at = from[r].y + k;
#if RESIDUAL
          const VEC residual = load_residual(E + j + at, count);
#endif
          STORAGE(TC) each[16];
          if (count == 16) vstore16(RESULT(FINISH(sum, addend)), 0, output.c + at);
          else {
            vstore16(RESULT(FINISH(sum, addend)), 0, each);
            NOUNROLL for (int v = 0; v < count; v++) output.c[at + v] = each[v];
          }
        }
      }
    }
  }
}
