// SPDX-License-Identifier: MIT
// Resampling of up to three spatial axes. Along an axis output o is a weighted sum of neighbouring inputs: `taps` finds
// the first and their number, `weight_of` the weight of input i. The gradient gathers: input i sums over the outputs
// that may use it, with the very same weights.
// Defines: T tag; MODE nearest, nearest_exact, linear, cubic; ANTIALIAS; ALIGN_CORNERS; AXES 1 to 3;
// REAL float or double for coordinates; BACKWARD for the gradient; CHANNELS_LAST order of work-items.
#include "lib/types.clh"

#define nearest 0
#define nearest_exact 1
#define linear 2
#define cubic 3
#define lanczos 4

typedef struct {
  long small_stride[5], large_stride[5];  // n, c, d, h, w of input and output
  int batch, channels, in[3], out[3];
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
  const Taps t = taps_of(o, in, scale);
#ifdef ANTIALIAS
  return i >= t.first && i < t.first + t.count ? weight_of(t, i - t.first) : 0;
#else
  REAL sum = 0;
  for (int k = 0; k < t.count; k++) sum += input_of(t, k, in) == i ? weight_of(t, k) : 0;
  return sum;
#endif
}

// Outputs that may use input i: a superset, for weight_at decides.
inline int2 users_of(int i, int in, int out, REAL scale) {
  if (!(scale > 0)) return (int2)(0, out - 1);
#ifdef ANTIALIAS
  const REAL reach = SUPPORT * fmax(scale, (REAL)1) + 1;
#else
  const REAL reach = (MODE == nearest || MODE == nearest_exact ? 1 : SUPPORT) + 1;
#endif
  const REAL low = (i - reach) / scale - 1, high = (i + reach + 1) / scale + 1;
  return (int2)(i == 0 || low < 0 ? 0 : (int)fmin(low, (REAL)out), i == in - 1 || high > out - 1 ? out - 1 : (int)high);
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

__kernel void resample(CONST_GLOBAL(STORAGE(T), from), GLOBAL(STORAGE(T), to), Resampling p, int extent_x,
                       int extent_y, long extent_z) {
  const int x = get_global_id(0), y = get_global_id(1);
  if (x >= extent_x || y >= extent_y) return;
#ifdef BACKWARD
  const int *size = p.in;
#else
  const int *size = p.out;
#endif
  for (long z = get_global_id(2); z < extent_z; z += get_global_size(2)) {
    long rest = z;
#ifdef CHANNELS_LAST
    const int c = x, w = y, h = rest % size[1];
    rest /= size[1];
    const int d = rest % size[0], n = rest / size[0];
#else
    const int w = x, h = y, d = rest % size[0];
    rest /= size[0];
    const int c = rest % p.channels, n = rest / p.channels;
#endif
#ifdef BACKWARD
    const long *from_stride = p.large_stride, *to_stride = p.small_stride;
#else
    const long *from_stride = p.small_stride, *to_stride = p.large_stride;
#endif
    __global const STORAGE(T) *from = CONST_POINTER(STORAGE(T), from) + n * from_stride[0] + c * from_stride[1];
    SUM sum = 0;
#ifdef BACKWARD
    const int2 ds = AXES > 2 ? users_of(d, p.in[0], p.out[0], p.scale[0]) : (int2)(0, 0);
    const int2 hs = AXES > 1 ? users_of(h, p.in[1], p.out[1], p.scale[1]) : (int2)(0, 0);
    const int2 ws = users_of(w, p.in[2], p.out[2], p.scale[2]);
    for (int od = ds.x; od <= ds.y; od++) {
      const REAL wd = AXES > 2 ? weight_at(od, d, p.in[0], p.scale[0]) : 1;
      if (wd == 0) continue;
      for (int oh = hs.x; oh <= hs.y; oh++) {
        const REAL wh = AXES > 1 ? wd * weight_at(oh, h, p.in[1], p.scale[1]) : wd;
        if (wh == 0) continue;
        for (int ow = ws.x; ow <= ws.y; ow++) {
          const REAL ww = weight_at(ow, w, p.in[2], p.scale[2]);
          if (ww != 0)
            sum += (SUM)(wh * ww) * (SUM)LOAD(T, from, od * from_stride[2] + oh * from_stride[3] + ow * from_stride[4]);
        }
      }
    }
#else
    const Taps td = taps_of(d, p.in[0], p.scale[0]), th = taps_of(h, p.in[1], p.scale[1]);
    const Taps tw = taps_of(w, p.in[2], p.scale[2]);
    for (int i = 0; i < (AXES > 2 ? td.count : 1); i++) {
      const REAL wd = AXES > 2 ? weight_of(td, i) : 1;
      const long at_d = AXES > 2 ? input_of(td, i, p.in[0]) * from_stride[2] : 0;
      for (int j = 0; j < (AXES > 1 ? th.count : 1); j++) {
        const REAL wh = AXES > 1 ? wd * weight_of(th, j) : wd;
        const long at_h = at_d + (AXES > 1 ? input_of(th, j, p.in[1]) * from_stride[3] : 0);
        for (int k = 0; k < tw.count; k++) {
          const SUM value = LOAD(T, from, at_h + input_of(tw, k, p.in[2]) * from_stride[4]);
#if MODE == nearest || MODE == nearest_exact
          sum = value;
#else
          const REAL weight = wh * weight_of(tw, k);
          if (weight != 0) sum += (SUM)weight * value;
#endif
        }
      }
    }
#endif
    STORE(T, POINTER(STORAGE(T), to),
          n * to_stride[0] + c * to_stride[1] + d * to_stride[2] + h * to_stride[3] + w * to_stride[4], RESULT(sum));
  }
}
