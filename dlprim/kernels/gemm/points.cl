// SPDX-License-Identifier: MIT
// Convolutions on CPUs of images whose channels lie side by side, and so do the result's: MR points at a time read
// their windows where they lie, a tap's channels after the other's, and are multiplied by NR rows of the weights, which
// come in panels, [m / NR][k][NR]. A work-group is one work-item, which computes tile_m rows (channels) of tile_n
// points. The host also defines
//   MR, NR         points and channels held in registers      POINTS, TAPS   the most of a tile
//   ACTIVE         0 where ACTIVATE(x) is x      ROUNDS   1: C is bfloat16, of pairs
//   BFLOAT16_DOT   where elements of the weights and the image are pairs of bfloat16 (lib/bfloat16_dot.clh)
//   BYTE_DOT       where they are quads of bytes (lib/byte_dot.clh), the weights' from -128 to 127, the image's from
//                  0 to 255 or, SIGNED 1, as the weights' (a byte v of such an image stands for v + 128). What is
//                  added to the sums, which the rows' scales multiply then, are integers; both come for whole vectors
//                  of rows. ROUNDS 2: C is bytes with the zero point alpha (lib/saturate.clh); 3: C is the sums.
// Points outside the image read the weights' last elements, behind the panels, which are zeros (bytes: the zero point).
#define VEC float16
#define ACTIVATED VEC
#include "gemm/operands.clh"
#define DIRECT (!RESIDUAL && !ACTIVE)
#include "lib/vectors.clh"
#ifdef BYTE_DOT
#include "lib/byte_dot.clh"
#if SIGNED
#define UNSIGNED(quads) ((quads) ^ (int)0x80808080)
#else
#define UNSIGNED(quads) (quads)
#endif
#define ADD_PRODUCTS(sums, a, b) dot_of_bytes(sums, UNSIGNED(a), b)
#if ROUNDS == 3
#define FINISHED(sum, addend, scale) (sum)
#else
#define FINISHED(sum, addend, scale) (convert_float16(sum) * (scale))
#endif
#define WORD int  // of A, B and the sums
#else
#define WORD T
#include "lib/bfloat16_dot.clh"
#define FINISHED(sum, addend, scale) FINISH(sum, addend)
#endif
#define WORDS CONCAT(WORD, 16)
#if ROUNDS == 2
#include "lib/saturate.clh"
#define RESULT(v) SATURATE(v, alpha)
#elif ROUNDS == 1
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
  __global const float *scale;
  INDEX step;
  T alpha, beta;
} Output;

#ifdef BYTE_DOT
#define FIRST(o, column) vload16(0, (o)->d + (column))
#define SCALE(o, column) vload16(0, (o)->scale + (column))
#define LOAD_ADDEND(o, column, count) 0
#else
#define FIRST(o, column) 0
#define SCALE(o, column) 1
#define LOAD_ADDEND(o, column, count) load_addend(o, column, count)
inline VEC load_addend(const Output *o, int column, int count) {
  VEC v = 0;
  if (o->beta == 0) return v;
  __global const STORAGE(TD) *from = o->d + column * o->step;
  if (count == 16 && o->step == 1) v = LOAD16(TD, from);
  else {
    LOAD_COLUMNS(TD, from, o->step, count)
  }
  return v;
}
#endif

#if RESIDUAL
inline VEC load_residual(__global const STORAGE(TC) *from, int count) {
  VEC v;
  if (count == 16) v = LOAD16(TC, from);
  else {
    LOAD_COLUMNS(TC, from, 1, count)
  }
  return v;
}
#endif

// The sums of MR points, of which `last` is the last one there is, and `width` rows of a panel, up to 16 * WIDTH.
// DIRECT: these are stored as results where that is asked for, in whole vectors and a half; with an activation in it,
// compilers would take many times as long.
#if DIRECT
#define COUNT(j, WIDTH) ((j) == (WIDTH)-1 && width % 16 ? 8 : 16)
#define STORE_RESULTS(WIDTH)                                                                                   \
  if (direct) {                                                                                                \
    const T alpha = o->alpha, beta = o->beta;                                                                  \
    VEC addend[WIDTH], scale[WIDTH];                                                                           \
    for (int j = 0; j < WIDTH; j++)                                                                            \
      addend[j] = LOAD_ADDEND(o, 16 * j, COUNT(j, WIDTH)), scale[j] = SCALE(o, 16 * j);                        \
    _Pragma("unroll") for (int i = 0; i < MR; i++) {                                                           \
      if (i > last) break;                                                                                     \
      __global STORAGE(TC) *c = o->c + points[i].y;                                                            \
      _Pragma("unroll") for (int j = 0; j < WIDTH; j++) {                                                      \
        if (COUNT(j, WIDTH) == 16) vstore16(RESULT(FINISHED(acc[i][j], addend[j], scale[j])), j, c);           \
        else vstore8(RESULT(FINISHED(acc[i][j], addend[j], scale[j])).lo, 2 * j, c);                           \
      }                                                                                                        \
    }                                                                                                          \
    return;                                                                                                    \
  }
#else
#define STORE_RESULTS(WIDTH)
#endif
#define DEFINE_MULTIPLY(name, WIDTH)                                                                           \
  inline void name(__global const WORD *x, __global const WORD *w, __global const WORD *zeros,                 \
                   __local const Place *points, int last, __local const Place *taps, int number, int channels, \
                   int width, bool direct, const Output *o, __local WORD *sums, const Params *p) {             \
    WORDS acc[MR][WIDTH];                                                                                      \
    _Pragma("unroll") for (int i = 0; i < MR; i++)                                                             \
      _Pragma("unroll") for (int j = 0; j < WIDTH; j++) acc[i][j] = FIRST(o, 16 * j);                          \
    for (int t = 0; t < number; t++) {                                                                         \
      __global const WORD *row[MR];                                                                            \
      _Pragma("unroll") for (int i = 0; i < MR; i++) {                                                         \
        const Place point = points[min(i, last)];                                                              \
        row[i] = inside(point, taps[t], p) ? x + point.x + taps[t].x : zeros;                                  \
      }                                                                                                        \
      for (int l = 0; l < channels; l++, w += NR) {                                                            \
        WORDS bv[WIDTH];                                                                                       \
        _Pragma("unroll") for (int j = 0; j < WIDTH; j++) bv[j] = vload16(j, w);                               \
        _Pragma("unroll") for (int i = 0; i < MR; i++) {                                                       \
          const WORDS av = (WORDS)(row[i][l]);                                                                 \
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
  __local WORD sums[MR * NR] __attribute__((aligned(64)));
  const Tile tile = tile_of(get_group_id(0), p);
  const INDEX m0 = tile.m * p->tile_m, n0 = tile.n * p->tile_n;
  const int rows = (int)min(p->tile_m, p->m - m0), columns = (int)min(p->tile_n, p->n - n0);
  const int channels = (int)p->channels.size, number = (int)(p->k / p->channels.size);
  __global const WORD *W = CONST_POINTER(WORD, a), *X = CONST_POINTER(WORD, b);
  __global const WORD *zeros = W + (p->m + NR - 1) / NR * NR * p->k;
  Output output;
  output.alpha = alpha, output.beta = beta, output.step = p->d_m;
#if RESIDUAL
  __global const STORAGE(TC) *E = CONST_POINTER(STORAGE(TC), e) + m0;
#endif
  for (int i = 0; i < columns; i++) points[i] = place_point(n0 + i, p);
  for (int t = 0; t < number; t++) taps[t] = place_tap(t * p->channels.size, p);
  for (int j = 0; j < rows; j += NR) {
    const int width = min(NR, rows - j);
    const bool direct = DIRECT && width % 8 == 0;
    __global const WORD *panel = W + (m0 + j) * p->k;
    output.c = POINTER(STORAGE(TC), c) + m0 + j;
    output.d = CONST_POINTER(STORAGE(TD), d) + (m0 + j) * p->d_m;
#if SCALES
    output.scale = CONST_POINTER(float, a_scale) + m0 + j;
#endif
    for (int i = 0; i < columns; i += MR) {
      __local const Place *from = points + i;
      const int last = columns - i - 1;
#if NR > 16
      if (width <= 16)
        multiply_one(X, panel, zeros, from, last, taps, number, channels, width, direct, &output, sums, p);
      else
#endif
#if NR > 32
      if (width <= 32)
        multiply_two(X, panel, zeros, from, last, taps, number, channels, width, direct, &output, sums, p);
      else
#endif
        multiply(X, panel, zeros, from, last, taps, number, channels, width, direct, &output, sums, p);
      if (direct) continue;
      NOUNROLL for (int k = 0; k < width; k += 16) {
        const int count = min(16, width - k);
        const VEC addend = LOAD_ADDEND(&output, k, count), scale = SCALE(&output, k);
        NOUNROLL for (int r = 0; r <= min(last, MR - 1); r++) {
          const WORDS sum = vload16(0, sums + r * NR + k);
          const INDEX at = from[r].y + k;
#if RESIDUAL
          const VEC residual = load_residual(E + j + at, count);
#endif
          STORAGE(TC) each[16];
          if (count == 16) vstore16(RESULT(FINISHED(sum, addend, scale)), 0, output.c + at);
          else {
            vstore16(RESULT(FINISHED(sum, addend, scale)), 0, each);
            NOUNROLL for (int v = 0; v < count; v++) output.c[at + v] = each[v];
          }
        }
      }
    }
  }
}
