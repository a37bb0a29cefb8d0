// SPDX-License-Identifier: MIT
// Pooling over up to three spatial axes, one work-item an element of the result, no atomics: gradients are gathered.
// Defines: T tag; WINDOW sliding, adaptive or fractional; CHANNELS_LAST order of work-items; INDEX int or long;
//   KERNEL_D, KERNEL_H, KERNEL_W, STRIDE_D ... of small windows without dilation, else KERNEL_W = 0;
//   one of MAX_FORWARD, MAX_BACKWARD, MAX_SCATTER, AVERAGE_FORWARD, AVERAGE_BACKWARD, UNPOOL; INDICES to write indices.
#include "lib/types.clh"

#define sliding 0
#define adaptive 1
#define fractional 2

typedef struct {
  long in_stride[5], out_stride[5], index_stride[5], sample_stride[3];  // n, c, d, h, w; n, c, axis
  int batch, channels, include_pad, divisor;
  int in[3], out[3], extent[3], stride[3], pad[3], dilation[3];
} Pooling;

typedef struct {
  int n, c, d, h, w;
} Place;

// The element of one work-item: x and y are the fastest axes in memory, z all others.
inline Place place_of(int x, int y, long z, int channels, const int *size) {
  Place at;
#ifdef CHANNELS_LAST
  at.c = x, at.w = y;
  at.h = z % size[1], z /= size[1];
  at.d = z % size[0], at.n = z / size[0];
#else
  at.w = x, at.h = y;
  at.d = size[0] == 1 ? 0 : z % size[0];
  z = size[0] == 1 ? z : z / size[0];
  at.c = z % channels, at.n = z / channels;
#endif
  return at;
}

inline long plane(const long *stride, Place at) { return at.n * stride[0] + at.c * stride[1]; }
inline INDEX within(const long *stride, int d, int h, int w) {
  return (INDEX)d * (INDEX)stride[2] + (INDEX)h * (INDEX)stride[3] + (INDEX)w * (INDEX)stride[4];
}

#define FOR_EACH(size)                                                                                  \
  const int x = get_global_id(0), y = get_global_id(1);                                                 \
  if (x >= extent_x || y >= extent_y) return;                                                           \
  for (long z = get_global_id(2); z < extent_z; z += get_global_size(2)) {                              \
    const Place at = place_of(x, y, z, p.channels, size);
#define END_FOR_EACH }
#define EXTENTS int extent_x, int extent_y, long extent_z

#if KERNEL_W
#define KERNEL(axis) (axis == 0 ? KERNEL_D : axis == 1 ? KERNEL_H : KERNEL_W)
#define STRIDE(axis) (axis == 0 ? STRIDE_D : axis == 1 ? STRIDE_H : STRIDE_W)
#else
#define KERNEL(axis) p.extent[axis]
#define STRIDE(axis) p.stride[axis]
#endif

// Windows: first element, number of elements, distance between them (first and last may lie in the padding).
#if WINDOW == adaptive
#define FIRST(axis, o) ((int)((long)(o) * p.in[axis] / p.out[axis]))
#define LENGTH(axis, o) ((int)((((long)(o) + 1) * p.in[axis] + p.out[axis] - 1) / p.out[axis]) - FIRST(axis, o))
#define STEP(axis) 1
#elif WINDOW == sliding
#define FIRST(axis, o) ((o) * STRIDE(axis) - p.pad[axis])
#define LENGTH(axis, o) KERNEL(axis)
#if KERNEL_W
#define STEP(axis) 1
#else
#define STEP(axis) p.dilation[axis]
#endif
#else
// B. Graham, "Fractional max-pooling", 2014: pseudo-random overlapping windows from one number u an axis.
inline int fractional_first(int o, int in, int out, int extent, VALUE(T) u) {
  if (o == out - 1) return in - extent;
  const VALUE(T) alpha = (VALUE(T))(in - extent) / (VALUE(T))(out - 1);
  return (int)((o + u) * alpha) - (int)(u * alpha);
}
#define FIRST(axis, o) fractional_first(o, p.in[axis], p.out[axis], p.extent[axis], samples_of_plane[axis])
#define LENGTH(axis, o) p.extent[axis]
#define STEP(axis) 1
#endif

// Outputs whose window may hold input element i; exact but for fractional windows, where it is a superset.
inline int first_output(int i, int in, int out, int extent, int stride, int pad, int dilation) {
#if WINDOW == adaptive
  return (int)((long)i * out / in);
#elif WINDOW == sliding
  const int over = i + pad - (extent - 1) * dilation;
  return over <= 0 ? 0 : (over + stride - 1) / stride;
#else
  return out == 1 ? 0 : max(0, (int)((long)(i - extent - 1) * (out - 1) / max(in - extent, 1)) - 1);
#endif
}
inline int last_output(int i, int in, int out, int extent, int stride, int pad) {
#if WINDOW == adaptive
  return (int)((((long)i + 1) * out - 1) / in);
#elif WINDOW == sliding
  return min(out - 1, (i + pad) / stride);
#else
  return in == extent ? out - 1 : min(out - 1, (int)((long)(i + 1) * (out - 1) / (in - extent)) + 2);
#endif
}
#define FIRST_OUTPUT(axis, i) \
  first_output(i, p.in[axis], p.out[axis], KERNEL(axis), p.stride[axis], p.pad[axis], p.dilation[axis])
#define LAST_OUTPUT(axis, i) last_output(i, p.in[axis], p.out[axis], KERNEL(axis), p.stride[axis], p.pad[axis])
#if KERNEL_W
// At most MOST(axis) windows hold an element, the last of them at LAST_OUTPUT: a loop the compiler unrolls.
#define MOST(axis) ((KERNEL(axis) + STRIDE(axis) - 1) / STRIDE(axis))
#define HOLDS(axis, o, i) ((o) >= 0 && (o) < p.out[axis] && (o) * STRIDE(axis) - p.pad[axis] + KERNEL(axis) > (i))
#define OVER_AXIS(axis, o, i)                                                                      \
  _Pragma("unroll") for (int o = (i + p.pad[axis]) / STRIDE(axis), o##_end = o - MOST(axis); o > o##_end; o--) \
    if (HOLDS(axis, o, i))
#else
#define OVER_AXIS(axis, o, i) \
  for (int o = FIRST_OUTPUT(axis, i), o##_last = LAST_OUTPUT(axis, i); o <= o##_last; o++)
#endif
#define FOR_OUTPUTS OVER_AXIS(0, od, at.d) OVER_AXIS(1, oh, at.h) OVER_AXIS(2, ow, at.w)

#ifdef MAX_FORWARD
__kernel void max_forward(CONST_GLOBAL(STORAGE(T), in), GLOBAL(STORAGE(T), out), GLOBAL(long, indices),
                          CONST_GLOBAL(STORAGE(T), samples), Pooling p, EXTENTS) {
  FOR_EACH(p.out)
    __global const STORAGE(T) *in = CONST_POINTER(STORAGE(T), in) + plane(p.in_stride, at);
#if WINDOW == fractional
    VALUE(T) samples_of_plane[3];
    __global const STORAGE(T) *samples =
        CONST_POINTER(STORAGE(T), samples) + at.n * p.sample_stride[0] + at.c * p.sample_stride[1];
    // Three axes read d, h, w; two read w, h.
    for (int axis = 0; axis < 3; axis++)
      samples_of_plane[axis] = LOAD(T, samples, (p.divisor == 3 ? axis : 2 - axis) % p.divisor * p.sample_stride[2]);
#endif
    const int d0 = FIRST(0, at.d), h0 = FIRST(1, at.h), w0 = FIRST(2, at.w);
    const int d_length = LENGTH(0, at.d), h_length = LENGTH(1, at.h), w_length = LENGTH(2, at.w);
    VALUE(T) best = 0;
    INDEX found = -1;
    for (int i = 0; i < d_length; i++) {
      const int d = d0 + i * STEP(0);
      if (d < 0 || d >= p.in[0]) continue;
#pragma unroll
      for (int j = 0; j < h_length; j++) {
        const int h = h0 + j * STEP(1);
        if (h < 0 || h >= p.in[1]) continue;
#pragma unroll
        for (int k = 0; k < w_length; k++) {
          const int w = w0 + k * STEP(2);
          if (w < 0 || w >= p.in[2]) continue;
          const VALUE(T) v = LOAD(T, in, within(p.in_stride, d, h, w));
          if (found < 0 || v > best || v != v) {
            best = v;
            found = ((INDEX)d * p.in[1] + h) * p.in[2] + w;
          }
        }
      }
    }
    STORE(T, POINTER(STORAGE(T), out), plane(p.out_stride, at) + within(p.out_stride, at.d, at.h, at.w), best);
#ifdef INDICES
    POINTER(long, indices)[plane(p.index_stride, at) + within(p.index_stride, at.d, at.h, at.w)] = found;
#endif
  END_FOR_EACH
}
#endif

#ifdef MAX_BACKWARD
__kernel void max_backward(CONST_GLOBAL(STORAGE(T), grad_out), CONST_GLOBAL(long, indices),
                           GLOBAL(STORAGE(T), grad_in), Pooling p, EXTENTS) {
  FOR_EACH(p.in)
    __global const STORAGE(T) *grad_out = CONST_POINTER(STORAGE(T), grad_out) + plane(p.out_stride, at);
    __global const long *indices = CONST_POINTER(long, indices) + plane(p.index_stride, at);
    const long self = ((long)at.d * p.in[1] + at.h) * p.in[2] + at.w;
    ACC(T) sum = 0;
    FOR_OUTPUTS {
      if (indices[within(p.index_stride, od, oh, ow)] == self)
        sum += LOAD(T, grad_out, within(p.out_stride, od, oh, ow));
    }
    STORE(T, POINTER(STORAGE(T), grad_in), plane(p.in_stride, at) + within(p.in_stride, at.d, at.h, at.w), sum);
  END_FOR_EACH
}
#endif

#ifdef MAX_SCATTER
// One work-item a plane of dense gradients: nobody else writes there. For CPUs, where planes stay in the cache.
__kernel void max_scatter(CONST_GLOBAL(STORAGE(T), grad_out), CONST_GLOBAL(long, indices), GLOBAL(STORAGE(T), grad_in),
                          Pooling p) {
  const long plane_id = get_global_id(0);
  const Place at = {plane_id / p.channels, plane_id % p.channels, 0, 0, 0};
  __global const STORAGE(T) *grad_out = CONST_POINTER(STORAGE(T), grad_out) + plane(p.out_stride, at);
  __global const long *indices = CONST_POINTER(long, indices) + plane(p.index_stride, at);
  __global STORAGE(T) *grad_in = POINTER(STORAGE(T), grad_in) + plane(p.in_stride, at);
  const INDEX volume = (INDEX)p.in[0] * p.in[1] * p.in[2];
  for (INDEX i = 0; i < volume; i++) grad_in[i] = 0;
  for (int d = 0; d < p.out[0]; d++)
    for (int h = 0; h < p.out[1]; h++)
      for (int w = 0; w < p.out[2]; w++)
        grad_in[indices[within(p.index_stride, d, h, w)]] += grad_out[within(p.out_stride, d, h, w)];
}
#endif

// What a window's sum is divided by.
#if WINDOW == adaptive
#define DIVISOR(od, oh, ow) (LENGTH(0, od) * LENGTH(1, oh) * LENGTH(2, ow))
#else
#define SPAN(axis, o) \
  (p.include_pad ? min(FIRST(axis, o) + KERNEL(axis), p.in[axis] + p.pad[axis]) - FIRST(axis, o) \
                 : min(FIRST(axis, o) + KERNEL(axis), p.in[axis]) - max(FIRST(axis, o), 0))
#define DIVISOR(od, oh, ow) (p.divisor ? p.divisor : SPAN(0, od) * SPAN(1, oh) * SPAN(2, ow))
#endif

#ifdef AVERAGE_FORWARD
__kernel void average_forward(CONST_GLOBAL(STORAGE(T), in), GLOBAL(STORAGE(T), out), Pooling p, EXTENTS) {
  FOR_EACH(p.out)
    __global const STORAGE(T) *in = CONST_POINTER(STORAGE(T), in) + plane(p.in_stride, at);
    const int d0 = FIRST(0, at.d), h0 = FIRST(1, at.h), w0 = FIRST(2, at.w);
    const int d_length = LENGTH(0, at.d), h_length = LENGTH(1, at.h), w_length = LENGTH(2, at.w);
    ACC(T) sum = 0;
    for (int i = 0; i < d_length; i++) {
      const int d = d0 + i;
      if (d < 0 || d >= p.in[0]) continue;
#pragma unroll
      for (int j = 0; j < h_length; j++) {
        const int h = h0 + j;
        if (h < 0 || h >= p.in[1]) continue;
#pragma unroll
        for (int k = 0; k < w_length; k++) {
          const int w = w0 + k;
          if (w >= 0 && w < p.in[2]) sum += LOAD(T, in, within(p.in_stride, d, h, w));
        }
      }
    }
    const ACC(T) result = sum / (ACC(T))DIVISOR(at.d, at.h, at.w);
    STORE(T, POINTER(STORAGE(T), out), plane(p.out_stride, at) + within(p.out_stride, at.d, at.h, at.w), result);
  END_FOR_EACH
}
#endif

#ifdef AVERAGE_BACKWARD
__kernel void average_backward(CONST_GLOBAL(STORAGE(T), grad_out), GLOBAL(STORAGE(T), grad_in), Pooling p, EXTENTS) {
  FOR_EACH(p.in)
    __global const STORAGE(T) *grad_out = CONST_POINTER(STORAGE(T), grad_out) + plane(p.out_stride, at);
    ACC(T) sum = 0;
    FOR_OUTPUTS {
      sum += LOAD(T, grad_out, within(p.out_stride, od, oh, ow)) / (ACC(T))DIVISOR(od, oh, ow);
    }
    STORE(T, POINTER(STORAGE(T), grad_in), plane(p.in_stride, at) + within(p.in_stride, at.d, at.h, at.w), sum);
  END_FOR_EACH
}
#endif

// Unpooling: p.out is the small side, p.in the large one, which `indices` address.
#ifdef UNPOOL
__kernel void unpool(CONST_GLOBAL(STORAGE(T), small), CONST_GLOBAL(long, indices), GLOBAL(STORAGE(T), large),
                     GLOBAL(int, status), int code, Pooling p, EXTENTS) {
  FOR_EACH(p.out)
    const long index = CONST_POINTER(long, indices)[plane(p.index_stride, at) +
                                                    within(p.index_stride, at.d, at.h, at.w)];
    const long area = (long)p.in[1] * p.in[2];
    if (index < 0 || index >= p.in[0] * area) {
      REPORT(POINTER(int, status), code, index);
      continue;
    }
    const int d = index / area, h = index % area / p.in[2], w = index % p.in[2];
    POINTER(STORAGE(T), large)[plane(p.in_stride, at) + within(p.in_stride, d, h, w)] =
        CONST_POINTER(STORAGE(T), small)[plane(p.out_stride, at) + within(p.out_stride, at.d, at.h, at.w)];
  END_FOR_EACH
}
#endif
