// SPDX-License-Identifier: MIT
// Pooling of regions of images to a fixed size. POOL: the largest element of each bin (R. Girshick, "Fast R-CNN", ICCV
// 2015). Otherwise a grid of bilinear samples in each bin (K. He, G. Gkioxari, P. Dollar, R. Girshick, "Mask R-CNN",
// ICCV 2017): their mean, or with LARGEST the largest weighted element that they read.
// POSITION: each bin reads channels of its own (J. Dai, Y. Li, K. He, J. Sun, "R-FCN", NeurIPS 2016), and POOL is the mean.
// Defines: T tag; NUMBERED: rows of boxes begin with the image's number; PLACES: also writes where the largest elements
// are; BACKWARD with G, tag of the image's gradient (f32 or f64, zeroed before). One work-item an output.
#include "lib/types.clh"
#pragma OPENCL FP_CONTRACT OFF  // limits of bins are rounded
#ifdef BACKWARD
#include "lib/atomics.clh"
#define COMBINE(old, more) ((old) + (more))
#endif
#define R ACC(T)
#define LIMITED(x, low, high) fmin(fmax((x), (R)(low)), (R)(high))  // the lower limit for what is no number

typedef struct {
  long count;
  float2 scale;
  int batch, in_channels, channels, in[2], out[2], sampling, aligned;
} Regions;

#ifdef POOL
// The elements of a bin along axis `d`: begin and end.
inline int2 bin_limits(const Regions *p, const R *box, int d, int at) {
  const R scale = REAL_OF(R, p->scale);
  const R start = round(box[1 - d] * scale), length = round(box[3 - d] * scale) - start;
#ifdef POSITION
  const R size = fmax(length, (R)1) / p->out[d];
  const R begin = floor(at * size + start), end = ceil((at + 1) * size + start);
#ifdef BACKWARD
  const int most = p->in[d];
#else
  const int most = p->in[d] - 1;  // torchvision's bins leave out the last row and column, but give them a gradient
#endif
#else
  const R size = fmax(length + 1, (R)1) / p->out[d];
  const R begin = floor(at * size) + start, end = ceil((at + 1) * size) + start;
  const int most = p->in[d];
#endif
  return (int2)((int)LIMITED(begin, 0, most), (int)LIMITED(end, 0, most));
}
#else
// The samples of a bin along one axis that are inside the image.
typedef struct {
  R start, step;
  int begin, end, all;  // all: below 0 for regions whose ends are swapped
} Samples;

inline Samples samples_of(R start, R end, int bin, int bins, int size, const Regions *p) {
  R length = end - start;
  if (!p->aligned) length = fmax(length, (R)1);
  const R width = length / bins;
  Samples s;
  s.all = p->sampling > 0 ? p->sampling : (int)LIMITED(ceil(length / bins), -1e9, 1e9);
  s.step = s.all > 0 ? width / s.all : 0;
  s.start = start + bin * width + s.step / 2;
  s.begin = 0, s.end = max(s.all, 0);
  if (s.step > 0) {
    s.begin = (int)LIMITED(ceil((-1 - s.start) / s.step - (R)1e-3), 0, s.end);
    s.end = (int)LIMITED(floor((size - s.start) / s.step + (R)1e-3) + 1, s.begin, s.end);
  }
  return s;
}

// The two elements around a coordinate and their weights; weights of 0 outside.
inline void around(R at, int size, int *index, R *weight) {
  const bool outside = !(at >= -1 && at <= size);
  at = LIMITED(outside ? (R)0 : at, 0, size - 1);
  index[0] = (int)at, index[1] = min(index[0] + 1, size - 1);
  weight[1] = outside ? 0 : at - index[0], weight[0] = outside ? 0 : 1 - weight[1];
}
#endif

__kernel void regions(CONST_GLOBAL(STORAGE(T), in), CONST_GLOBAL(STORAGE(T), boxes), CONST_GLOBAL(long, batches),
#ifdef BACKWARD
                      CONST_GLOBAL(STORAGE(T), grad_out), GLOBAL(STORAGE(G), grad_in),
#else
                      GLOBAL(STORAGE(T), out), GLOBAL(int, places),
#endif
                      GLOBAL(int, status), int code, Regions p) {
  const long i = (long)global_id();
  if (i >= p.count) return;
  const int pw = (int)(i % p.out[1]), ph = (int)(i / p.out[1] % p.out[0]);
  const long plane = i / p.out[1] / p.out[0], region = plane / p.channels;
#ifdef NUMBERED
  const int columns = 5;
  const long n = (long)LOAD(T, CONST_POINTER(STORAGE(T), boxes), region * 5);
#else
  const int columns = 4;
  const long n = CONST_POINTER(long, batches)[region];
#endif
  if (n < 0 || n >= p.batch) {
    REPORT(POINTER(int, status), code, n);
    return;
  }
  R box[4];
  for (int k = 0; k < 4; k++) box[k] = LOAD(T, CONST_POINTER(STORAGE(T), boxes), region * columns + columns - 4 + k);
  long channel = plane % p.channels;
#ifdef POSITION
  channel = (channel * p.out[0] + ph) * p.out[1] + pw;
#endif
  const long start = (n * p.in_channels + channel) * p.in[0] * p.in[1];
  __global const STORAGE(T) *image = CONST_POINTER(STORAGE(T), in) + start;
#ifdef BACKWARD
  __global STORAGE(G) *grad_in = POINTER(STORAGE(G), grad_in) + start;
  const R g = LOAD(T, CONST_POINTER(STORAGE(T), grad_out), i);
#define ADD_AT(place, value) ADD(G, G_BYTES, grad_in + (place), value)
#endif
  R result = 0;
  int best = -1;
#ifdef POOL
  const int2 rows = bin_limits(&p, box, 0, ph), columns_of = bin_limits(&p, box, 1, pw);
#ifdef POSITION
  const R count = fmax((R)(rows.y - rows.x) * (columns_of.y - columns_of.x), (R)1);
#endif
  for (int y = rows.x; y < rows.y; y++)
    for (int x = columns_of.x; x < columns_of.y; x++) {
      const int place = y * p.in[1] + x;
#if defined(POSITION) && defined(BACKWARD)
      ADD_AT(place, g / count);
#elif defined(POSITION)
      result += LOAD(T, image, place);
#else
      const R element = LOAD(T, image, place);
      if (best < 0 || element > result) result = element, best = place;
#endif
    }
#ifdef POSITION
  result /= count;
#elif defined(BACKWARD)
  if (best >= 0) ADD_AT(best, g);
#endif
#else
  const R shift = p.aligned ? (R)0.5 : 0, scale = REAL_OF(R, p.scale);
  const Samples sy = samples_of(box[1] * scale - shift, box[3] * scale - shift, ph, p.out[0], p.in[0], &p);
  const Samples sx = samples_of(box[0] * scale - shift, box[2] * scale - shift, pw, p.out[1], p.in[1], &p);
#ifdef POSITION
  const R count = (R)sy.all * sx.all;  // the mean of no sample is no number
#else
  const R count = fmax((R)sy.all * sx.all, (R)1);
#endif
  R best_weight = 0;
  bool none = sy.begin == 0 && sx.begin == 0 && sy.end >= sy.all && sx.end >= sx.all;  // samples outside count as 0
  for (int y = sy.begin; y < sy.end; y++) {
    int rows[2], columns_of[2];
    R wy[2], wx[2];
    around(sy.start + y * sy.step, p.in[0], rows, wy);
    for (int x = sx.begin; x < sx.end; x++) {
      around(sx.start + x * sx.step, p.in[1], columns_of, wx);
      for (int k = 0; k < 4; k++) {
        const int place = rows[k >> 1] * p.in[1] + columns_of[k & 1];
        const R weight = wy[k >> 1] * wx[k & 1];
#ifdef LARGEST
        const R value = weight * LOAD(T, image, place);
        if (none || value > result) result = value, best = place, best_weight = weight, none = false;
#elif defined(BACKWARD)
        ADD_AT(place, g * weight / count);
#else
        result += weight * LOAD(T, image, place);
#endif
      }
    }
  }
#ifndef LARGEST
  result /= count;
#elif defined(BACKWARD)
  if (best >= 0) ADD_AT(best, g * best_weight);
#endif
#endif
#ifndef BACKWARD
  STORE(T, POINTER(STORAGE(T), out), i, result);
#ifdef PLACES
  POINTER(int, places)[i] = best;
#endif
#endif
}
