// SPDX-License-Identifier: MIT
// Winograd's F(4x4, 3x3) on CPUs, by the numbers of conv/winograd.cl. Tiles of 4 x 4 results lie one after the other, row
// by row and image by image. Each of the 36 numbers has three matrices: U, panels of MR outputs [panel][channel][MR], V
// [channel][tile] and M [output][tile]. A work-group is one work-item. The host defines
//   MR, NR     rows and columns of M held in registers    CHANNELS   the most there are
//   TILES      most of a row                              RESIDUAL   1: `e` lies as y does
//   ACTIVATE(x0)
typedef float T;
#define VEC float16
#define ACTIVATED VEC
#include "lib/types.clh"
#include "lib/activations.clh"
#include "lib/vec16.clh"

// Mirrored by conv/cores/winograd_rows.cpp. Rows of tiles of all images are numbered through; a launch has `rows` from
// `first_row` on, a work-item `rows_at_once` of them, `tiles_w` tiles each.
typedef struct {
  long x_image, x_channel, x_row, y_image, y_channel, y_row, w_output, w_channel, w_row, w_column, bias;
  long u_plane, v_plane, m_plane, pitch;
  long first_row, rows, rows_at_once, tiles_h, tiles_w, height, width, y_height, y_width, origin_h, origin_w;
  long channels, outputs, panels, panels_at_once;
} Shape;

#define LINE (4 * TILES + 80)  // elements of a row that six numbers of each tile are read from, and a vector

// to = L from, along one dimension: L is FROM_WEIGHTS, FROM_DATA, TO_OUTPUT; `from` and `to` may be the same.
#define FROM_WEIGHTS(to, d0, d1, d2)                                                              \
  {                                                                                               \
    const VEC even = -128.f / 243 * d0 - 8.f / 27 * d2, odd = 32.f / 81 * d1;                     \
    const VEC far_even = 32.f / 243 * d0 + 8.f / 27 * d2, far_odd = 16.f / 81 * d1;               \
    to(0) = 64.f / 81 * d0, to(1) = even - odd, to(2) = even + odd, to(3) = far_even + far_odd;   \
    to(4) = far_even - far_odd, to(5) = d2;                                                       \
  }
#define FROM_DATA(to, d0, d1, d2, d3, d4, d5)                                                     \
  {                                                                                               \
    const VEC even = fma((VEC)(-9.f / 4), d2, d4), odd = fma((VEC)(.75f), d3, -27.f / 16 * d1);   \
    const VEC far_even = fma((VEC)(-9.f / 16), d2, d4), far_odd = fma((VEC)(1.5f), d3, -27.f / 32 * d1); \
    to(0) = fma((VEC)(81.f / 64), d0, fma((VEC)(-45.f / 16), d2, d4)), to(1) = even + odd;        \
    to(2) = even - odd, to(3) = far_even + far_odd, to(4) = far_even - far_odd;                   \
    to(5) = fma((VEC)(81.f / 64), d1, fma((VEC)(-45.f / 16), d3, d5));                            \
  }
#define TO_OUTPUT(to, d0, d1, d2, d3, d4, d5)                                                     \
  {                                                                                               \
    const VEC even = d1 + d2, odd = d1 - d2, far_even = d3 + d4, far_odd = d3 - d4;               \
    to(0) = d0 + even + far_even, to(1) = fma((VEC)(1.5f), far_odd, .75f * odd);                  \
    to(2) = fma((VEC)(9.f / 4), far_even, 9.f / 16 * even);                                       \
    to(3) = fma((VEC)(27.f / 8), far_odd, fma((VEC)(27.f / 64), odd, d5));                        \
  }

#define DEFINE_COPY(name, FROM, TO)                                              \
  inline void name(FROM const float *from, TO float *to, long count) {           \
    long i = 0;                                                                  \
    for (; i + 16 <= count; i += 16) vstore16(vload16(0, from + i), 0, to + i);  \
    if (count & 8) vstore8(vload8(0, from + i), 0, to + i), i += 8;              \
    if (count & 4) vstore4(vload4(0, from + i), 0, to + i), i += 4;              \
    for (; i < count; i++) to[i] = from[i];                                      \
  }
DEFINE_COPY(copy_in, __global, __local)
DEFINE_COPY(copy_out, __local, __global)

// U of 16 outputs and 16 channels; outputs behind the last are as that one.
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void winograd_rows_weights(CONST_GLOBAL(float, w), GLOBAL(float, u), const Shape s) {
  __local float numbers[36][2 * 16 * MR];
  const long k0 = get_group_id(0) * 16, c0 = get_group_id(1) * 16, end = min(c0 + 16, s.channels);
  for (long c = c0; c < end; c++) {
    float each[3][3][16];
    for (int i = 0; i < 16; i++) {
      __global const float *from = CONST_POINTER(float, w) + min(k0 + i, s.outputs - 1) * s.w_output + c * s.w_channel;
      for (int h = 0; h < 3; h++)
        for (int v = 0; v < 3; v++) each[h][v][i] = from[h * s.w_row + v * s.w_column];
    }
    VEC half_way[6][3];
#define DOWN(i) half_way[i][v]
#pragma unroll
    for (int v = 0; v < 3; v++) {
      const VEC a = vload16(0, each[0][v]), b = vload16(0, each[1][v]), d = vload16(0, each[2][v]);
      FROM_WEIGHTS(DOWN, a, b, d)
    }
#undef DOWN
#define ACROSS(j) out[j]
    for (int i = 0; i < 6; i++) {
      VEC out[6];
      FROM_WEIGHTS(ACROSS, half_way[i][0], half_way[i][1], half_way[i][2])
#pragma unroll
      for (int j = 0; j < 6; j++) {
        __local float *to = numbers[i * 6 + j] + (c - c0) * MR;
        vstore8(out[j].lo, 0, to), vstore8(out[j].hi, 0, to + 16 * MR);
      }
    }
#undef ACROSS
  }
  __global float *to = POINTER(float, u) + (k0 / MR * s.channels + c0) * MR;
  for (int i = 0; i < 36; i++, to += s.u_plane)
    for (int j = 0; j < 2; j++) copy_out(numbers[i] + j * 16 * MR, to + j * s.channels * MR, (end - c0) * MR);
}

// The first and second of every four elements, and if `all` the third and fourth.
inline void fourths(__local const float *from, VEC *to, bool all) {
  const VEC a = vload16(0, from), b = vload16(1, from), c = vload16(2, from), d = vload16(3, from);
  const VEC even = (VEC)(a.even, b.even), odd = (VEC)(a.odd, b.odd);
  const VEC more_even = (VEC)(c.even, d.even), more_odd = (VEC)(c.odd, d.odd);
  to[0] = (VEC)(even.even, more_even.even), to[1] = (VEC)(odd.even, more_odd.even);
  if (all) to[2] = (VEC)(even.odd, more_even.odd), to[3] = (VEC)(odd.odd, more_odd.odd);
}

// V of a channel and some rows of tiles.
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void winograd_rows_into(CONST_GLOBAL(float, x), GLOBAL(float, v), const Shape s) {
  __local float lines[6 * LINE], down[6 * LINE], tiles[36 * (TILES + 16)];
  const long channel = get_group_id(0), first = get_group_id(1) * s.rows_at_once;
  const long rows = min(s.rows_at_once, s.rows - first), needed = 4 * s.tiles_w + 2, line = (needed + 77) / 64 * 64 + 16;
  const long lead = min(max(-s.origin_w, 0L), needed), start = max(s.origin_w, 0L);
  const long count = clamp(s.width - start, 0L, needed - lead);
  for (int i = 0; i < 6; i++)
    for (long j = needed / 16 * 16; j < line; j += 16)
      vstore16((VEC)(0), 0, lines + i * line + j), vstore16((VEC)(0), 0, down + i * line + j);
  for (long r = 0; r < rows; r++) {
    const long number = s.first_row + first + r, image = number / s.tiles_h;
    const long h = (number - image * s.tiles_h) * 4 + s.origin_h;
    __global const float *from = CONST_POINTER(float, x) + image * s.x_image + channel * s.x_channel + start;
    for (int i = 0; i < 6; i++) {
      __local float *to = lines + i * line;
      const bool inside = h + i >= 0 && h + i < s.height;
      const long present = inside ? count : 0;
      for (long j = 0; j < lead; j += 16) vstore16((VEC)(0), 0, to + j);
      if (inside) copy_in(from + (h + i) * s.x_row, to + lead, count);
      for (long j = lead + present; j < needed; j += 16) vstore16((VEC)(0), 0, to + j);
    }
#define DOWN(i) down_out[i]
    for (long j = 0; j < needed; j += 16) {
      __local const float *at = lines + j;
      VEC down_out[6];
      const VEC d0 = vload16(0, at), d1 = vload16(0, at + line), d2 = vload16(0, at + 2 * line);
      const VEC d3 = vload16(0, at + 3 * line), d4 = vload16(0, at + 4 * line), d5 = vload16(0, at + 5 * line);
      FROM_DATA(DOWN, d0, d1, d2, d3, d4, d5)
#pragma unroll
      for (int i = 0; i < 6; i++) vstore16(down_out[i], 0, down + i * line + j);
    }
#undef DOWN
#define ACROSS(j) out[j]
    for (int i = 0; i < 6; i++)
      for (long t = 0; t < s.tiles_w; t += 16) {
        __local const float *at = down + i * line + 4 * t;
        VEC d[6];
        fourths(at, d, true), fourths(at + 4, d + 4, false);
        VEC out[6];
        FROM_DATA(ACROSS, d[0], d[1], d[2], d[3], d[4], d[5])
        // What lies behind the row's tiles belongs to the next row.
        __local float *to = tiles + i * 6 * (TILES + 16) + r * s.tiles_w + t;
#pragma unroll
        for (int j = 0; j < 6; j++) vstore16(out[j], 0, to + j * (TILES + 16));
      }
#undef ACROSS
  }
  __global float *to = POINTER(float, v) + channel * s.pitch + first * s.tiles_w;
  // Behind the last tile are zeros, as behind rows: numbers below the normal ones would take long to multiply.
  const long present = rows * s.tiles_w;
  const long all = first + rows == s.rows ? (first * s.tiles_w + present + 15) / 16 * 16 - first * s.tiles_w : present;
  for (int i = 0; i < 36; i++) {
    __local float *from = tiles + i * (TILES + 16);
    vstore16((VEC)(0), 0, from + present);
    copy_out(from, to + i * s.v_plane, all);
  }
}

// MR rows of M and 16 * WIDTH columns, from a panel of U and columns of V.
#define DEFINE_MULTIPLY(name, WIDTH)                                                                           \
  inline void name(__global const float *u, __local const float *v, long channels, __global float *m, long pitch) { \
    VEC acc[MR][WIDTH];                                                                                        \
    _Pragma("unroll") for (int i = 0; i < MR; i++)                                                             \
      _Pragma("unroll") for (int j = 0; j < WIDTH; j++) acc[i][j] = (VEC)(0);                                  \
    for (long c = 0; c < channels; c++) {                                                                      \
      VEC b[WIDTH];                                                                                            \
      _Pragma("unroll") for (int j = 0; j < WIDTH; j++) b[j] = vload16(j, v + c * 16 * WIDTH);                 \
      _Pragma("unroll") for (int i = 0; i < MR; i++) {                                                         \
        const VEC a = (VEC)(u[c * MR + i]);                                                                    \
        _Pragma("unroll") for (int j = 0; j < WIDTH; j++) acc[i][j] = fma(a, b[j], acc[i][j]);                 \
      }                                                                                                        \
    }                                                                                                          \
    _Pragma("unroll") for (int i = 0; i < MR; i++)                                                             \
      _Pragma("unroll") for (int j = 0; j < WIDTH; j++) vstore16(acc[i][j], j, m + i * pitch);                 \
  }                                                                                                            \
  inline void all_##name(__global const float *u, __global const float *v, __local float *b, long first, long end, \
                         __global float *m, const Shape *s) {                                                  \
    for (long c = 0; c < s->channels; c++)                                                                     \
      _Pragma("unroll") for (int j = 0; j < WIDTH; j++)                                                        \
          vstore16(vload16(j, v + c * s->pitch), j, b + c * 16 * WIDTH);                                       \
    for (long i = first; i < end; i++)                                                                         \
      name(u + i * s->channels * MR, b, s->channels, m + i * MR * s->pitch, s->pitch);                         \
  }
DEFINE_MULTIPLY(multiply, (NR / 16))
#if NR > 32
DEFINE_MULTIPLY(multiply_two, 2)
#endif
#if NR > 16
DEFINE_MULTIPLY(multiply_one, 1)
#endif

// M = U V for one of the 36 numbers, NR columns and some panels.
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void winograd_rows_products(CONST_GLOBAL(float, u), CONST_GLOBAL(float, v), GLOBAL(float, m),
                                          const Shape shape) {
  const Shape *s = &shape;
  __local float b[CHANNELS * NR] __attribute__((aligned(64)));
  const long plane = get_group_id(2), column = get_group_id(0) * NR, first = get_group_id(1) * s->panels_at_once;
  const long end = min(first + s->panels_at_once, s->panels), columns = (s->rows * s->tiles_w + 15) / 16 * 16 - column;
  __global const float *U = CONST_POINTER(float, u) + plane * s->u_plane;
  __global const float *V = CONST_POINTER(float, v) + plane * s->v_plane + column;
  __global float *M = POINTER(float, m) + plane * s->m_plane + column;
#if NR > 16
  if (columns == 16) all_multiply_one(U, V, b, first, end, M, s);
  else
#endif
#if NR > 32
  if (columns == 32) all_multiply_two(U, V, b, first, end, M, s);
  else
#endif
    all_multiply(U, V, b, first, end, M, s);
}

// Results of an output and some rows of tiles.
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void winograd_rows_from(CONST_GLOBAL(float, m), GLOBAL(float, y), CONST_GLOBAL(float, bias),
                                      CONST_GLOBAL(float, e), const int biased, const Shape s) {
  __local float lines[4 * LINE];
  const long output = get_group_id(0), first = get_group_id(1) * s.rows_at_once;
  const long end = min(first + s.rows_at_once, s.rows), line = (s.tiles_w + 15) / 16 * 64 + 16;
  const VEC addend = (VEC)(biased ? CONST_POINTER(float, bias)[output * s.bias] : 0);
  for (long r = first; r < end; r++) {
    __global const float *from = CONST_POINTER(float, m) + output * s.pitch + r * s.tiles_w;
    for (long t = 0; t < s.tiles_w; t += 16) {
      VEC half_way[4][6];
#define DOWN(i) half_way[i][j]
#pragma unroll
      for (int j = 0; j < 6; j++) {
        __global const float *at = from + j * s.m_plane + t;
        const VEC d0 = vload16(0, at), d1 = vload16(0, at + 6 * s.m_plane), d2 = vload16(0, at + 12 * s.m_plane);
        const VEC d3 = vload16(0, at + 18 * s.m_plane), d4 = vload16(0, at + 24 * s.m_plane);
        const VEC d5 = vload16(0, at + 30 * s.m_plane);
        TO_OUTPUT(DOWN, d0, d1, d2, d3, d4, d5)
      }
#undef DOWN
#define ACROSS(j) out[j]
#pragma unroll
      for (int i = 0; i < 4; i++) {
        VEC out[4];
        TO_OUTPUT(ACROSS, half_way[i][0], half_way[i][1], half_way[i][2], half_way[i][3], half_way[i][4],
                  half_way[i][5])
        const VEC a = LOW(out[0], out[2]), b = HIGH(out[0], out[2]), c = LOW(out[1], out[3]), d = HIGH(out[1], out[3]);
        __local float *to = lines + i * line + 4 * t;
        vstore16(LOW(a, c), 0, to), vstore16(HIGH(a, c), 1, to), vstore16(LOW(b, d), 2, to), vstore16(HIGH(b, d), 3, to);
      }
#undef ACROSS
    }
    const long number = s.first_row + r, image = number / s.tiles_h, h = (number - image * s.tiles_h) * 4;
    for (long i = 0; i < min(4L, s.y_height - h); i++) {
      const long at = image * s.y_image + output * s.y_channel + (h + i) * s.y_row;
      __global float *to = POINTER(float, y) + at;
#if RESIDUAL
      __global const float *residual = CONST_POINTER(float, e) + at;
#endif
      for (long j = 0; j < s.y_width; j += 16) {
        const long count = min(16L, s.y_width - j);
        VEC sum = vload16(0, lines + i * line + j) + addend;
#if RESIDUAL
        sum += count == 16 ? vload16(0, residual + j) : load_some(residual + j, (int)count);
#endif
        const VEC finished = ACTIVATE(sum);
        if (count == 16) vstore16(finished, 0, to + j);
        else store_some(finished, to + j, (int)count);
      }
    }
  }
}
