// SPDX-License-Identifier: MIT
// Resampling of up to three spatial axes. Along an axis output o is a weighted sum of neighbouring inputs: `taps` finds
// the first and their number, `weight_of` the weight of input i. The gradient gathers: input i sums over the outputs
// that may use it, with the very same weights.
// Defines: T tag; MODE nearest, nearest_exact, linear, cubic, lanczos; ANTIALIAS; ALIGN_CORNERS; AXES 1 to 3;
// REAL float or double for coordinates; BACKWARD for the gradient; those of lib/planes.clh.
#include "lib/planes.clh"
#include "lib/types.clh"

#define nearest 0
#define nearest_exact 1
#define linear 2
#define cubic 3
#define lanczos 4

typedef struct {
  long small_stride[5], large_stride[5];  // n, c, d, h, w of input and output
  int in[3], out[3];
  REAL scale[3];  // inputs an output
} Resampling;

typedef struct {
  int first, count;
  REAL centre, inverse, total;
} Taps;

#if MODE == cubic && defined(ANTIALIAS)
#define CUBIC_A ((REAL)-0.5)
#else
#define CUBIC_A ((REAL)-0.75)
#endif
#define SUPPORT (MODE == linear ? 1 : MODE == cubic ? 2 : 3)

// The filter at distance x. Cubic: R. Keys, "Cubic convolution interpolation for digital image processing", 1981.
inline REAL filter(REAL x) {
  x = fabs(x);
#if MODE == linear
  return x < 1 ? 1 - x : 0;
#elif MODE == cubic
  if (x < 1) return ((CUBIC_A + 2) * x - (CUBIC_A + 3)) * x * x + 1;
  return x < 2 ? ((x - 5) * x + 8) * x * CUBIC_A - 4 * CUBIC_A : 0;
#elif MODE == lanczos
  const REAL pi = (REAL)3.14159265358979323846;
  return x >= 3 ? 0 : x == 0 ? 1 : 3 * sin(pi * x) * sin(pi * x / 3) / (pi * pi * x * x);
#else
  return 1;
#endif
}

inline REAL source_of(int o, REAL scale) {
#ifdef ALIGN_CORNERS
  return o * scale;
#elif MODE == nearest
  return o * scale;
#elif MODE == nearest_exact
  return (o + (REAL)0.5) * scale;
#elif MODE == linear && !defined(ANTIALIAS)
  return fmax((o + (REAL)0.5) * scale - (REAL)0.5, (REAL)0);
#else
  return (o + (REAL)0.5) * scale - (REAL)0.5;
#endif
}

inline Taps taps_of(int o, int in, REAL scale) {
  Taps t;
  t.inverse = 1, t.total = 1;
#ifdef ANTIALIAS
  const REAL support = SUPPORT * fmax(scale, (REAL)1);
  t.centre = (o + (REAL)0.5) * scale;
  t.inverse = scale > 1 ? 1 / scale : 1;
  t.first = max((int)(t.centre - support + (REAL)0.5), 0);
  t.count = min((int)(t.centre + support + (REAL)0.5), in) - t.first;
  t.total = 0;
  for (int i = 0; i < t.count; i++) t.total += filter((t.first + i + (REAL)0.5 - t.centre) * t.inverse);
#elif MODE == nearest || MODE == nearest_exact
  t.centre = source_of(o, scale);
  t.first = min((int)t.centre, in - 1);
  t.count = 1;
#else
  t.centre = source_of(o, scale);
  t.first = (int)floor(t.centre) - (SUPPORT - 1);
  t.count = 2 * SUPPORT;
#endif
  return t;
}

// Weight of the k-th tap, and the input it reads (edges repeat).
inline REAL weight_of(Taps t, int k) {
#if MODE == nearest || MODE == nearest_exact
  return 1;
#elif defined(ANTIALIAS)
  return filter((t.first + k + (REAL)0.5 - t.centre) * t.inverse) / t.total;
#else
  return filter(t.first + k - t.centre);
#endif
}
inline int input_of(Taps t, int k, int in) { return clamp(t.first + k, 0, in - 1); }

// Sum of the weights with which output o uses input i.
inline REAL weight_at(int o, int i, int in, REAL scale) {
#if MODE == linear && !defined(ANTIALIAS)
  return filter(i - fmin(source_of(o, scale), (REAL)(in - 1)));
#else
  const Taps t = taps_of(o, in, scale);
#ifdef ANTIALIAS
  return i >= t.first && i < t.first + t.count ? weight_of(t, i - t.first) : 0;
#else
  REAL sum = 0;
  for (int k = 0; k < t.count; k++) sum += input_of(t, k, in) == i ? weight_of(t, k) : 0;
  return sum;
#endif
#endif
}

#if MODE == nearest || MODE == nearest_exact
// The first output that reads input i or a later one; the division alone may be off by rounding.
inline int first_user(int i, int out, REAL scale) {
  int o = min((int)fmin(i / scale, (REAL)out), out);
  while (o > 0 && source_of(o - 1, scale) >= i) o--;
  while (o < out && source_of(o, scale) < i) o++;
  return o;
}
#endif

// First and last output that may use input i: a superset, for weight_at decides, but of copies exact.
inline int2 users_of(int i, int in, int out, REAL scale) {
#if MODE == nearest || MODE == nearest_exact
  return (int2)(i == 0 ? 0 : first_user(i, out, scale), (i == in - 1 ? out : first_user(i + 1, out, scale)) - 1);
#else
  if (!(scale > 0)) return (int2)(0, out - 1);
#ifdef ANTIALIAS
  const REAL reach = SUPPORT * fmax(scale, (REAL)1), centre = (REAL)0.5;
#elif defined(ALIGN_CORNERS)
  const REAL reach = SUPPORT, centre = 0;
#else
  const REAL reach = SUPPORT, centre = (REAL)0.5;
#endif
  const REAL rounding = (out + 1) * (REAL)1e-6;
  const REAL low = ceil((i - reach + centre) / scale - centre - rounding);
  const REAL high = floor((i + reach + centre) / scale - centre + rounding);
  return (int2)(i == 0 ? 0 : (int)clamp(low, (REAL)0, (REAL)out),
                i == in - 1 ? out - 1 : min((int)fmin(high, (REAL)out), out - 1));
#endif
}

#if MODE == nearest || MODE == nearest_exact
#define SUM VALUE(T)  // copies, for every type
#elif defined(INTEGER)
#define SUM REAL
#else
#define SUM ACC(T)
#endif
#ifdef INTEGER
#define RESULT(sum) ((VALUE(T))clamp(rint(sum), (REAL)0, (REAL)255))
#else
#define RESULT(sum) (sum)
#endif

// Of the unused leading axes: one output, which uses one input.
#define USERS(axis, i) \
  (AXES >= 3 - axis ? users_of(i, p.in[axis], p.out[axis], p.scale[axis]) : (int2)(0, 0))
#if MODE == nearest || MODE == nearest_exact
#define WEIGHT(axis, o, i) 1
#ifdef BACKWARD
#define ADD(sum, weight, value) (sum) += (value)
#else
#define ADD(sum, weight, value) (sum) = (value)  // zeros keep their signs
#endif
#else
#define ADD(sum, weight, value) (sum) += (SUM)(weight) * (SUM)(value)
#define WEIGHT(axis, o, i) (AXES >= 3 - axis ? weight_at(o, i, p.in[axis], p.scale[axis]) : 1)
#endif
#define TAPS(axis, o) taps_of(o, p.in[axis], p.scale[axis])
#define COUNT(axis, t) (AXES >= 3 - axis ? t.count : 1)
#define TAP_WEIGHT(axis, t, k) (AXES >= 3 - axis ? weight_of(t, k) : 1)
#define TAP_AT(axis, t, k, stride) (AXES >= 3 - axis ? input_of(t, k, p.in[axis]) * (stride) : 0)

#ifdef BACKWARD
#define FROM_STRIDE p.large_stride
#define TO_STRIDE p.small_stride
#define SIZE p.in
#else
#define FROM_STRIDE p.small_stride
#define TO_STRIDE p.large_stride
#define SIZE p.out
#endif

__kernel void resample(CONST_GLOBAL(STORAGE(T), from), GLOBAL(STORAGE(T), to), Resampling p, Planes planes) {
  FOR_EACH(SIZE)
    __global const STORAGE(T) *from[PLANES];
    SUM sum[PLANES];
    EACH_PLANE(m) from[m] = CONST_POINTER(STORAGE(T), from) + PLANE(FROM_STRIDE, m), sum[m] = 0;
#ifdef BACKWARD
    const int2 ds = USERS(0, at.d), hs = USERS(1, at.h), ws = USERS(2, at.w);
    for (int od = ds.x; od <= ds.y; od++) {
      const REAL wd = WEIGHT(0, od, at.d);
      if (wd == 0) continue;
      for (int oh = hs.x; oh <= hs.y; oh++) {
        const REAL wh = wd * WEIGHT(1, oh, at.h);
        if (wh == 0) continue;
#pragma unroll 1
        for (int ow = ws.x; ow <= ws.y; ow++) {
          const REAL weight = wh * WEIGHT(2, ow, at.w);
          const long place = od * FROM_STRIDE[2] + oh * FROM_STRIDE[3] + ow * STRIDE_OF_W(FROM_STRIDE);
          if (weight != 0) EACH_PLANE(m) ADD(sum[m], weight, LOAD(T, from[m], place));
        }
      }
    }
#else
    const Taps td = TAPS(0, at.d), th = TAPS(1, at.h), tw = TAPS(2, at.w);
    for (int i = 0; i < COUNT(0, td); i++) {
      const REAL wd = TAP_WEIGHT(0, td, i);
      for (int j = 0; j < COUNT(1, th); j++) {
        const REAL wh = wd * TAP_WEIGHT(1, th, j);
        const long place = TAP_AT(0, td, i, FROM_STRIDE[2]) + TAP_AT(1, th, j, FROM_STRIDE[3]);
        for (int k = 0; k < tw.count; k++) {
          const REAL weight = wh * weight_of(tw, k);
          const long at_w = place + TAP_AT(2, tw, k, STRIDE_OF_W(FROM_STRIDE));
          if (weight != 0) EACH_PLANE(m) ADD(sum[m], weight, LOAD(T, from[m], at_w));
        }
      }
    }
#endif
    const long place = at.d * TO_STRIDE[2] + at.h * TO_STRIDE[3] + at.w * STRIDE_OF_W(TO_STRIDE);
    EACH_PLANE(m)
      if (HAS_CHANNEL(m)) STORE(T, POINTER(STORAGE(T), to) + PLANE(TO_STRIDE, m), place, RESULT(sum[m]));
  END_FOR_EACH
}
