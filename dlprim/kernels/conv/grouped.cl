// SPDX-License-Identifier: MIT
// Convolutions whose groups have few channels, for float images (two dimensions) with contiguous rows, and their data
// gradients: convolutions of dy, laid out at the stride's distance, by the weights mirrored. A work-group computes a block of one group's
// positions, rows x columns at most, in an image; what it reads and the group's weights lie in local memory. A work-item
// computes four positions of a row in TILE channels.
// Defines besides lib/image_rows.clh's: CO, CI: channels of a group that are written and read; TILE: a divisor of CO; KH,
// KW; SH, SW: stride; DH, DW: dilation; CAPACITY: floats of the copy; OFFSET: where a block's columns begin in it, below
// 4; PHASE: what is missing from the padding to a multiple of UP_W; DATA: the weights are of the data gradient; BIAS; ACTIVATE(x); ALIGNED: four results are stored at once.
#include "lib/types.clh"
#include "lib/image_rows.clh"

typedef float T;
#include "lib/activations.clh"

#define TAPS (KH * KW)
#define SPAN (3 * SW + (KW - 1) * DW + 1)  // columns that four positions read
#define VECTORS ((OFFSET + SPAN + 3) / 4)
// Whether the tap meets an element of dy at a position, not a zero between these: zero times an infinite weight is NaN.
#define MEETS(e, kx) (((4 % UP_W ? left + 4 * quad : 0) + (e) + (kx) * DW + PHASE) % UP_W == 0)

typedef struct {
  long from_n, from_c, from_h, to_n, to_c, to_h, w_outer, w_c, w_h, w_w, bias_stride;
  int groups, in_h, in_w, out_h, out_w, pad_h, pad_w;
  int rows, columns;         // of a block; columns a multiple of 4
  int from_rows, pitch;      // of its copy
  int blocks_h, blocks_w, padding;
} Shape;

// The group's weights, [CI, taps, CO].
inline void copy_weights(__local float *to, __global const float *weights, int group, const Shape *p) {
  for (int i = get_local_id(0); i < CI * TAPS * CO; i += GROUP) {
    const int o = i % CO, tap = i / CO % TAPS, c = i / (CO * TAPS), ky = tap / KW, kx = tap % KW;
#if DATA
    to[i] = weights[(group * CI + c) * p->w_outer + o * p->w_c + (KH - 1 - ky) * p->w_h + (KW - 1 - kx) * p->w_w];
#else
    to[i] = weights[(group * CO + o) * p->w_outer + c * p->w_c + ky * p->w_h + kx * p->w_w];
#endif
  }
}

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void grouped(CONST_GLOBAL(float, from), CONST_GLOBAL(float, weights), CONST_GLOBAL(float, bias), GLOBAL(float, to),
             const Shape shape) {
  const Shape *p = &shape;
  __local float xs[CAPACITY] __attribute__((aligned(16)));
  __local float ws[CI * TAPS * CO] __attribute__((aligned(16)));
  const uint block = get_group_id(0), group = block % (uint)p->groups, place = block / (uint)p->groups;
  const uint line = place / (uint)p->blocks_w, image = line / (uint)p->blocks_h;
  const int rows = p->rows, columns = p->columns, quads = columns / 4, pitch = p->pitch;
  const int left = place % (uint)p->blocks_w * columns, top = line % (uint)p->blocks_h * rows;
  copy_rows(xs, pitch, CONST_POINTER(float, from) + image * p->from_n + group * (CI * p->from_c), CI, p->from_rows,
            p->from_c, p->from_h, top * SH - p->pad_h, left * SW - p->pad_w - OFFSET, p->in_h, p->in_w);
  copy_weights(ws, CONST_POINTER(float, weights), group, p);
  barrier(CLK_LOCAL_MEM_FENCE);

  const int there = min(rows, p->out_h - top);
  for (int item = get_local_id(0); item < there * quads * (CO / TILE); item += GROUP) {
    const int quad = item % quads, row = item / quads % there, first = item / (quads * there) * TILE;
    const int valid = min(4, p->out_w - left - 4 * quad);
    if (valid <= 0) continue;
    float sum[TILE][4];
    UNROLL for (int o = 0; o < TILE; o++) {
#if BIAS
      const float start = CONST_POINTER(float, bias)[(group * CO + first + o) * p->bias_stride];
#else
      const float start = 0;
#endif
      UNROLL for (int e = 0; e < 4; e++) sum[o][e] = start;
    }
    for (int c = 0; c < CI; c++)
      UNROLL for (int ky = 0; ky < KH; ky++) {
        if ((top + row + ky * DH - p->pad_h) % UP_H != 0) continue;
        const __local float *x = xs + (c * p->from_rows + row * SH + ky * DH) * pitch + 4 * SW * quad;
        const __local float *w = ws + (c * TAPS + ky * KW) * CO + first;
        float window[4 * VECTORS];
        UNROLL for (int v = 0; v < VECTORS; v++) FOUR_OF(window + 4 * v, x + 4 * v)
        UNROLL for (int kx = 0; kx < KW; kx++) {
          float weight[TILE];
#if TILE % 4 == 0
          UNROLL for (int o = 0; o < TILE; o += 4) FOUR_OF(weight + o, w + kx * CO + o)
#else
          UNROLL for (int o = 0; o < TILE; o++) weight[o] = w[kx * CO + o];
#endif
          UNROLL for (int o = 0; o < TILE; o++)
            UNROLL for (int e = 0; e < 4; e++)
              if (MEETS(e, kx)) sum[o][e] = fma(weight[o], window[OFFSET + e * SW + kx * DW], sum[o][e]);
        }
      }
    __global float *y = POINTER(float, to) + image * p->to_n + (group * CO + first) * p->to_c + (top + row) * p->to_h +
                        left + 4 * quad;
    UNROLL for (int o = 0; o < TILE; o++, y += p->to_c) {
#if ALIGNED
      *(__global float4 *)y =
          (float4)(ACTIVATE(sum[o][0]), ACTIVATE(sum[o][1]), ACTIVATE(sum[o][2]), ACTIVATE(sum[o][3]));
#else
      UNROLL for (int e = 0; e < 4; e++)
        if (e < valid) y[e] = ACTIVATE(sum[o][e]);
#endif
    }
  }
}
