// SPDX-License-Identifier: MIT
// Batch normalization's elementwise halves. The data are `outer` x `inner` elements, inner ones contiguous: rows of one
// channel (outer % channels), or with CHANNELS_LAST columns of one channel. ROWS x LANES work-items walk over them,
// PACK elements at a time; with LINES, each work-item over whole rows of such columns.
// Defines: X_TAG, G_TAG, Y_TAG (result), S_TAG (statistics), W_TAG (parameters), D_TAG (sums), REAL; HAS_WEIGHT,
// HAS_BIAS, HAS_SUMS, VARIANCE; BACKWARD.
#include "lib/types.clh"

typedef struct {
  ulong outer, inner, channels;
  float2 eps, scale;  // TwoFloats
} norm_shape;

typedef struct {
  REAL mean, factor, shift, slope;
} coefficients;

#define READ(tag, name, i) LOAD(tag, CONST_POINTER(STORAGE(tag), name), i)
#define PARAMETERS                                                                                              \
  const norm_shape shape, GLOBAL(STORAGE(Y_TAG), y_data), CONST_GLOBAL(STORAGE(X_TAG), x_data),                 \
      CONST_GLOBAL(STORAGE(S_TAG), mean_data), CONST_GLOBAL(STORAGE(S_TAG), spread_data),                       \
      CONST_GLOBAL(STORAGE(W_TAG), weight_data)

#if BACKWARD
// factor * (gy - shift - (x - mean) * slope)
#define KERNEL_PARAMETERS                                                                                       \
  PARAMETERS, CONST_GLOBAL(STORAGE(G_TAG), gy_data), CONST_GLOBAL(STORAGE(D_TAG), sum_data),                    \
      CONST_GLOBAL(STORAGE(D_TAG), dot_data)
#define RESULT(c, x, g) ((c).factor * ((g) - (c).shift - ((x) - (c).mean) * (c).slope))
#else
// factor * (x - mean) + shift
#define KERNEL_PARAMETERS PARAMETERS, CONST_GLOBAL(STORAGE(W_TAG), bias_data)
#define RESULT(c, x, g) ((c).factor * ((x) - (c).mean) + (c).shift)
#endif

#define COEFFICIENTS(c, channel)                                                                  \
  do {                                                                                            \
    const ulong channel_ = (channel);                                                             \
    const REAL spread_ = READ(S_TAG, spread_data, channel_);                                      \
    const REAL invstd_ = VARIANCE ? 1 / sqrt(spread_ + REAL_OF(REAL, shape.eps)) : spread_;                \
    (c).mean = READ(S_TAG, mean_data, channel_);                                                  \
    (c).factor = HAS_WEIGHT ? invstd_ * READ(W_TAG, weight_data, channel_) : invstd_;             \
    (c).shift = (c).slope = 0;                                                                    \
    MORE(c, channel_, invstd_)                                                                    \
  } while (0);
#if BACKWARD && HAS_SUMS
#define MORE(c, channel, invstd)                                         \
  (c).shift = READ(D_TAG, sum_data, channel) * REAL_OF(REAL, shape.scale);        \
  (c).slope = READ(D_TAG, dot_data, channel) * REAL_OF(REAL, shape.scale) * invstd;
#elif !BACKWARD && HAS_BIAS
#define MORE(c, channel, invstd) (c).shift = READ(W_TAG, bias_data, channel);
#else
#define MORE(c, channel, invstd)
#endif

#include "lib/packs.clh"

#if BACKWARD
#define LOAD_GRADIENT(i, g) LOAD_PACK(G_TAG, gy, i, g)
#else
#define LOAD_GRADIENT(i, g) (void)g
#endif
#define AHEAD 4  // rows that are read before their results are written
#define EACH_ROW _Pragma("unroll") for (int i = 0; i < AHEAD; i++)
#define LOAD_ROW(a, in, g)                    \
  LOAD_PACK(X_TAG, x, (a) * inner + b, in);   \
  LOAD_GRADIENT((a) * inner + b, g);
#define STORE_ROW(a, in, g)                                                      \
  {                                                                              \
    REAL out[PACK];                                                              \
    _Pragma("unroll") for (int k = 0; k < PACK; k++) out[k] = RESULT(c[k], (in)[k], (g)[k]); \
    STORE_PACK(Y_TAG, y, (a) * inner + b, out);                                  \
  }

__kernel __attribute__((reqd_work_group_size(LANES, ROWS, 1)))
void normalize_channels(KERNEL_PARAMETERS) {
  __global STORAGE(Y_TAG) *y = POINTER(STORAGE(Y_TAG), y_data);
  __global const STORAGE(X_TAG) *x = CONST_POINTER(STORAGE(X_TAG), x_data);
#if BACKWARD
  __global const STORAGE(G_TAG) *gy = CONST_POINTER(STORAGE(G_TAG), gy_data);
#endif
  const ulong outer = shape.outer, inner = shape.inner;
  const ulong first = get_global_id(1), rows = get_global_size(1);
#if LINES
  const ulong begin = get_global_id(0) * MOST_CHANNELS, width = min(inner - begin, (ulong)MOST_CHANNELS);
  REAL means[MOST_CHANNELS], factors[MOST_CHANNELS], shifts[MOST_CHANNELS], slopes[MOST_CHANNELS];
  for (size_t k = 0; k < width; k++) {
    coefficients c;
    COEFFICIENTS(c, begin + k)
    means[k] = c.mean, factors[k] = c.factor, shifts[k] = c.shift, slopes[k] = c.slope;
  }
  for (ulong a = outer * first / rows; a < outer * (first + 1) / rows; a++) {
    const ulong at = a * inner + begin;
#pragma clang loop vectorize(assume_safety)
    for (size_t k = 0; k < width; k++) {
      const coefficients c = {means[k], factors[k], shifts[k], slopes[k]};
#if BACKWARD
      STORE(Y_TAG, y, at + k, RESULT(c, LOAD(X_TAG, x, at + k), LOAD(G_TAG, gy, at + k)));
#else
      STORE(Y_TAG, y, at + k, RESULT(c, LOAD(X_TAG, x, at + k), 0));
#endif
    }
  }
#elif CHANNELS_LAST
  for (ulong b = get_global_id(0) * PACK; b < inner; b += get_global_size(0) * PACK) {
    coefficients c[PACK];
#pragma unroll
    for (int k = 0; k < PACK; k++) COEFFICIENTS(c[k], b + k)
    for (ulong a = first; a < outer; a += AHEAD * rows) {
      REAL in[AHEAD][PACK], g[AHEAD][PACK];
      EACH_ROW { LOAD_ROW(min(a + i * rows, outer - 1), in[i], g[i]) }
      EACH_ROW if (a + i * rows < outer) STORE_ROW(a + i * rows, in[i], g[i])
    }
  }
#else
  for (ulong a = first; a < outer; a += rows) {
    coefficients c;
    COEFFICIENTS(c, a % shape.channels)
    for (ulong b = get_global_id(0) * PACK; b < inner; b += get_global_size(0) * PACK) {
      REAL in[PACK], g[PACK], out[PACK];
      LOAD_PACK(X_TAG, x, a * inner + b, in);
      LOAD_GRADIENT(a * inner + b, g);
#pragma unroll
      for (int k = 0; k < PACK; k++) out[k] = RESULT(c, in[k], g[k]);
      STORE_PACK(Y_TAG, y, a * inner + b, out);
    }
  }
#endif
}
