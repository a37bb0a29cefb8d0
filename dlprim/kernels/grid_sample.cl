// SPDX-License-Identifier: MIT
// Sampling an image at the positions a grid names: M. Jaderberg, K. Simonyan, A. Zisserman, K. Kavukcuoglu, "Spatial
// transformer networks", NeurIPS 2015. One work-item an output position, all channels.
// Defines: T tag; AXES 2 or 3; MODE bilinear, nearest or cubic; PADDING zeros, border or reflection; ALIGN_CORNERS;
// MODULO_DOUBLE: whether T is f64; BACKWARD with G, tag of the image's gradient (f32 or f64, zeroed before), WITH_IMAGE
// and WITH_GRID.
#include "lib/types.clh"
#ifdef BACKWARD
#include "lib/atomics.clh"
#define COMBINE(old, more) ((old) + (more))
#endif

#define bilinear 0
#define nearest 1
#define cubic 2
#define zeros 0
#define border 1
#define reflection 2
#define R ACC(T)
#define MODULO R
#include "lib/modulo.clh"
#define TAPS (MODE == nearest ? 1 : MODE == bilinear ? 2 : 4)

typedef struct {
  long in_stride[5], out_stride[5], grid_stride[5], gradient_stride[5];  // n, c, d, h, w; grid: n, axis, d, h, w
  int batch, channels, in[3], out[3];
} Sampling;

// What an axis contributes: weights, their derivatives, and the inputs read (-1: none).
typedef struct {
  R weight[TAPS], slope[TAPS];
  int index[TAPS];
} Axis;

inline R unnormalized(R x, int size) {
#ifdef ALIGN_CORNERS
  return (x + 1) / 2 * (size - 1);
#else
  return ((x + 1) * size - 1) / 2;
#endif
}

// Moves a coordinate into the image as PADDING says; `slope` is multiplied by the derivative.
inline R padded(R x, int size, R *slope) {
#if PADDING == reflection
#ifdef ALIGN_CORNERS
  const R low = 0, span = size - 1;
#else
  const R low = (R)-0.5, span = size;
#endif
  if (span <= 0) {
    *slope = 0;
    return 0;
  }
  const R away = x - low, distance = fabs(away);
  const R rest = modulo_trunc(distance, span), times = floor(distance / span);
  const bool flipped = times != 2 * floor(times / 2);
  *slope *= (away < 0 ? -1 : 1) * (flipped ? -1 : 1);
  x = low + (flipped ? span - rest : rest);
#endif
#if PADDING != zeros
  const R high = size - 1;
  if (!(x > 0)) *slope = 0, x = 0;
  else if (x >= high) *slope = 0, x = high;
#endif
  // Far away or not a number: outside, and inside the range of int.
  return x > (R)-1e9 && x < (R)1e9 ? x : (R)-100;
}

inline int inside(int i, int size) { return i >= 0 && i < size ? i : -1; }

inline Axis axis_of(R x, int size) {
  Axis a;
#ifdef ALIGN_CORNERS
  R scale = (R)(size - 1) / 2;
#else
  R scale = (R)size / 2;
#endif
  x = unnormalized(x, size);
#if MODE == nearest
  a.index[0] = inside((int)rint(padded(x, size, &scale)), size);
  a.weight[0] = 1, a.slope[0] = 0;
#elif MODE == bilinear
  x = padded(x, size, &scale);
  const R first = floor(x), part = x - first;
  a.index[0] = inside((int)first, size), a.index[1] = inside((int)first + 1, size);
  a.weight[0] = 1 - part, a.weight[1] = part;
  a.slope[0] = -scale, a.slope[1] = scale;
#else
  const R bounded = x > (R)-1e9 && x < (R)1e9 ? x : (R)-100;
  const R first = floor(bounded), part = bounded - first, A = (R)-0.75;
  for (int k = 0; k < 4; k++) {
    R ignored = 1;
    a.index[k] = inside((int)padded(first + k - 1, size, &ignored), size);
    const R d = fabs(part + 1 - k), sign = part + 1 - k < 0 ? -1 : 1;
    const bool near = k == 1 || k == 2;
    a.weight[k] = near ? ((A + 2) * d - (A + 3)) * d * d + 1 : ((A * d - 5 * A) * d + 8 * A) * d - 4 * A;
    a.slope[k] = scale * sign * (near ? (3 * (A + 2) * d - 2 * (A + 3)) * d : (3 * A * d - 10 * A) * d + 8 * A);
  }
#endif
  return a;
}

__kernel void sample(CONST_GLOBAL(STORAGE(T), in), CONST_GLOBAL(STORAGE(T), grid),
#ifdef BACKWARD
                     CONST_GLOBAL(STORAGE(T), grad_out), GLOBAL(STORAGE(G), grad_in), GLOBAL(STORAGE(T), grad_grid),
#else
                     GLOBAL(STORAGE(T), out),
#endif
                     Sampling p, int extent_x, int extent_y, long extent_z) {
  const int w = get_global_id(0), h = get_global_id(1);
  if (w >= extent_x || h >= extent_y) return;
  for (long z = get_global_id(2); z < extent_z; z += get_global_size(2)) {
    const long n = z / p.out[0], d = z % p.out[0];
    const long place = n * p.grid_stride[0] + d * p.grid_stride[2] + h * p.grid_stride[3] + w * p.grid_stride[4];
    __global const STORAGE(T) *grid = CONST_POINTER(STORAGE(T), grid) + place;
    __global const STORAGE(T) *in = CONST_POINTER(STORAGE(T), in) + n * p.in_stride[0];
    const long to = n * p.out_stride[0] + d * p.out_stride[2] + h * p.out_stride[3] + w * p.out_stride[4];
    const Axis ax = axis_of(LOAD(T, grid, 0), p.in[2]);
    const Axis ay = axis_of(LOAD(T, grid, p.grid_stride[1]), p.in[1]);
#if AXES == 3
    const Axis az = axis_of(LOAD(T, grid, 2 * p.grid_stride[1]), p.in[0]);
#define DEPTH TAPS
#else
#define DEPTH 1
#endif
#ifdef BACKWARD
    R gx = 0, gy = 0, gz = 0;
#endif
    for (int c = 0; c < p.channels; c++) {
#ifdef BACKWARD
      const R g = LOAD(T, CONST_POINTER(STORAGE(T), grad_out), to + c * p.out_stride[1]);
#else
      R sum = 0;
#endif
      for (int k = 0; k < DEPTH; k++)
        for (int j = 0; j < TAPS; j++)
          for (int i = 0; i < TAPS; i++) {
#if AXES == 3
            if (az.index[k] < 0 || ay.index[j] < 0 || ax.index[i] < 0) continue;
            const long at_d = az.index[k];
            const R wz = az.weight[k];
#else
            if (ay.index[j] < 0 || ax.index[i] < 0) continue;
            const long at_d = 0;
            const R wz = 1;
#endif
            const long at = c * p.in_stride[1] + at_d * p.in_stride[2] + ay.index[j] * p.in_stride[3] +
                            ax.index[i] * p.in_stride[4];
            const R weight = wz * ay.weight[j] * ax.weight[i];
#ifndef BACKWARD
            sum += weight * LOAD(T, in, at);
#else
#ifdef WITH_IMAGE
            const long target = n * p.gradient_stride[0] + c * p.gradient_stride[1] + at_d * p.gradient_stride[2] +
                                ay.index[j] * p.gradient_stride[3] + ax.index[i] * p.gradient_stride[4];
            ADD(G, G_BYTES, POINTER(STORAGE(G), grad_in) + target, g * weight);
#endif
#if defined(WITH_GRID) && MODE != nearest
            const R value = g * LOAD(T, in, at);
            gx += value * wz * ay.weight[j] * ax.slope[i];
            gy += value * wz * ay.slope[j] * ax.weight[i];
#if AXES == 3
            gz += value * az.slope[k] * ay.weight[j] * ax.weight[i];
#endif
#endif
#endif
          }
#ifndef BACKWARD
      STORE(T, POINTER(STORAGE(T), out), to + c * p.out_stride[1], sum);
#endif
    }
#if defined(BACKWARD) && defined(WITH_GRID)
    __global STORAGE(T) *grad_grid =
        POINTER(STORAGE(T), grad_grid) + (((n * p.out[0] + d) * p.out[1] + h) * p.out[2] + w) * AXES;
    STORE(T, grad_grid, 0, gx);
    STORE(T, grad_grid, 1, gy);
#if AXES == 3
    STORE(T, grad_grid, 2, gz);
#endif
#endif
  }
}
