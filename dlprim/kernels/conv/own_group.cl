// SPDX-License-Identifier: MIT
// Computes again what joined groups (conv/cores/groups.cpp) made of an Inf or a NaN: the zeros between groups times
// these are NaN, in every group of the set. The host defines TYPE, ACTIVATE(x), BIAS, RESIDUAL, DATA (the data
// gradient), ITEMS: work-items an image and set.
#include "lib/types.clh"

typedef float T;
#include "lib/activations.clh"

typedef struct {
  long from_stride[5], to_stride[5], residual_stride[5], w_stride[5];  // outer, channel, d, h, w
  long from[3], to[3], taps[3], stride[3], padding[3], dilation[3];
  long sets, from_channels, to_channels, together;  // channels of one group; groups of a set
  long bias_stride;
} Groups;

// The position that a tap reads along an axis; -1 outside.
inline long source(long at, long tap, int axis, const Groups *g) {
#if DATA
  const long q = at + g->padding[axis] - tap * g->dilation[axis], place = q / g->stride[axis];
  return q >= 0 && place * g->stride[axis] == q && place < g->from[axis] ? place : -1;
#else
  const long place = at * g->stride[axis] - g->padding[axis] + tap * g->dilation[axis];
  return place >= 0 && place < g->from[axis] ? place : -1;
#endif
}

inline long offset(const long *strides, long outer, long channel, const long *at) {
  return outer * strides[0] + channel * strides[1] + at[0] * strides[2] + at[1] * strides[3] + at[2] * strides[4];
}

__kernel void own_group(CONST_GLOBAL(uchar, flags), CONST_GLOBAL(STORAGE(TYPE), from),
                        CONST_GLOBAL(STORAGE(TYPE), weights), CONST_GLOBAL(STORAGE(TYPE), bias),
                        CONST_GLOBAL(STORAGE(TYPE), residual), GLOBAL(STORAGE(TYPE), to), const Groups g) {
  const long set = get_global_id(0) / ITEMS, n = set / g.sets;
  if (!CONST_POINTER(uchar, flags)[set]) return;
  const long positions = g.to[0] * g.to[1] * g.to[2], count = g.together * g.to_channels * positions;
  for (long i = get_global_id(0) % ITEMS; i < count; i += ITEMS) {
    const long channel = set % g.sets * g.together * g.to_channels + i / positions, group = channel / g.to_channels;
    const long at[3] = {i % positions / (g.to[1] * g.to[2]), i / g.to[2] % g.to[1], i % g.to[2]};
    T sum = 0;
    for (long d = 0; d < g.taps[0]; d++)
      for (long h = 0; h < g.taps[1]; h++)
        for (long w = 0; w < g.taps[2]; w++) {
          const long tap[3] = {d, h, w};
          const long place[3] = {source(at[0], d, 0, &g), source(at[1], h, 1, &g), source(at[2], w, 2, &g)};
          if (place[0] < 0 || place[1] < 0 || place[2] < 0) continue;
          for (long c = group * g.from_channels; c < (group + 1) * g.from_channels; c++) {
#if DATA
            const long weight = offset(g.w_stride, c, channel - group * g.to_channels, tap);
#else
            const long weight = offset(g.w_stride, channel, c - group * g.from_channels, tap);
#endif
            sum += LOAD(TYPE, CONST_POINTER(STORAGE(TYPE), weights), weight) *
                   LOAD(TYPE, CONST_POINTER(STORAGE(TYPE), from), offset(g.from_stride, n, c, place));
          }
        }
#if BIAS
    sum += LOAD(TYPE, CONST_POINTER(STORAGE(TYPE), bias), channel * g.bias_stride);
#endif
#if RESIDUAL
    sum += LOAD(TYPE, CONST_POINTER(STORAGE(TYPE), residual), offset(g.residual_stride, n, channel, at));
#endif
    STORE(TYPE, POINTER(STORAGE(TYPE), to), offset(g.to_stride, n, channel, at), ACTIVATE(sum));
  }
}
