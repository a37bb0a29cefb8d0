// SPDX-License-Identifier: MIT
// Gradients of the weights of convolutions whose groups have few channels, for float images (two dimensions) with
// contiguous rows. A work-group sums one group's over a slice of the blocks of positions, rows x columns at most, whose
// x and dy lie in local memory; a work-item sums TILE_Y x TILE_X channels at all taps, of every LANES-th four positions
// of a row. Partial sums go to memory, [slices, channels of y, CI, KH, KW].
// Defines besides lib/image_rows.clh's: CO, CI: channels of a group in y and x; TILE_Y, TILE_X: divisors of them; KH, KW;
// SH, SW: stride; DH, DW: dilation; CAPACITY_X, CAPACITY_Y: floats of the copies; OFFSET: where a block's columns of x
// begin in its copy, below 4.
#include "lib/types.clh"
#include "lib/image_rows.clh"

#define TAPS (KH * KW)
#define SPAN (3 * SW + (KW - 1) * DW + 1)  // columns of x that four positions read
#define VECTORS ((OFFSET + SPAN + 3) / 4)
#define TILES_X (CI / TILE_X)
#define TILES (CO / TILE_Y * TILES_X)
#define LANES (GROUP / TILES)

typedef struct {
  long x_n, x_c, x_h, y_n, y_c, y_h;
  int groups, in_h, in_w, out_h, out_w, pad_h, pad_w;
  int rows, columns;                       // of a block, in y; columns a multiple of 4
  int x_rows, x_pitch;                     // of its copy of x
  int blocks_h, blocks_w, blocks, slices;  // blocks: of all images
} Shape;

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void grouped_weights(CONST_GLOBAL(float, x), CONST_GLOBAL(float, y), GLOBAL(float, sums), const Shape shape) {
  const Shape *p = &shape;
  __local float xs[CAPACITY_X] __attribute__((aligned(16)));
  __local float ys[CAPACITY_Y] __attribute__((aligned(16)));
  const uint id = get_local_id(0), tile = id % TILES, lane = id / TILES;
  const uint first_y = tile / TILES_X * TILE_Y, first_x = tile % TILES_X * TILE_X;
  const uint group = get_group_id(0) % (uint)p->groups, slice = get_group_id(0) / (uint)p->groups;
  const uint blocks = p->blocks, slices = p->slices;
  const int rows = p->rows, columns = p->columns, x_rows = p->x_rows, x_pitch = p->x_pitch, quads = columns / 4;
  float sum[TILE_Y][TILE_X][TAPS];
  UNROLL for (int i = 0; i < TILE_Y; i++)
    UNROLL for (int j = 0; j < TILE_X; j++)
      UNROLL for (int t = 0; t < TAPS; t++) sum[i][j][t] = 0;

  for (uint block = slice; block < blocks; block += slices) {
    const uint line = block / (uint)p->blocks_w, image = line / (uint)p->blocks_h;
    const int left = block % (uint)p->blocks_w * columns, top = line % (uint)p->blocks_h * rows;
    __global const float *x = CONST_POINTER(float, x) + image * p->x_n + group * (CI * p->x_c);
    __global const float *y = CONST_POINTER(float, y) + image * p->y_n + group * (CO * p->y_c);
    barrier(CLK_LOCAL_MEM_FENCE);
    copy_rows(ys, columns, y, CO, rows, p->y_c, p->y_h, top, left, p->out_h, p->out_w);
    copy_rows(xs, x_pitch, x, CI, x_rows, p->x_c, p->x_h, top * SH - p->pad_h, left * SW - p->pad_w - OFFSET, p->in_h,
              p->in_w);
    barrier(CLK_LOCAL_MEM_FENCE);
    const int there = min(rows, p->out_h - top);
    int quad = lane, row = lane < LANES ? 0 : there;
    while (quad >= quads) quad -= quads, row++;
    while (row < there) {
      // What lies behind the last column may be read, but takes no part: it may be infinite.
      const int valid = min(4, p->out_w - left - 4 * quad);
      float g[TILE_Y][4];
      UNROLL for (int i = 0; i < TILE_Y; i++)
        FOUR_OF(g[i], ys + ((first_y + i) * rows + row) * columns + 4 * quad)
      UNROLL for (int ky = 0; ky < KH; ky++) {
        float window[TILE_X][4 * VECTORS];
        UNROLL for (int j = 0; j < TILE_X; j++) {
          const __local float *from = xs + ((first_x + j) * x_rows + row * SH + ky * DH) * x_pitch + 4 * SW * quad;
          UNROLL for (int v = 0; v < VECTORS; v++) FOUR_OF(window[j] + 4 * v, from + 4 * v)
        }
        UNROLL for (int e = 0; e < 4; e++)
          if (e < valid)
            UNROLL for (int kx = 0; kx < KW; kx++)
              UNROLL for (int j = 0; j < TILE_X; j++)
                UNROLL for (int i = 0; i < TILE_Y; i++)
                  sum[i][j][ky * KW + kx] = fma(g[i][e], window[j][OFFSET + e * SW + kx * DW], sum[i][j][ky * KW + kx]);
      }
      for (quad += LANES; quad >= quads; quad -= quads) row++;
    }
  }

  // The lanes' sums become one, by way of the copies' memory.
  __global float *out = POINTER(float, sums) + ((long)slice * p->groups + group) * (CO * CI * TAPS);
  UNROLL for (int i = 0; i < TILE_Y; i++)
    UNROLL for (int j = 0; j < TILE_X; j++)
      UNROLL for (int t = 0; t < TAPS; t++) {
        barrier(CLK_LOCAL_MEM_FENCE);
        xs[id] = sum[i][j][t];
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lane != 0) continue;
        float total = 0;
        for (uint l = 0; l < LANES; l++) total += xs[tile + l * TILES];
        out[((first_y + i) * CI + first_x + j) * TAPS + t] = total;
      }
}
