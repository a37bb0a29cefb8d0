// SPDX-License-Identifier: MIT
// Convolutions on CPUs, in groups or not, of images whose channels lie side by side, and so do the result's: MR points
// at a time read their windows where they lie, a tap's channels after the other's, and are multiplied by NR rows of the
// weights, which come in panels, [m / NR][k][NR]. A work-group is one work-item, which computes tile_m rows (channels)
// of tile_n points. Groups have whole panels each, of which the last may be filled up: group g has rows g * c_batch of
// C and reads channels from g * b_batch on; m counts the rows of all panels up to the last one there is. The host also
// defines
//   MR, NR         points and channels held in registers
//   POINTS, TAPS, WINDOWS   the most of a tile, of a window, and of both that are looked up at once
//   LANES          rows of a group where NR, 16, has several: then these count as one whose rows read channels of their
//                  own, CHANNELS of a tap, and SPAN is what a tap has for all, HALF_SPAN for eight of them; else 0
//   ACTIVE         0 where ACTIVATE(x) is x      ROUNDS   1: C is bfloat16, of pairs
//   BFLOAT16_DOT   where elements of the weights and the image are pairs of bfloat16 (lib/bfloat16_dot.clh)
//   BYTE_DOT       where they are quads of bytes (lib/byte_dot.clh), the weights' from -128 to 127, the image's from
//                  0 to 255 or, SIGNED 1, as the weights' (a byte v of such an image stands for v + 128). What is
//                  added to the sums, which the rows' scales multiply then, are integers; both come for whole vectors
//                  of rows. ROUNDS 2: C is bytes with the zero point alpha (lib/saturate.clh); 3: C is the sums.
// Points outside the image read what is behind the weights' panels, as many elements as all groups have channels: zeros
// (bytes: the zero point).
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

#if LANES
#include "gemm/lanes.clh"
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
// `rows` are where their windows lie, tap by tap, `at` where their results do. DIRECT: these are stored where that is
// asked for, in whole vectors and a half; with an activation in it, compilers would take many times as long.
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
      __global STORAGE(TC) *c = o->c + at[i];                                                                  \
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
#define DEFINE_MULTIPLY(name, WIDTH, SPAN)                                                                     \
  inline void name(__local const long *rows, INDEX channel, __global const WORD *w, __local const INDEX *at,    \
                   int last, int number, int channels, int width, bool direct, const Output *o,                \
                   __local WORD *sums) {                                                                       \
    WORDS acc[MR][WIDTH];                                                                                      \
    _Pragma("unroll") for (int i = 0; i < MR; i++)                                                             \
      _Pragma("unroll") for (int j = 0; j < WIDTH; j++) acc[i][j] = FIRST(o, 16 * j);                          \
    for (int t = 0; t < number; t++, rows += MR) {                                                             \
      MULTIPLY_TAP(WIDTH, SPAN)                                                                                \
    }                                                                                                          \
    STORE_RESULTS(WIDTH)                                                                                       \
    _Pragma("unroll") for (int i = 0; i < MR; i++)                                                             \
      _Pragma("unroll") for (int j = 0; j < WIDTH; j++) vstore16(acc[i][j], j, sums + i * NR);                 \
  }
#if LANES
#define MULTIPLY_TAP(WIDTH, SPAN)                                                                              \
  WORDS bv[CHANNELS];                                                                                          \
  _Pragma("unroll") for (int l = 0; l < CHANNELS; l++, w += NR) bv[l] = vload16(0, w);                         \
  _Pragma("unroll") for (int i = 0; i < MR; i++) {                                                             \
    const CONCAT(WORD, SPAN) words = CONCAT(vload, SPAN)(0, (Row)rows[i] + channel);                           \
    _Pragma("unroll") for (int l = 0; l < CHANNELS; l++)                                                       \
      acc[i][0] = ADD_PRODUCTS(acc[i][0], shuffle(words, CHANNEL_OF_LANES + (uint)(l) & (uint)(SPAN - 1)), bv[l]);\
  }
#else
#define MULTIPLY_TAP(WIDTH, SPAN)                                                                              \
  __global const WORD *row[MR];                                                                                \
  _Pragma("unroll") for (int i = 0; i < MR; i++) row[i] = (Row)rows[i] + channel;                              \
  for (int l = 0; l < channels; l++, w += NR) {                                                                \
    WORDS bv[WIDTH];                                                                                           \
    _Pragma("unroll") for (int j = 0; j < WIDTH; j++) bv[j] = vload16(j, w);                                   \
    _Pragma("unroll") for (int i = 0; i < MR; i++) {                                                           \
      const WORDS av = (WORDS)(row[i][l]);                                                                     \
      _Pragma("unroll") for (int j = 0; j < WIDTH; j++) acc[i][j] = ADD_PRODUCTS(acc[i][j], av, bv[j]);        \
    }                                                                                                          \
  }
#endif
typedef __global const WORD *Row;
DEFINE_MULTIPLY(multiply, (NR / 16), SPAN)
#if NR > 32
DEFINE_MULTIPLY(multiply_two, 2, SPAN)
#endif
#if NR > 16
DEFINE_MULTIPLY(multiply_one, 1, SPAN)
#endif
#if LANES
DEFINE_MULTIPLY(multiply_half, 1, HALF_SPAN)
#endif

// Vectors of MR points.
#if MR <= 8
#define LINE_ITEMS 8
#else
#define LINE_ITEMS 16
#endif
#define ITEMS(name) CONCAT(name, LINE_ITEMS)

// Where the windows of `columns` points from n on lie, MR points of a tap side by side, and their results.
inline void find_windows(__local long *rows, __local INDEX *at, INDEX n, int columns, __local const Place *taps,
                         int number, Row x, Row zeros, const Params *p) {
  for (int i = 0; i < columns; i += MR, rows += number * MR, at += MR) {
    int d[LINE_ITEMS] = {0}, h[LINE_ITEMS] = {0}, w[LINE_ITEMS] = {0};
    long from[LINE_ITEMS] = {0};
    for (int r = 0; r < MR; r++) {
      const Place point = place_point(n + min(i + r, columns - 1), p);
      at[r] = point.y, d[r] = point.d, h[r] = point.h, w[r] = point.w, from[r] = (long)(x + point.x);
    }
    for (int t = 0; t < number; t++) {
      ITEMS(long) to = ITEMS(vload)(0, from) + (long)sizeof(WORD) * taps[t].x;
#if CHECK
#define WITHIN(name) (ITEMS(as_uint)(ITEMS(vload)(0, name) + taps[t].name) < (uint)p->in_##name)
      ITEMS(int) inside = WITHIN(w);
#if RANK > 1
      inside &= WITHIN(h);
#endif
#if RANK > 2
      inside &= WITHIN(d);
#endif
      to = select((ITEMS(long))((long)zeros), to, ITEMS(convert_long)(inside));
#endif
      ITEMS(vstore)(to, 0, rows + t * MR);
    }
  }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void gemm_points(GEMM_ARGUMENTS) {
  const Params *p = &params;
  __local Place taps[TAPS];
  __local long rows[WINDOWS + LINE_ITEMS];
  __local INDEX at[POINTS];
  __local WORD sums[MR * NR] __attribute__((aligned(64)));
  const Tile tile = tile_of(get_group_id(0), p);
  const INDEX m0 = tile.m * p->tile_m, n0 = tile.n * p->tile_n, m1 = min(p->m, m0 + p->tile_m);
  const int channels = (int)p->channels.size, number = (int)(p->k / p->channels.size);
  __global const WORD *W = CONST_POINTER(WORD, a), *X = CONST_POINTER(WORD, b);
  Row zeros = W + (p->m + NR - 1) / NR * NR * p->k;
  const INDEX group_panels = (p->c_batch + NR - 1) / NR, first_group = m0 / NR / group_panels;
  const INDEX first_row = m0 - first_group * group_panels * NR;
  const int most = max(min(POINTS, WINDOWS / number) / MR, 1) * MR;
  Output output;
  output.alpha = alpha, output.beta = beta, output.step = p->d_m;
  for (int t = 0; t < number; t++) taps[t] = place_tap(t * p->channels.size, p);
  for (INDEX n = n0; n < min(p->n, n0 + p->tile_n); n += most) {
    const int columns = (int)min((INDEX)most, min(p->n, n0 + p->tile_n) - n);
    find_windows(rows, at, n, columns, taps, number, X, zeros, p);
    INDEX group = first_group, row = first_row;
    for (INDEX m = m0; m < m1; m += NR) {
      const int width = (int)min((INDEX)NR, min(p->c_batch - row, p->m - m));
      const bool direct = DIRECT && width % 8 == 0;
      const INDEX channel = group * p->b_batch, to = group * p->c_batch + row;
      __global const WORD *panel = W + m * p->k;
      output.c = POINTER(STORAGE(TC), c) + to;
      output.d = CONST_POINTER(STORAGE(TD), d) + to * p->d_m;
#if SCALES
      output.scale = CONST_POINTER(float, a_scale) + to;
#endif
#if RESIDUAL
      __global const STORAGE(TC) *E = CONST_POINTER(STORAGE(TC), e) + to;
#endif
      row += NR;
      if (row >= p->c_batch) group++, row = 0;
      for (int i = 0; i < columns; i += MR) {
        __local const long *from = rows + i * number;
        const int last = min(columns - i, MR) - 1;
#define CALL(name) name(from, channel, panel, at + i, last, number, channels, width, direct, &output, sums)
#if LANES
        if (width <= 8) CALL(multiply_half);
        else
#endif
#if NR > 16
        if (width <= 16) CALL(multiply_one);
        else
#endif
#if NR > 32
        if (width <= 32) CALL(multiply_two);
        else
#endif
          CALL(multiply);
        if (direct) continue;
        NOUNROLL for (int k = 0; k < width; k += 16) {
          const int count = min(16, width - k);
          const VEC addend = LOAD_ADDEND(&output, k, count), scale = SCALE(&output, k);
          NOUNROLL for (int r = 0; r <= last; r++) {
            const WORDS sum = vload16(0, sums + r * NR + k);
#if RESIDUAL
            const VEC residual = load_residual(E + at[i + r] + k, count);
#endif
            __global STORAGE(TC) *c = output.c + at[i + r] + k;
            STORAGE(TC) each[16];
            if (count == 16) vstore16(RESULT(FINISHED(sum, addend, scale)), 0, c);
            else {
              vstore16(RESULT(FINISHED(sum, addend, scale)), 0, each);
              NOUNROLL for (int v = 0; v < count; v++) c[v] = each[v];
            }
          }
        }
      }
    }
  }
}
