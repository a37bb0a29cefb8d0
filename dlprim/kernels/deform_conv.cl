// SPDX-License-Identifier: MIT
// Convolution that reads at shifted positions (J. Dai et al., "Deformable convolutional networks", ICCV 2017), scaled
// by a mask (X. Zhu et al., "Deformable ConvNets v2", CVPR 2019), as columns for a matrix product: columns [N, C * kh *
// kw, oh * ow]. `gather` makes them, `scatter` adds their gradient to the image's, `slopes` makes the gradients of the
// shifts and the mask. Outside the image lie zeros. Defines: T tag; MASKED; for scatter G, tag of the image's gradient
// (f32 or f64).
#include "lib/types.clh"
#ifdef G
#include "lib/atomics.clh"
#define COMBINE(old, more) ((old) + (more))
#endif
#define R ACC(T)

typedef struct {
  long count;
  int channels, groups, in[2], out[2], window[2], stride[2], pad[2], dilation[2];  // groups: of channels that shift alike
} Deformed;

// Where one element of the columns is read: the position above and to the left, and how far beyond it.
typedef struct {
  int top, left;
  R down, right;
} Spot;

// Shifts are [N, groups, kh, kw, 2, oh, ow], the mask [N, groups, kh, kw, oh, ow].
inline Spot spot_of(__global const STORAGE(T) *shifts, const Deformed *p, long n, int group, int tap, int y, int x) {
  const long plane = (long)p->out[0] * p->out[1], taps = (long)p->window[0] * p->window[1];
  const long at = (((n * p->groups + group) * taps + tap) * 2) * plane + (long)y * p->out[1] + x;
  const int i = tap / p->window[1], j = tap % p->window[1];
  R v = LOAD(T, shifts, at) + (y * p->stride[0] - p->pad[0] + i * p->dilation[0]);
  R u = LOAD(T, shifts, at + plane) + (x * p->stride[1] - p->pad[1] + j * p->dilation[1]);
  v = v > -2 && v < p->in[0] + 1 ? v : (R)-2;  // far away or not a number: outside, and inside the range of int
  u = u > -2 && u < p->in[1] + 1 ? u : (R)-2;
  const R top = floor(v), left = floor(u);
  return (Spot){(int)top, (int)left, v - top, u - left};
}

inline long place_of(const Deformed *p, int y, int x) {
  return y >= 0 && y < p->in[0] && x >= 0 && x < p->in[1] ? (long)y * p->in[1] + x : -1;
}

inline R read_at(__global const STORAGE(T) *image, const Deformed *p, int y, int x) {
  const long place = place_of(p, y, x);
  return place < 0 ? 0 : LOAD(T, image, place);
}

inline R mask_at(__global const STORAGE(T) *mask, const Deformed *p, long n, int group, int tap, int y, int x) {
#ifdef MASKED
  const long taps = (long)p->window[0] * p->window[1];
  return LOAD(T, mask, (((n * p->groups + group) * taps + tap) * p->out[0] + y) * p->out[1] + x);
#else
  return 1;
#endif
}

// One work-item an element of the columns, for all of these kernels but `slopes`.
__kernel void gather(CONST_GLOBAL(STORAGE(T), in), CONST_GLOBAL(STORAGE(T), shifts), CONST_GLOBAL(STORAGE(T), mask),
                     GLOBAL(STORAGE(T), columns), Deformed p) {
  const long i = (long)global_id();
  if (i >= p.count) return;
  const int x = i % p.out[1], y = i / p.out[1] % p.out[0], taps = p.window[0] * p.window[1];
  const long row = i / p.out[1] / p.out[0];
  const int tap = row % taps, c = row / taps % p.channels, group = c / (p.channels / p.groups);
  const long n = row / taps / p.channels;
  __global const STORAGE(T) *image = CONST_POINTER(STORAGE(T), in) + (n * p.channels + c) * p.in[0] * p.in[1];
  const Spot s = spot_of(CONST_POINTER(STORAGE(T), shifts), &p, n, group, tap, y, x);
  const R above = (1 - s.right) * read_at(image, &p, s.top, s.left) + s.right * read_at(image, &p, s.top, s.left + 1);
  const R below =
      (1 - s.right) * read_at(image, &p, s.top + 1, s.left) + s.right * read_at(image, &p, s.top + 1, s.left + 1);
  const R value = (1 - s.down) * above + s.down * below;
  STORE(T, POINTER(STORAGE(T), columns), i,
        value * mask_at(CONST_POINTER(STORAGE(T), mask), &p, n, group, tap, y, x));
}

#ifdef G
__kernel void scatter(CONST_GLOBAL(STORAGE(T), columns), CONST_GLOBAL(STORAGE(T), shifts),
                      CONST_GLOBAL(STORAGE(T), mask), GLOBAL(STORAGE(G), grad_in), Deformed p) {
  const long i = (long)global_id();
  if (i >= p.count) return;
  const int x = i % p.out[1], y = i / p.out[1] % p.out[0], taps = p.window[0] * p.window[1];
  const long row = i / p.out[1] / p.out[0];
  const int tap = row % taps, c = row / taps % p.channels, group = c / (p.channels / p.groups);
  const long n = row / taps / p.channels;
  __global STORAGE(G) *image = POINTER(STORAGE(G), grad_in) + (n * p.channels + c) * p.in[0] * p.in[1];
  const Spot s = spot_of(CONST_POINTER(STORAGE(T), shifts), &p, n, group, tap, y, x);
  const R g = LOAD(T, CONST_POINTER(STORAGE(T), columns), i) *
              mask_at(CONST_POINTER(STORAGE(T), mask), &p, n, group, tap, y, x);
  for (int k = 0; k < 4; k++) {
    const long place = place_of(&p, s.top + (k >> 1), s.left + (k & 1));
    const R weight = (k >> 1 ? s.down : 1 - s.down) * (k & 1 ? s.right : 1 - s.right);
    if (place >= 0 && weight != 0) ADD(G, G_BYTES, image + place, g * weight);
  }
}
#endif

// One work-item an element of the mask: sums over the channels of its group.
__kernel void slopes(CONST_GLOBAL(STORAGE(T), columns), CONST_GLOBAL(STORAGE(T), in), CONST_GLOBAL(STORAGE(T), shifts),
                     CONST_GLOBAL(STORAGE(T), mask), GLOBAL(STORAGE(T), grad_shifts), GLOBAL(STORAGE(T), grad_mask),
                     Deformed p) {
  const long i = (long)global_id();
  if (i >= p.count) return;
  const int x = i % p.out[1], y = i / p.out[1] % p.out[0], taps = p.window[0] * p.window[1];
  const long row = i / p.out[1] / p.out[0], plane = (long)p.out[0] * p.out[1];
  const int tap = row % taps, group = row / taps % p.groups, members = p.channels / p.groups;
  const long n = row / taps / p.groups;
  const Spot s = spot_of(CONST_POINTER(STORAGE(T), shifts), &p, n, group, tap, y, x);
  R down = 0, right = 0, value = 0;
  for (int c = group * members; c < (group + 1) * members; c++) {
    __global const STORAGE(T) *image = CONST_POINTER(STORAGE(T), in) + (n * p.channels + c) * p.in[0] * p.in[1];
    const R g = LOAD(T, CONST_POINTER(STORAGE(T), columns), ((n * p.channels + c) * taps + tap) * plane + i % plane);
    const R a = read_at(image, &p, s.top, s.left), b = read_at(image, &p, s.top, s.left + 1),
            d = read_at(image, &p, s.top + 1, s.left), e = read_at(image, &p, s.top + 1, s.left + 1);
    down += g * ((1 - s.right) * (d - a) + s.right * (e - b));
    right += g * ((1 - s.down) * (b - a) + s.down * (e - d));
    value += g * ((1 - s.down) * ((1 - s.right) * a + s.right * b) + s.down * ((1 - s.right) * d + s.right * e));
  }
  const R scale = mask_at(CONST_POINTER(STORAGE(T), mask), &p, n, group, tap, y, x);
  const long at = row * 2 * plane + i % plane;
  STORE(T, POINTER(STORAGE(T), grad_shifts), at, down * scale);
  STORE(T, POINTER(STORAGE(T), grad_shifts), at + plane, right * scale);
#ifdef MASKED
  STORE(T, POINTER(STORAGE(T), grad_mask), i, value);
#endif
}
