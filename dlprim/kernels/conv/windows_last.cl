// SPDX-License-Identifier: MIT
// Convolution on CPUs of images in rows, of few channels as in a network's first layer, whose results have their channels
// side by side. A work-item copies what a part of a row of results needs of the image's rows to local memory, with zeros
// for what lies outside, and multiplies the windows it finds there by the weights in panels, [n / NR][element][NR], zeros
// behind the last one. The host defines
//   T, VEC     type, vector of 16      MR, NR   windows and channels held in registers
//   STEP       from window to window   PLACES   elements of local memory              ACTIVATE(x0)
#define ACTIVATED VEC
#include "lib/types.clh"
#include "lib/activations.clh"
#include "lib/prefetch.clh"
#include "lib/vec16.clh"

// Mirrored by conv/cores/windows_last.cpp.
typedef struct {
  long x_image, x_channel, x_row, y_image, y_row, y_column, bias;
  long channels, height, width, taps_h, taps_w, step_h, tap_h, tap_w, padding_h, padding_w;
  long n, rows, columns, lines, strip;  // of results: channels, rows and columns of an image, all rows, a work-item's
  long windows, pitch;                  // of a part of a row: windows, elements of the image's row that they read
} Shape;

// Elements from `first` on of a row of `width`, `count` of them, with zeros for those outside.
inline void copy_row(__global const T *row, int first, int width, int count, __local T *to) {
  const int begin = clamp(-first, 0, count), end = clamp(width - first, begin, count);
  for (int i = 0; i < begin; i++) to[i] = 0;
  int i = begin;
  for (; i + 16 <= end; i += 16) vstore16(vload16(0, row + first + i), 0, to + i);
  if (end - begin >= 16) vstore16(vload16(0, row + first + end - 16), 0, to + end - 16);
  else for (; i < end; i++) to[i] = row[first + i];
  for (i = end; i < count; i++) to[i] = 0;
}

// The results of MR windows, of which `last` is the last one there is, and of 16 * WIDTH channels of a panel, of which
// there are `count`.
#define DEFINE_MULTIPLY(name, WIDTH)                                                                              \
  inline void name(__local const T *windows, int last, __global const T *w, __global const T *bias,               \
                   __global T *y, int count, const Shape *s) {                                                    \
    VEC acc[MR][WIDTH];                                                                                           \
    _Pragma("unroll") for (int j = 0; j < WIDTH; j++) {                                                           \
      VEC start = 0;                                                                                              \
      if (bias && s->bias == 1 && count - j * 16 >= 16) {                                                         \
        start = vload16(j, bias);                                                                                 \
      } else if (bias) {                                                                                          \
        T each[16] = {0};                                                                                         \
        for (int c = 0; c < min(16, count - j * 16); c++) each[c] = bias[(j * 16 + c) * s->bias];                 \
        start = vload16(0, each);                                                                                 \
      }                                                                                                           \
      _Pragma("unroll") for (int i = 0; i < MR; i++) acc[i][j] = start;                                           \
    }                                                                                                             \
    const int lines = (int)(s->channels * s->taps_h);                                                             \
    for (int l = 0; l < lines; l++, windows += s->pitch) {                                                        \
      __local const T *at = windows;                                                                              \
      for (int v = 0; v < s->taps_w; v++, at += s->tap_w, w += NR) {                                              \
        VEC bv[WIDTH];                                                                                            \
        _Pragma("unroll") for (int j = 0; j < WIDTH; j++) bv[j] = vload16(j, w);                                  \
        _Pragma("unroll") for (int i = 0; i < MR; i++) {                                                          \
          const VEC av = (VEC)(at[i * STEP]);                                                                     \
          _Pragma("unroll") for (int j = 0; j < WIDTH; j++) acc[i][j] = fma(av, bv[j], acc[i][j]);                \
        }                                                                                                         \
      }                                                                                                           \
    }                                                                                                             \
    _Pragma("unroll") for (int i = 0; i < MR; i++) {                                                              \
      if (i > last) break;                                                                                        \
      _Pragma("unroll") for (int j = 0; j < WIDTH; j++) {                                                         \
        const VEC result = ACTIVATE(acc[i][j]);                                                                   \
        __global T *to = y + i * s->y_column + j * 16;                                                            \
        if (count - j * 16 >= 16) vstore16(result, 0, to);                                                        \
        else store_some(result, to, count - j * 16);                                                              \
      }                                                                                                           \
    }                                                                                                             \
  }
DEFINE_MULTIPLY(multiply, (NR / 16))
#if NR > 32
DEFINE_MULTIPLY(multiply_two, 2)
#endif
#if NR > 16
DEFINE_MULTIPLY(multiply_one, 1)
#endif

// The image's rows that a row of results reads, which are not in a cache yet when images come from elsewhere.
inline void prefetch_rows(__global const T *image, long row, const Shape *s) {
  for (int c = 0; c < s->channels; c++)
    for (int h = 0; h < s->taps_h; h++) {
      const long from = row * s->step_h - s->padding_h + h * s->tap_h;
      if (from < 0 || from >= s->height) continue;
      __global const T *line = image + c * s->x_channel + from * s->x_row;
      for (int i = 0; i < s->width; i += 16) PREFETCH(line + i);
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void conv_windows_last(
    CONST_GLOBAL(T, x), CONST_GLOBAL(T, w), GLOBAL(T, y), CONST_GLOBAL(T, bias), const int biased, const Shape shape) {
  const Shape *s = &shape;
  __local T places[PLACES] __attribute__((aligned(64)));
  __global const T *X = CONST_POINTER(T, x), *W = CONST_POINTER(T, w), *addends = CONST_POINTER(T, bias);
  const long k = s->channels * s->taps_h * s->taps_w;
  const long begin = get_group_id(0) * s->strip, end = min(begin + s->strip, s->lines);
  for (long line = begin; line < end; line++)
    for (long column = 0; column < s->columns; column += s->windows) {
      const long image = line / s->rows, row = line - image * s->rows;
      const int count = (int)min(s->windows, s->columns - column), first = (int)(column * STEP - s->padding_w);
      __global const T *x_image = X + image * s->x_image;
      __local T *to = places;
      for (int c = 0; c < s->channels; c++)
        for (int h = 0; h < s->taps_h; h++, to += s->pitch) {
          const long from = row * s->step_h - s->padding_h + h * s->tap_h;
          const bool inside = from >= 0 && from < s->height;
          __global const T *from_row = x_image + c * s->x_channel + (inside ? from : 0) * s->x_row;
          copy_row(from_row, first, inside ? (int)s->width : 0, (int)s->pitch, to);
        }
      if (row + 1 < s->rows) prefetch_rows(x_image, row + 1, s);  // while these are multiplied
      __global T *Y = POINTER(T, y) + image * s->y_image + row * s->y_row + column * s->y_column;
      for (long j = 0; j < s->n; j += NR) {
        const int channels = (int)min((long)NR, s->n - j);
        for (int i = 0; i < count; i += MR) {
          __local const T *windows = places + i * STEP;
          __global const T *panel = W + j * k, *addend = biased ? addends + j * s->bias : 0;
          __global T *results = Y + i * s->y_column + j;
#if NR > 16
          if (channels <= 16) multiply_one(windows, count - i - 1, panel, addend, results, channels, s);
          else
#endif
#if NR > 32
          if (channels <= 32) multiply_two(windows, count - i - 1, panel, addend, results, channels, s);
          else
#endif
            multiply(windows, count - i - 1, panel, addend, results, channels, s);
        }
      }
    }
}
