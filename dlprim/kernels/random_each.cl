// SPDX-License-Identifier: MIT
// Distributions with parameters per element, by rejection: one work-item an element, as many draws as it takes, which
// must come to an end: parameters that no distribution has give NaN.
// Defines: T tag of output and first parameter, REAL f32 or f64 to compute in, SAMPLER the function below,
// Q tag of the second parameter (binomial).
#include "lib/types.clh"
#include "lib/philox.clh"

#define R VALUE(REAL)

typedef struct {
  ulong seed, offset, item;
  uint draw, used;
  uint4 words;
} Stream;

inline uint next_word(Stream *s) {
  if (s->used == 4) {
    s->words = philox_draw(s->seed, s->offset, s->item, s->draw++);
    s->used = 0;
  }
  const uint w = s->used == 0 ? s->words.x : s->used == 1 ? s->words.y : s->used == 2 ? s->words.z : s->words.w;
  s->used++;
  return w;
}

inline R next_open(Stream *s) { return (R)open_unit_f32(next_word(s)); }

inline R next_normal(Stream *s) {
  const float u = open_unit_f32(next_word(s));
  return (R)normal_pair_f32(u, unit_f32(next_word(s), 24)).x;
}

// G. Marsaglia, W. Tsang, "A simple method for generating gamma variables", TOMS 2000; shapes below 1 by boosting.
inline R sample_gamma(Stream *s, R shape, R unused) {
  if (shape == 0 || isinf(shape)) return shape < 0 ? NAN : shape;
  if (!(shape > 0)) return NAN;
  R scale = 1;
  if (shape < 1) {
    scale = pow(next_open(s), 1 / shape);
    shape += 1;
  }
  const R d = shape - (R)1 / 3, c = 1 / sqrt(9 * d);
  for (;;) {
    R x, v;
    do {
      x = next_normal(s);
      v = 1 + c * x;
    } while (v <= 0);
    v = v * v * v;
    const R u = next_open(s), xx = x * x;
    if (u < 1 - (R)0.0331 * xx * xx || log(u) < (R)0.5 * xx + d * (1 - v + log(v))) return scale * d * v;
  }
}

// W. Hormann, "The transformed rejection method for generating Poisson random variables", 1993 (PTRS) from rate 10
// on; below, products of uniforms.
inline R sample_poisson(Stream *s, R rate, R unused) {
  if (rate == 0 || isinf(rate)) return rate < 0 ? NAN : rate;
  if (!(rate > 0)) return NAN;
  if (rate < 10) {
    const R limit = exp(-rate);
    R count = 0;
    for (R product = next_open(s); product > limit; product *= next_open(s)) count += 1;
    return count;
  }
  const R b = (R)0.931 + (R)2.53 * sqrt(rate), a = (R)-0.059 + (R)0.02483 * b;
  const R log_alpha = log((R)1.1239 + (R)1.1328 / (b - (R)3.4)), v_r = (R)0.9277 - (R)3.6224 / (b - 2);
  for (;;) {
    const R u = next_open(s) - (R)0.5, v = next_open(s), us = (R)0.5 - fabs(u);
    const R k = floor((2 * a / us + b) * u + rate + (R)0.43);
    if (us >= (R)0.07 && v <= v_r) return k;
    if (k < 0 || (us < (R)0.013 && v > us)) continue;
    if (log(v) + log_alpha - log(a / (us * us) + b) <= k * log(rate) - rate - lgamma(k + 1)) return k;
  }
}

// W. Hormann, "The generation of binomial random variates", 1993 (BTRS) for large n p; geometric steps below.
inline R sample_binomial(Stream *s, R n, R p) {
  if (isnan(n) || isnan(p) || isinf(n)) return NAN;
  if (n <= 0 || p <= 0) return 0;
  if (p >= 1) return n;
  const R q = fmin(p, 1 - p);
  R k;
  if (n * q < 10) {
    const R log_miss = log1p(-q);
    R trials = 0;
    for (k = -1; trials <= n; k += 1) trials += ceil(log(next_open(s)) / log_miss);
  } else {
    const R deviation = sqrt(n * q * (1 - q)), b = (R)1.15 + (R)2.53 * deviation;
    const R a = (R)-0.0873 + (R)0.0248 * b + (R)0.01 * q, c = n * q + (R)0.5, v_r = (R)0.92 - (R)4.2 / b;
    const R alpha = ((R)2.83 + (R)5.1 / b) * deviation, mode = floor((n + 1) * q), ratio = log(q / (1 - q));
    for (;;) {
      const R u = next_open(s) - (R)0.5, v = next_open(s), us = (R)0.5 - fabs(u);
      k = floor((2 * a / us + b) * u + c);
      if (us >= (R)0.07 && v <= v_r) break;
      if (k < 0 || k > n) continue;
      const R bound = lgamma(mode + 1) + lgamma(n - mode + 1) - lgamma(k + 1) - lgamma(n - k + 1) + (k - mode) * ratio;
      if (log(v * alpha / (a / (us * us) + b)) <= bound) break;
    }
  }
  return p > (R)0.5 ? n - k : k;
}

__kernel void generate_each(GLOBAL(STORAGE(T), out), CONST_GLOBAL(STORAGE(T), first),
                            CONST_GLOBAL(STORAGE(T), second), ulong count, ulong seed, ulong offset) {
  const ulong i = global_id();
  if (i >= count) return;
  Stream stream = {seed, offset, i, 0, 4, (uint4)(0)};
  const R a = LOAD(T, CONST_POINTER(STORAGE(T), first), i), b = LOAD(T, CONST_POINTER(STORAGE(T), second), i);
  STORE(T, POINTER(STORAGE(T), out), i, SAMPLER(&stream, a, b));
}
