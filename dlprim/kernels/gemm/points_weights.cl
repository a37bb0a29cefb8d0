// SPDX-License-Identifier: MIT
// Gradients of a convolution's weights on CPUs, where channels lie side by side: sums over all points of a row of y's
// gradient, which comes as A[point][m] or in pairs of points, by NR channels of the image at one tap. A work-group is
// one work-item: it lays its channels of SLICE points in local memory, zeros for those outside the image, and
// multiplies them by MR of up to MB rows at a time. Each group is a batch. The host also defines
//   MR, NR, MB, SLICE
//   LANES          rows and channels of a group where a work-item takes the 16 rows and channels (NR) of several at
//                  once, of m rows in all; the last one's are the last 16, of which another one may have some; else 0
//   BFLOAT16_DOT   where these are multiplied as pairs of bfloat16, of neighbouring points (lib/bfloat16_dot.clh)
#define VEC float16
#define ACTIVATED VEC
#include "gemm/operands.clh"
#include "lib/bfloat16_dot.clh"
#include "lib/vectors.clh"

#ifdef BFLOAT16_DOT
#define EACH 2  // points of an element
typedef uint16 Row;
#else
#define EACH 1
typedef float16 Row;
#endif
#define WIDTH (NR / 16)

// 16 channels, of which there are `count`, as the bits that are packed.
inline Row load_row(__global const STORAGE(TB) *x, int count) {
  STORAGE(TB) each[16] = {0};
  if (count == 8) vstore8(vload8(0, x), 0, each);
  else if (count < 16) {
    NOUNROLL for (int k = 0; k < count; k++) each[k] = x[k];
  }
#ifdef BFLOAT16_DOT
  return convert_uint16(count < 16 ? vload16(0, each) : vload16(0, x));
#else
  return count < 16 ? vload16(0, each) : vload16(0, x);
#endif
}

// Lays `count` channels from `channel` on of the points from q on, `number` of them, at their place under a tap.
inline void lay_points(__global const STORAGE(TB) *x, INDEX q, int number, Place tap, INDEX channel, int count,
                       __local T *to, const Params *p) {
  Row before[WIDTH];
  for (int j = 0; j < WIDTH; j++) before[j] = (Row)(0);
  for (int done = 0; done < number;) {
    const Place point = place_point(q + done, p);
    const int length = (int)min(p->out_w.size - (q + done) % p->out_w.size, (INDEX)(number - done));
    bool row = true;
#if CHECK && RANK > 1
    row = (uint)(point.h + tap.h) < (uint)p->in_h;
#endif
#if CHECK && RANK > 2
    row = row && (uint)(point.d + tap.d) < (uint)p->in_d;
#endif
    for (int i = 0; i < length; i++) {
      const int w = point.w + tap.w + i * (int)p->step_w;
      const bool inside = !CHECK || (row && (uint)w < (uint)p->in_w);
      __global const STORAGE(TB) *from = x + point.x + tap.x + i * p->step_w * p->x_w + channel;
      const int at = done + i;
      _Pragma("unroll") for (int j = 0; j < WIDTH; j++) {
        const int some = min(16, count - 16 * j);
        const Row now = inside && some > 0 ? load_row(from + 16 * j, some) : (Row)(0);
#ifdef BFLOAT16_DOT
        if (at % 2) vstore16(as_float16(before[j] | now << 16), at / 2 * WIDTH + j, to);
        else if (at + 1 == number) vstore16(as_float16(now), at / 2 * WIDTH + j, to);
        before[j] = now;
#else
        vstore16(now, at * WIDTH + j, to);
#endif
      }
    }
    done += length;
  }
}

// sums (+)= MR rows of A, of which `last` is the last one there is, by what is laid, over `number` elements.
inline void multiply(__global const T *a, int last, __local const T *x, int number, __local T *sums, bool first,
                     const Params *p) {
  VEC acc[MR][WIDTH];
  int row[MR];
  _Pragma("unroll") for (int i = 0; i < MR; i++) {
    row[i] = min(i, last);
    _Pragma("unroll") for (int j = 0; j < WIDTH; j++) acc[i][j] = (VEC)(0);
  }
  for (int l = 0; l < number; l++, a += p->a_k) {
    VEC bv[WIDTH];
    _Pragma("unroll") for (int j = 0; j < WIDTH; j++) bv[j] = vload16(l * WIDTH + j, x);
    _Pragma("unroll") for (int i = 0; i < MR; i++) {
      const VEC av = (VEC)(a[row[i]]);
      _Pragma("unroll") for (int j = 0; j < WIDTH; j++) acc[i][j] = ADD_PRODUCTS(acc[i][j], av, bv[j]);
    }
  }
  _Pragma("unroll") for (int i = 0; i < MR; i++)
    _Pragma("unroll") for (int j = 0; j < WIDTH; j++)
      vstore16(first ? acc[i][j] : acc[i][j] + vload16(j, sums + i * NR), j, sums + i * NR);
}

#if LANES
#define AT_ONCE (8 / LANES)  // points, for as many sums as hide how long one takes
#define CHANNELS LANES
#include "gemm/lanes.clh"

// sums[c] += 16 rows of A, each by channel c of its group of what is laid, over `number` elements.
inline void multiply_lanes(__global const T *a, __local const T *x, int number, VEC *sums, const Params *p) {
  VEC acc[AT_ONCE][LANES];
  _Pragma("unroll") for (int i = 0; i < AT_ONCE; i++)
    _Pragma("unroll") for (int c = 0; c < LANES; c++) acc[i][c] = (VEC)(0);
  int l = 0;
#define ADD_ELEMENT(i)                                                                 \
  {                                                                                    \
    const VEC row = vload16(0, a + (l + i) * p->a_k), channels = vload16(l + i, x);    \
    _Pragma("unroll") for (int c = 0; c < LANES; c++)                                  \
      acc[i][c] = ADD_PRODUCTS(acc[i][c], row, shuffle(channels, CHANNEL_OF_LANES + (uint)c)); \
  }
  for (; l + AT_ONCE <= number; l += AT_ONCE) {
    _Pragma("unroll") for (int i = 0; i < AT_ONCE; i++) ADD_ELEMENT(i)
  }
  for (; l < number; l++) ADD_ELEMENT(0)
  _Pragma("unroll") for (int c = 0; c < LANES; c++) {
    for (int i = 1; i < AT_ONCE; i++) acc[0][c] += acc[i][c];
    sums[c] += acc[0][c];
  }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void gemm_points_weights(GEMM_ARGUMENTS) {
  const Params *p = &params;
  __local T laid[SLICE / EACH * NR] __attribute__((aligned(64)));
  const Tile tile = tile_of(get_group_id(0), p);
  const INDEX row = min(tile.batch * 16, p->m - 16);
  __global const T *A = CONST_POINTER(STORAGE(TA), a) + row;
  const Place place = place_tap(tile.n * LANES, p);
  VEC sums[LANES];
  for (int c = 0; c < LANES; c++) sums[c] = 0;
  for (INDEX q = 0; q < p->k; q += SLICE) {
    const int points = (int)min((INDEX)SLICE, p->k - q);
    lay_points(CONST_POINTER(STORAGE(TB), b), q, points, place, row, 16, laid, p);
    multiply_lanes(A + q / EACH * p->a_k, laid, (points + EACH - 1) / EACH, sums, p);
  }
  __global STORAGE(TC) *C = POINTER(STORAGE(TC), c) + row * p->c_m + tile.n * LANES;
  for (int c = 0; c < LANES; c++) {
    T each[16];
    vstore16(sums[c] * alpha, 0, each);
    NOUNROLL for (int i = 0; i < 16; i++) STORE(TC, C, i * p->c_m + c, each[i]);
  }
}
#else
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void gemm_points_weights(GEMM_ARGUMENTS) {
  const Params *p = &params;
  __local T sums[MB * NR] __attribute__((aligned(64))), laid[SLICE / EACH * NR] __attribute__((aligned(64)));
  const Tile tile = tile_of(get_group_id(0), p);
  const INDEX blocks = (p->channels.size + NR - 1) / NR, tap = tile.n / blocks, channel = tile.n % blocks * NR;
  const INDEX m0 = tile.m * p->tile_m, begin = tile.split * p->k_split, end = min(p->k, begin + p->k_split);
  const int rows = (int)min(p->tile_m, p->m - m0), count = (int)min((INDEX)NR, p->channels.size - channel);
  __global const T *A = CONST_POINTER(STORAGE(TA), a) + tile.batch * p->a_batch + m0;
  __global const STORAGE(TB) *X = CONST_POINTER(STORAGE(TB), b) + tile.batch * p->b_batch;
  const Place place = place_tap(tap * p->channels.size, p);
  for (INDEX q = begin; q < end; q += SLICE) {
    const int points = (int)min((INDEX)SLICE, end - q);
    lay_points(X, q, points, place, channel, count, laid, p);
    for (int i = 0; i < rows; i += MR)
      multiply(A + q / EACH * p->a_k + i, rows - i - 1, laid, (points + EACH - 1) / EACH, sums + i * NR, q == begin, p);
  }
#if SPLIT
  const INDEX pitch = p->n, first = ((tile.batch * p->splits + tile.split) * p->m + m0) * p->n;
#else
  const INDEX pitch = p->c_m, first = tile.batch * p->c_batch + m0 * p->c_m;
#endif
  __global STORAGE(TC) *C = POINTER(STORAGE(TC), c) + first + tap * p->channels.size + channel;
  NOUNROLL for (int i = 0; i < rows; i++)
    NOUNROLL for (int j = 0; j < count; j += 16) {
      const VEC sum = vload16(0, sums + i * NR + j) * (SPLIT ? 1 : alpha);
      if (count - j >= 16) {
        vstore16(ENCODE16(TC, sum), 0, C + i * pitch + j);
        continue;
      }
      STORAGE(TC) each[16];
      vstore16(ENCODE16(TC, sum), 0, each);
      for (int v = 0; v < count - j; v++) C[i * pitch + j + v] = each[v];
    }
}
#endif
