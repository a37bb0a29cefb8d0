// SPDX-License-Identifier: MIT
// Pooling over up to three spatial axes, one work-item a place of the result, no atomics: gradients are gathered.
// Defines: T tag; WINDOW sliding, adaptive or fractional; WIDE for 64-bit indices; those of lib/planes.clh;
//   KERNEL_D, KERNEL_H, KERNEL_W, STRIDE_D ... of small windows without dilation, else KERNEL_W = 0;
//   one of MAX_FORWARD, MAX_BACKWARD, MAX_SCATTER, AVERAGE_FORWARD, AVERAGE_BACKWARD, UNPOOL; INDICES to write indices.
#include "lib/indexing.clh"
#include "lib/planes.clh"
#include "lib/types.clh"

#define sliding 0
#define adaptive 1
#define fractional 2

#ifdef WIDE
typedef long INDEX;
#define DIVIDE(n, by) ((n) / (long)(by).divisor)
#else
typedef int INDEX;
#define DIVIDE(n, by) ((int)divide((uint)(n), by))
#endif

typedef struct {
  long in_stride[5], out_stride[5], index_stride[5], sample_stride[3];  // n, c, d, h, w; n, c, axis
  int include_pad, divisor;
  int in[3], out[3], extent[3], stride[3], pad[3], dilation[3];
  Divider by_in[3], by_out[3];
} Pooling;

inline long plane(const long *stride, Place at) { return at.n * stride[0] + at.c * STRIDE_OF_C(stride); }
inline INDEX within(const long *stride, int d, int h, int w) {
  return (INDEX)d * (INDEX)stride[2] + (INDEX)h * (INDEX)stride[3] + (INDEX)w * (INDEX)STRIDE_OF_W(stride);
}

#if KERNEL_W
#define KERNEL(axis) (axis == 0 ? KERNEL_D : axis == 1 ? KERNEL_H : KERNEL_W)
#define STRIDE(axis) (axis == 0 ? STRIDE_D : axis == 1 ? STRIDE_H : STRIDE_W)
#else
#define KERNEL(axis) p.extent[axis]
#define STRIDE(axis) p.stride[axis]
#endif

// Windows: first element, number of elements, distance between them (first and last may lie in the padding).
#if WINDOW == adaptive
#define FIRST(axis, o) ((int)DIVIDE((INDEX)(o) * p.in[axis], p.by_out[axis]))
#define LENGTH(axis, o) \
  ((int)DIVIDE(((INDEX)(o) + 1) * p.in[axis] + p.out[axis] - 1, p.by_out[axis]) - FIRST(axis, o))
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
#if WINDOW == adaptive
#define FIRST_OUTPUT(axis, i) ((int)DIVIDE((INDEX)(i) * p.out[axis], p.by_in[axis]))
#define LAST_OUTPUT(axis, i) ((int)DIVIDE(((INDEX)(i) + 1) * p.out[axis] - 1, p.by_in[axis]))
#else
inline int first_output(int i, int in, int out, int extent, int stride, int pad, int dilation) {
#if WINDOW == sliding
  const int over = i + pad - (extent - 1) * dilation;
  return over <= 0 ? 0 : (over + stride - 1) / stride;
#else
  return out == 1 ? 0 : max(0, (int)((long)(i - extent - 1) * (out - 1) / max(in - extent, 1)) - 1);
#endif
}
inline int last_output(int i, int in, int out, int extent, int stride, int pad) {
#if WINDOW == sliding
  return min(out - 1, (i + pad) / stride);
#else
  return in == extent ? out - 1 : min(out - 1, (int)((long)(i + 1) * (out - 1) / (in - extent)) + 2);
#endif
}
#define FIRST_OUTPUT(axis, i) \
  first_output(i, p.in[axis], p.out[axis], KERNEL(axis), p.stride[axis], p.pad[axis], p.dilation[axis])
#define LAST_OUTPUT(axis, i) last_output(i, p.in[axis], p.out[axis], KERNEL(axis), p.stride[axis], p.pad[axis])
#endif
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

#ifdef MAX_FORWARD
__kernel void max_forward(CONST_GLOBAL(STORAGE(T), in), GLOBAL(STORAGE(T), out), GLOBAL(long, indices),
                          CONST_GLOBAL(STORAGE(T), samples), Pooling p, Planes planes) {
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

#define STORE_SUMS(to)                                                                            \
  const INDEX here = within(p.in_stride, at.d, at.h, at.w);                                       \
  EACH_PLANE(k)                                                                                   \
    if (HAS_CHANNEL(k)) STORE(T, POINTER(STORAGE(T), to) + PLANE(p.in_stride, k), here, sum[k])

#ifdef MAX_BACKWARD
__kernel void max_backward(CONST_GLOBAL(STORAGE(T), grad_out), CONST_GLOBAL(long, indices),
                           GLOBAL(STORAGE(T), grad_in), Pooling p, Planes planes) {
  FOR_EACH(p.in)
    __global const STORAGE(T) *from[PLANES];
    __global const long *places[PLANES];
    ACC(T) sum[PLANES];
    EACH_PLANE(k) {
      from[k] = CONST_POINTER(STORAGE(T), grad_out) + PLANE(p.out_stride, k);
      places[k] = CONST_POINTER(long, indices) + PLANE(p.index_stride, k);
      sum[k] = 0;
    }
    const INDEX self = ((INDEX)at.d * p.in[1] + at.h) * p.in[2] + at.w;
    OVER_AXIS(0, od, at.d) OVER_AXIS(1, oh, at.h) OVER_AXIS(2, ow, at.w) {
      const INDEX place = within(p.index_stride, od, oh, ow), o = within(p.out_stride, od, oh, ow);
      EACH_PLANE(k) {
        const ACC(T) grad = LOAD(T, from[k], o);
        sum[k] += (INDEX)places[k][place] == self ? grad : 0;
      }
    }
    STORE_SUMS(grad_in);
  END_FOR_EACH
}
#endif

#ifdef MAX_SCATTER
// One work-item a plane of dense gradients: nobody else writes there. For CPUs, where planes stay in the cache.
__kernel void max_scatter(CONST_GLOBAL(STORAGE(T), grad_out), CONST_GLOBAL(long, indices), GLOBAL(STORAGE(T), grad_in),
                          GLOBAL(int, status), int code, Pooling p, Planes planes) {
  const long plane_id = get_global_id(0);
  const Place at = {plane_id / planes.channels, plane_id % planes.channels, 0, 0, 0};
  __global const STORAGE(T) *grad_out = CONST_POINTER(STORAGE(T), grad_out) + plane(p.out_stride, at);
  __global const long *indices = CONST_POINTER(long, indices) + plane(p.index_stride, at);
  __global STORAGE(T) *grad_in = POINTER(STORAGE(T), grad_in) + plane(p.in_stride, at);
  const INDEX volume = (INDEX)p.in[0] * p.in[1] * p.in[2];
  for (INDEX i = 0; i < volume; i++) grad_in[i] = 0;
  for (int d = 0; d < p.out[0]; d++)
    for (int h = 0; h < p.out[1]; h++)
      for (int w = 0; w < p.out[2]; w++) {
        const long index = indices[within(p.index_stride, d, h, w)];
        if (index >= 0 && index < volume) grad_in[index] += grad_out[within(p.out_stride, d, h, w)];
        else if (index != -1) REPORT(POINTER(int, status), code, index);  // -1: a window without elements
      }
}
#endif

// A window's sum is divided by p.divisor if there is one, else by the product of its spans.
#if WINDOW == adaptive
#define SPAN(axis, o) LENGTH(axis, o)
#else
#define SPAN(axis, o) \
  (p.include_pad ? min(FIRST(axis, o) + KERNEL(axis), p.in[axis] + p.pad[axis]) - FIRST(axis, o) \
                 : min(FIRST(axis, o) + KERNEL(axis), p.in[axis]) - max(FIRST(axis, o), 0))
#endif

#ifdef AVERAGE_FORWARD
__kernel void average_forward(CONST_GLOBAL(STORAGE(T), in), GLOBAL(STORAGE(T), out), Pooling p, Planes planes) {
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
    const ACC(T) divisor = p.divisor ? p.divisor : SPAN(0, at.d) * SPAN(1, at.h) * SPAN(2, at.w);
    STORE(T, POINTER(STORAGE(T), out), plane(p.out_stride, at) + within(p.out_stride, at.d, at.h, at.w), sum / divisor);
  END_FOR_EACH
}
#endif

#ifdef AVERAGE_BACKWARD
__kernel void average_backward(CONST_GLOBAL(STORAGE(T), grad_out), GLOBAL(STORAGE(T), grad_in), Pooling p,
                               Planes planes) {
  FOR_EACH(p.in)
    __global const STORAGE(T) *from[PLANES];
    ACC(T) sum[PLANES];
    EACH_PLANE(k) from[k] = CONST_POINTER(STORAGE(T), grad_out) + PLANE(p.out_stride, k), sum[k] = 0;
    OVER_AXIS(0, od, at.d) {
      const int d_span = SPAN(0, od);
      OVER_AXIS(1, oh, at.h) {
        const int dh_span = d_span * SPAN(1, oh);
        OVER_AXIS(2, ow, at.w) {
          const ACC(T) divisor = p.divisor ? p.divisor : dh_span * SPAN(2, ow);
          const INDEX o = within(p.out_stride, od, oh, ow);
          EACH_PLANE(k) sum[k] += LOAD(T, from[k], o) / divisor;
        }
      }
    }
    STORE_SUMS(grad_in);
  END_FOR_EACH
}
#endif

// Unpooling: p.out is the small side, p.in the large one, which `indices` address.
#ifdef UNPOOL
__kernel void unpool(CONST_GLOBAL(STORAGE(T), small), CONST_GLOBAL(long, indices), GLOBAL(STORAGE(T), large),
                     GLOBAL(int, status), int code, Pooling p, Planes planes) {
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
