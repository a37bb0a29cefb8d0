// SPDX-License-Identifier: MIT
// Convolution on CPUs of images in rows, of few channels as in a network's first layer, whose results have their channels
// side by side. A work-item lays the windows of neighbours in a row of results in local memory, [element][window], and
// multiplies them by the weights in panels, [n / NR][element][NR], zeros behind the last one. The host defines
//   T, VEC     type, vector of 16      MR, NR   windows and channels held in registers
//   WINDOWS    of a row at once        MOST     elements of a window at most       ACTIVATE(x0)
#define ACTIVATED VEC
#include "lib/types.clh"
#include "lib/activations.clh"
#include "lib/vec16.clh"

#define INT16 (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)

// Mirrored by conv/cores/windows_last.cpp.
typedef struct {
  long x_size, x_image, x_channel, x_row, y_image, y_row, y_column, bias;
  long channels, height, width, taps_h, taps_w, step_h, step_w, tap_h, tap_w, padding_h, padding_w;
  long n, rows, columns, lines, strip;  // of results: channels, rows and columns of an image, all rows, a work-item's
} Shape;

// Elements `step` apart for `count` windows, zeros outside the row of `width`; element 0 is at x[at], of x_size elements.
// May write up to 15 more.
inline void copy_elements(__global const T *x, long at, int first, int step, int width, int count, long x_size,
                          __local T *to) {
  for (int i = 0; i < count; i += 16, at += 16 * step, first += 16 * step) {
    VEC v;
    const bool wide = step == 2;
    if ((wide || step == 1) && at >= 0 && at + 16 * step <= x_size) {
      v = vload16(0, x + at);
      if (wide) v = (VEC)(v.even, vload16(0, x + at + 16).even);
      const int16 place = first + step * INT16;
      v = select((VEC)(0), v, place >= 0 && place < width);
    } else {
      T each[16];
      for (int j = 0; j < 16; j++) {
        const int place = first + j * step;
        each[j] = place >= 0 && place < width && i + j < count ? x[at + j * step] : 0;
      }
      v = vload16(0, each);
    }
    vstore16(v, 0, to + i);
  }
}

// The results of MR windows, of which `last` is the last one there is, and of 16 * WIDTH channels of a panel, of which
// there are `count`.
#define DEFINE_MULTIPLY(name, WIDTH)                                                                              \
  inline void name(__local const T *windows, int last, __global const T *w, int k, __global const T *bias,        \
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
    for (int l = 0; l < k; l++) {                                                                                 \
      VEC bv[WIDTH];                                                                                              \
      _Pragma("unroll") for (int j = 0; j < WIDTH; j++) bv[j] = vload16(l * (NR / 16) + j, w);                    \
      _Pragma("unroll") for (int i = 0; i < MR; i++) {                                                            \
        const VEC av = (VEC)(windows[l * WINDOWS + i]);                                                           \
        _Pragma("unroll") for (int j = 0; j < WIDTH; j++) acc[i][j] = fma(av, bv[j], acc[i][j]);                  \
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

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void conv_windows_last(
    CONST_GLOBAL(T, x), CONST_GLOBAL(T, w), GLOBAL(T, y), CONST_GLOBAL(T, bias), const int biased, const Shape shape) {
  const Shape *s = &shape;
  // Windows behind the last are multiplied, and not stored.
  __local T windows[MOST * WINDOWS + MR] __attribute__((aligned(64)));
  __global const T *X = CONST_POINTER(T, x), *W = CONST_POINTER(T, w), *addends = CONST_POINTER(T, bias);
  const int k = (int)(s->channels * s->taps_h * s->taps_w);
  const long begin = get_group_id(0) * s->strip, end = min(begin + s->strip, s->lines);
  for (long line = begin; line < end; line++)
    for (int column = 0; column < s->columns; column += WINDOWS) {
      const long image = line / s->rows, row = line - image * s->rows;
      const int count = min(WINDOWS, (int)s->columns - column);
      __local T *to = windows;
      for (int c = 0; c < s->channels; c++)
        for (int h = 0; h < s->taps_h; h++) {
          const long from_row = row * s->step_h - s->padding_h + h * s->tap_h;
          const long start = image * s->x_image + c * s->x_channel + from_row * s->x_row;
          const bool inside = from_row >= 0 && from_row < s->height;
          for (int v = 0; v < s->taps_w; v++, to += WINDOWS) {
            const int first = (int)(column * s->step_w - s->padding_w + v * s->tap_w);
            copy_elements(X, start + first, first, (int)s->step_w, inside ? (int)s->width : 0, count, s->x_size, to);
          }
        }
      __global T *Y = POINTER(T, y) + image * s->y_image + row * s->y_row + column * s->y_column;
      for (long j = 0; j < s->n; j += NR) {
        const int channels = (int)min((long)NR, s->n - j);
        for (int i = 0; i < count; i += MR) {
          __global const T *panel = W + j * k, *addend = biased ? addends + j * s->bias : 0;
          __global T *results = Y + i * s->y_column + j;
#if NR > 16
          if (channels <= 16) multiply_one(windows + i, count - i - 1, panel, k, addend, results, channels, s);
          else
#endif
#if NR > 32
          if (channels <= 32) multiply_two(windows + i, count - i - 1, panel, k, addend, results, channels, s);
          else
#endif
            multiply(windows + i, count - i - 1, panel, k, addend, results, channels, s);
        }
      }
    }
}
