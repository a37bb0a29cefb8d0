// SPDX-License-Identifier: MIT
// Convolution of images on CPUs without gathering: x lies in planes of rows of one pitch, so that the elements that a
// kernel position needs for neighbouring results, beyond the ends of rows, too, are a piece of a plane shifted by a
// constant. A column is a position in such rows; those behind a row's results are computed and not stored. The host
// defines
//   T, VEC     type, vector of 16      MR, NR   rows (channels of y) and columns held in registers
//   FEW        columns that a block may be left with
//   MB, NB     of a tile's sums        KB       the longest slice of sums      BLOCKS   most of a tile
//   RESIDUAL   1: `e` lies as y does   ACTIVATE(x0)
#define ACTIVATED VEC
#include "lib/types.clh"
#include "lib/activations.clh"
#include "lib/vec16.clh"
#include "lib/prefetch.clh"

// Mirrored by conv/cores/shifted.cpp. A block is NR columns of an image; blocks of all images stand in a row.
typedef struct {
  long x_image, x_group, x_channel;            // of the planes
  long tap_h, tap_w, phase_h, phase_w, pitch;  // dilation, elements between planes of the stride's residues, of rows
  long w_row, y_image, y_channel, y_row, bias;
  long m, channels, columns, line, width;  // of a group; columns of an image, from row to row, results in a row
  long taps_h, taps_w, step_h, step_w;
  long slice, blocks, all_blocks, tile_m, tile_blocks, tiles_m, tiles_n;
} Shape;

// Of an image: `count` columns from `start` on, of which the first `done` belong to the block before.
typedef struct {
  long x, y;
  int start, done, count;
} Block;

inline Block block_of(long number, const Shape *s) {
  Block b;
  const long image = number / s->blocks, n = number % s->blocks * NR, left = s->columns - n;
  const long span = min((left + 15) / 16 * 16, (long)NR);  // reads nothing behind a plane that is at least as long
  const long start = left < span ? max(s->columns - span, 0L) : n;
  b.x = image * s->x_image + start, b.y = image * s->y_image;
  b.start = (int)start, b.done = (int)(n - start), b.count = (int)min(s->columns - start, span);
  return b;
}

#if RESIDUAL
#define FINISH(sum, bias, at, count) \
  ACTIVATE(((sum) + (bias) + ((count) == 16 ? vload16(0, residual + (at)) : load_some(residual + (at), count))))
#define RESIDUAL_PARAMETER __global const T *residual,
#define RESIDUAL_VALUE residual,
#else
#define FINISH(sum, bias, at, count) ACTIVATE(((sum) + (bias)))
#define RESIDUAL_PARAMETER
#define RESIDUAL_VALUE
#endif

// Finishes and stores `rows` rows of a block's sums, but those of columns that are no results, in the image at y + to.
inline void finish(__local const T *sums, __global const T *bias, RESIDUAL_PARAMETER __global T *y, long to, Block b,
                   int rows, const Shape *s) {
  for (int j = b.done; j < b.count;) {
    const int column = b.start + j, h = column / (int)s->line, w = column - h * (int)s->line;
    const int results = min((int)s->width - w, b.count - j);
    for (int i = 0; i < rows; i++)
      for (int v = 0; v < results; v += 16) {
        const long at = to + i * s->y_channel + h * s->y_row + w + v;
        const int count = min(16, results - v);
        const VEC sum = FINISH(vload16(0, sums + i * NB + j + v), (VEC)(bias ? bias[i * s->bias] : 0), at, count);
        if (count == 16) vstore16(sum, 0, y + at);
        else store_some(sum, y + at, count);
      }
    j += (int)s->line - w;
  }
}

// c (+)= w x for MR rows, of which `last` is the last one in w, and 16 * WIDTH columns over k. Where `dense` says that
// all are results next to each other, finishes and stores them at y + at instead. A slice has sums of its own, which
// loses less than one sum over all of k. On the way, fetches the next 8 rows.
#define DEFINE_MULTIPLY(name, WIDTH)                                                                                 \
  inline void name(__global const T *w, int last, __global const T *x, __local const long *shift, int k,             \
                   __local T *c, bool first, bool dense, __global const T *bias, RESIDUAL_PARAMETER __global T *y,   \
                   long at, const Shape *s) {                                                                        \
    __global const T *row[MR];                                                                                       \
    _Pragma("unroll") for (int i = 0; i < MR; i++) row[i] = w + min(i, last) * s->w_row;                             \
    VEC acc[MR][WIDTH];                                                                                              \
    _Pragma("unroll") for (int i = 0; i < MR; i++)                                                                   \
      _Pragma("unroll") for (int j = 0; j < WIDTH; j++) acc[i][j] = (VEC)(0);                                        \
    for (int l = 0; l < k; l++) {                                                                                    \
      __global const T *from = x + shift[l];                                                                         \
      PREFETCH(w + (MR + (l / 2 & 7)) * s->w_row + (l & ~15));                                                       \
      VEC b[WIDTH];                                                                                                  \
      _Pragma("unroll") for (int j = 0; j < WIDTH; j++) b[j] = vload16(j, from);                                     \
      _Pragma("unroll") for (int i = 0; i < MR; i++) {                                                               \
        const VEC a = (VEC)(row[i][l]);                                                                              \
        _Pragma("unroll") for (int j = 0; j < WIDTH; j++) acc[i][j] = fma(a, b[j], acc[i][j]);                       \
      }                                                                                                              \
    }                                                                                                                \
    if (!first)                                                                                                      \
      _Pragma("unroll") for (int i = 0; i < MR; i++)                                                                 \
        _Pragma("unroll") for (int j = 0; j < WIDTH; j++) acc[i][j] += vload16(j, c + i * NB);                       \
    if (dense) {                                                                                                     \
      _Pragma("unroll") for (int i = 0; i < MR; i++) {                                                               \
        if (i > last) break;                                                                                         \
        const VEC addend = (VEC)(bias ? bias[i * s->bias] : 0);                                                       \
        _Pragma("unroll") for (int j = 0; j < WIDTH; j++) {                                                          \
          const long to = at + i * s->y_channel + j * 16;                                                            \
          vstore16(FINISH(acc[i][j], addend, to, 16), 0, y + to);                                                    \
        }                                                                                                            \
      }                                                                                                              \
      return;                                                                                                        \
    }                                                                                                                \
    _Pragma("unroll") for (int i = 0; i < MR; i++)                                                                   \
      _Pragma("unroll") for (int j = 0; j < WIDTH; j++) vstore16(acc[i][j], j, c + i * NB);                          \
  }
DEFINE_MULTIPLY(multiply, (NR / 16))
// For what is left of an image.
#if NR > 32
DEFINE_MULTIPLY(multiply_two, 2)
#endif
#if NR > 16
DEFINE_MULTIPLY(multiply_one, 1)
#endif

// The same for a block's last columns, `count` of them, where they are few: sums along k, in vectors. `columns` holds them
// one after the other, KB apart; of c those from `done` on are theirs.
inline void multiply_few(__global const T *w, int last, __local const T *columns, int k, __local T *c, int count,
                         bool first, const Shape *s) {
  __global const T *row[MR];
#pragma unroll
  for (int i = 0; i < MR; i++) row[i] = w + min(i, last) * s->w_row;
  for (int j = 0; j < count; j++) {
    __local const T *column = columns + j * KB;
    VEC acc[MR];
#pragma unroll
    for (int i = 0; i < MR; i++) acc[i] = (VEC)(0);
    int l = 0;
    for (; l + 16 <= k; l += 16) {
      const VEC b = vload16(0, column + l);
#pragma unroll
      for (int i = 0; i < MR; i++) acc[i] = fma(vload16(0, row[i] + l), b, acc[i]);
    }
    for (int i = 0; i < MR; i++) {
      T each[16], sum = first ? 0 : c[i * NB + j];
      vstore16(acc[i], 0, each);
      for (int m = 0; m < 16; m++) sum += each[m];
      for (int m = l; m < k; m++) sum += row[i][m] * column[m];
      c[i * NB + j] = sum;
    }
  }
}

inline bool few(Block b) { return b.done > 0 && b.count - b.done <= FEW; }

// What kernel positions of one channel are shifted by, then those of further channels.
inline void find_shifts(__local long *shift, int channels, const Shape *s) {
  const int taps = (int)(s->taps_h * s->taps_w);
  for (int h = 0; h < s->taps_h; h++)
    for (int w = 0; w < s->taps_w; w++) {
      const long down = h * s->tap_h, right = w * s->tap_w;
      shift[h * s->taps_w + w] = down % s->step_h * s->phase_h + down / s->step_h * s->pitch +
                                 right % s->step_w * s->phase_w + right / s->step_w;
    }
  for (int i = taps; i < channels * taps; i++) shift[i] = shift[i - taps] + s->x_channel;
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void conv_shifted(
    CONST_GLOBAL(T, x), CONST_GLOBAL(T, w), GLOBAL(T, y), CONST_GLOBAL(T, bias), CONST_GLOBAL(T, e), const int biased,
    const Shape shape) {
  const Shape *s = &shape;
  __local T sums[MB * NB + 16] __attribute__((aligned(64)));
  __local long shift[KB];
  __local T columns[FEW * KB] __attribute__((aligned(64)));
  __local Block blocks[BLOCKS];
  const long n = get_group_id(0) % s->tiles_n, rest = get_group_id(0) / s->tiles_n;
  const long m0 = rest % s->tiles_m * s->tile_m, group = rest / s->tiles_m;
  const int rows = (int)min(s->tile_m, s->m - m0), taps = (int)(s->taps_h * s->taps_w);
  const int count = (int)min(s->tile_blocks, s->all_blocks - n * s->tile_blocks);
  for (int j = 0; j < count; j++) blocks[j] = block_of(n * s->tile_blocks + j, s);
  const int slice = (int)s->slice;
  find_shifts(shift, slice, s);

  const long row = group * s->m + m0;
  __global const T *X = CONST_POINTER(T, x) + group * s->x_group, *W = CONST_POINTER(T, w) + row * s->w_row;
  __global const T *addends = CONST_POINTER(T, bias) + row * s->bias;
#if RESIDUAL
  __global const T *residual = CONST_POINTER(T, e) + row * s->y_channel;
#endif
  __global T *Y = POINTER(T, y) + row * s->y_channel;
  // Sums of one slice are stored at once, row by row; those of several stay here, and x in the cache.
  const bool whole = slice >= s->channels;
  const int pieces = (rows + MR - 1) / MR;
  for (int c0 = 0; c0 < s->channels; c0 += slice) {
    const int depth = min(slice, (int)s->channels - c0) * taps;
    const bool first = c0 == 0, final = c0 + slice >= s->channels;
    for (int step = 0; step < count * pieces; step++) {
      const int j = whole ? step % count : step / pieces, i = (whole ? step / count : step % pieces) * MR;
      const Block b = blocks[j];
      if (few(b)) continue;
      const int h = b.start / (int)s->line, column = b.start - h * (int)s->line, width = (b.count + 15) / 16 * 16;
      const bool dense = final && b.done == 0 && b.count == width && column + width <= (int)s->width;
      __local T *c = whole ? sums : sums + i * NB + j * NR;
      __global const T *a = W + i * s->w_row + (long)c0 * taps, *from = X + b.x + c0 * s->x_channel;
      __global const T *addend = biased ? addends + i * s->bias : 0;
      const long image = b.y + i * s->y_channel, at = image + h * s->y_row + column;
#if NR > 16
      if (width == 16)
        multiply_one(a, rows - i - 1, from, shift, depth, c, first, dense, addend, RESIDUAL_VALUE Y, at, s);
      else
#endif
#if NR > 32
      if (width == 32)
        multiply_two(a, rows - i - 1, from, shift, depth, c, first, dense, addend, RESIDUAL_VALUE Y, at, s);
      else
#endif
        multiply(a, rows - i - 1, from, shift, depth, c, first, dense, addend, RESIDUAL_VALUE Y, at, s);
      if (final && !dense) finish(c, addend, RESIDUAL_VALUE Y, image, b, min(MR, rows - i), s);
    }
    for (int j = 0; j < count; j++) {
      const Block b = blocks[j];
      if (!few(b)) continue;
      __global const T *from = X + b.x + c0 * s->x_channel + b.done;
      for (int v = 0; v < b.count - b.done; v++)
        for (int l = 0; l < depth; l++) columns[v * KB + l] = from[shift[l] + v];
      for (int i = 0; i < rows; i += MR) {
        __local T *c = whole ? sums : sums + i * NB + j * NR;
        multiply_few(W + i * s->w_row + (long)c0 * taps, rows - i - 1, columns, depth, c + b.done, b.count - b.done, first, s);
        if (final)
          finish(c, biased ? addends + i * s->bias : 0, RESIDUAL_VALUE Y, b.y + i * s->y_channel, b, min(MR, rows - i), s);
      }
    }
  }
}
