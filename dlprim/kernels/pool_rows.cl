// SPDX-License-Identifier: MIT
// Largest elements of sliding windows over images on CPUs, without indices: a work-item computes a plane, row by row, in
// vectors: first the largest of a column of each window's rows, then of the windows' columns. Each window has an element.
// Defines: T tag of a floating type computed in float; KERNEL_H, KERNEL_W, STRIDE_H, STRIDE_W of windows, STRIDE_W 1 or 2;
//   CAPACITY floats of a row with its padding.
#include "lib/types.clh"
#include "lib/vectors.clh"

// Mirrored by Rows of primitives/pool.cpp: strides of images, channels and rows.
typedef struct {
  long in_n, in_c, in_h, out_n, out_c, out_h;
  int in[2], out[2], pad[2];
} Rows;

// NaN is larger than all.
inline float16 larger(float16 best, float16 v) { return select(best, v, (v > best) | (v != v)); }

inline void column_maxima(__global const STORAGE(T) *in, const Rows *r, int first, int last, __local float *row) {
  const int width = r->in[1];
  for (int w = 0; w < width; w += 16) {
    const int start = w + 16 <= width ? w : max(width - 16, 0), count = min(16, width);
    float16 best = -INFINITY;
    for (int h = first; h < last; h++) {
      __global const STORAGE(T) *from = in + h * r->in_h + start;
      float16 v;
      if (count == 16) v = LOAD16(T, from);
      else {
        float each[16] = {0};
        for (int i = 0; i < count; i++) each[i] = LOAD(T, from, i);
        v = vload16(0, each);
      }
      best = larger(best, v);
    }
    float each[16];
    vstore16(best, 0, each);
    if (count == 16) vstore16(best, 0, row + r->pad[1] + start);
    else
      for (int i = 0; i < count; i++) row[r->pad[1] + i] = each[i];
  }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void max_rows(CONST_GLOBAL(STORAGE(T), in),
                                                                     GLOBAL(STORAGE(T), out), const Rows rows) {
  __local float row[CAPACITY];
  const Rows *r = &rows;
  __global const STORAGE(T) *in = CONST_POINTER(STORAGE(T), in) + get_group_id(1) * r->in_n + get_group_id(0) * r->in_c;
  __global STORAGE(T) *out = POINTER(STORAGE(T), out) + get_group_id(1) * r->out_n + get_group_id(0) * r->out_c;
  for (int i = 0; i < (r->out[1] + 16) * STRIDE_W + KERNEL_W; i++) row[i] = -INFINITY;
  for (int h = 0; h < r->out[0]; h++, out += r->out_h) {
    const int top = h * STRIDE_H - r->pad[0];
    column_maxima(in, r, max(top, 0), min(top + KERNEL_H, r->in[0]), row);
    for (int w = 0; w < r->out[1]; w += 16) {
      float16 best = -INFINITY;
#pragma unroll
      for (int k = 0; k < KERNEL_W; k++) {
        __local const float *from = row + w * STRIDE_W + k;
#if STRIDE_W == 1
        best = larger(best, vload16(0, from));
#else
        best = larger(best, (float16)(vload16(0, from).even, vload16(1, from).even));
#endif
      }
      if (w + 16 <= r->out[1]) vstore16(ENCODE16(T, best), 0, out + w);
      else {
        STORAGE(T) each[16];
        vstore16(ENCODE16(T, best), 0, each);
        for (int i = 0; w + i < r->out[1]; i++) out[w + i] = each[i];
      }
    }
  }
}
