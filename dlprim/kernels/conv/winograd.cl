// SPDX-License-Identifier: MIT
// Transforms of Winograd's F(4x4, 3x3): A. Lavin, S. Gray, "Fast algorithms for convolutional neural networks", 2015.
// A patch p of a channel turns into 36 numbers and back by out = L in L^T. The points 0, +-3/4, +-3/2 and infinity keep
// the matrices' entries close to 1, which halves the rounding errors of 0, +-1, +-2: the choice of B. Barabasz et al.,
// "Error analysis and improving the accuracy of Winograd convolution", 2018.
// Defines: L (a matrix below), R rows and S columns of it; for `winograd_from` also ADDEND, ACTIVATE(x).
#include "lib/types.clh"

#define FROM_DATA                                                                           \
  {{81.f / 64, 0, -45.f / 16, 0, 1, 0},       {0, -27.f / 16, -9.f / 4, .75f, 1, 0},         \
   {0, 27.f / 16, -9.f / 4, -.75f, 1, 0},     {0, -27.f / 32, -9.f / 16, 1.5f, 1, 0},        \
   {0, 27.f / 32, -9.f / 16, -1.5f, 1, 0},    {0, 81.f / 64, 0, -45.f / 16, 0, 1}}
#define FROM_WEIGHTS                                                                        \
  {{64.f / 81, 0, 0},                         {-128.f / 243, -32.f / 81, -8.f / 27},         \
   {-128.f / 243, 32.f / 81, -8.f / 27},      {32.f / 243, 16.f / 81, 8.f / 27},             \
   {32.f / 243, -16.f / 81, 8.f / 27},        {0, 0, 1}}
#define FROM_GRADIENT                                                                       \
  {{1, 0, 0, 0},                              {1, .75f, 9.f / 16, 27.f / 64},                \
   {1, -.75f, 9.f / 16, -27.f / 64},          {1, 1.5f, 9.f / 4, 27.f / 8},                  \
   {1, -1.5f, 9.f / 4, -27.f / 8},            {0, 0, 0, 1}}
#define TO_OUTPUT                                                                           \
  {{1, 1, 1, 1, 1, 0},                        {0, .75f, -.75f, 1.5f, -1.5f, 0},              \
   {0, 9.f / 16, 9.f / 16, 9.f / 4, 9.f / 4, 0}, {0, 27.f / 64, -27.f / 64, 27.f / 8, -27.f / 8, 1}}
#define TO_WEIGHTS                                                                          \
  {{64.f / 81, -128.f / 243, -128.f / 243, 32.f / 243, 32.f / 243, 0},                       \
   {0, -32.f / 81, 32.f / 81, 16.f / 81, -16.f / 81, 0},                                     \
   {0, -8.f / 27, -8.f / 27, 8.f / 27, 8.f / 27, 1}}

// Patch p of a channel: image p / (tiles_h tiles_w), then tiles of 4 x 4 row by row; `height` x `width` elements exist.
// The 36 numbers lie `plane` apart, those of channels `pitch`.
typedef struct {
  long outer, channel, row, column, plane;
  int height, width, origin_h, origin_w, tiles_h, tiles_w;
  uint count, pitch;
} Patches;

#define LOCATE                                                                                         \
  const uint p = get_global_id(0), channel = get_global_id(1);                                         \
  if (p >= s.pitch) return;                                                                            \
  const uint line = p / s.tiles_w, image = line / s.tiles_h;                                           \
  const int h = (int)(line - image * s.tiles_h) * 4 + s.origin_h, w = (int)(p - line * s.tiles_w) * 4 + s.origin_w; \
  const long at = image * s.outer + channel * s.channel + h * s.row + w * s.column;                    \
  const long in_domain = channel * (long)s.pitch + p;                                                  \
  const float matrix[R][S] = L;

// out = matrix in matrix^T; zeros of the matrix cost nothing.
#define TRANSFORM(in, out)                                        \
  float half_way[R][S], out[R][R];                                \
  _Pragma("unroll") for (int i = 0; i < R; i++)                   \
      _Pragma("unroll") for (int j = 0; j < S; j++) {             \
    half_way[i][j] = 0;                                           \
    _Pragma("unroll") for (int k = 0; k < S; k++)                 \
      if (matrix[i][k] != 0) half_way[i][j] += matrix[i][k] * in[k][j]; \
  }                                                               \
  _Pragma("unroll") for (int i = 0; i < R; i++)                   \
      _Pragma("unroll") for (int j = 0; j < R; j++) {             \
    out[i][j] = 0;                                                \
    _Pragma("unroll") for (int k = 0; k < S; k++)                 \
      if (matrix[j][k] != 0) out[i][j] += matrix[j][k] * half_way[i][k]; \
  }

// Patches of S x S into the domain; those from `count` on are zeros.
__kernel void winograd_into(CONST_GLOBAL(float, from), GLOBAL(float, to), const Patches s) {
  LOCATE
  __global const float *from = CONST_POINTER(float, from) + at;
  __global float *to = POINTER(float, to) + in_domain;
  float in[S][S];
#pragma unroll
  for (int i = 0; i < S; i++)
#pragma unroll
    for (int j = 0; j < S; j++) {
      const bool inside = p < s.count & (uint)(h + i) < (uint)s.height & (uint)(w + j) < (uint)s.width;
      in[i][j] = inside ? from[i * s.row + j * s.column] : 0;
    }
  TRANSFORM(in, out)
#pragma unroll
  for (int i = 0; i < R * R; i++) to[i * s.plane] = out[i / R][i % R];
}

#ifdef ADDEND
typedef float T;
#include "lib/activations.clh"

// Back to patches of R x R.
__kernel void winograd_from(CONST_GLOBAL(float, from), GLOBAL(float, to), CONST_GLOBAL(float, bias), long bias_stride,
                            const Patches s) {
  LOCATE
  if (p >= s.count) return;
  __global const float *from = CONST_POINTER(float, from) + in_domain;
  __global float *to = POINTER(float, to) + at;
  float in[S][S];
#pragma unroll
  for (int i = 0; i < S * S; i++) in[i / S][i % S] = from[i * s.plane];
  TRANSFORM(in, out)
  const float addend = ADDEND ? CONST_POINTER(float, bias)[channel * bias_stride] : 0;
#pragma unroll
  for (int i = 0; i < R; i++)
#pragma unroll
    for (int j = 0; j < R; j++) {
      const float x = out[i][j] + addend;
      if (h + i < s.height && w + j < s.width) to[i * s.row + j * s.column] = ACTIVATE(x);
    }
}
#endif
