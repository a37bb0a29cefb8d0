// SPDX-License-Identifier: MIT
// out [m, n] = x [m, k] w^T on CPUs with dot products of bytes (lib/byte_dot.clh), for MR rows of x and packed weights
// w [n, k] (INT8, INT4) without zero points, of which at least 32 along k share a scale. x becomes integers of 22 bits
// and a scale for every 32 of them, each integer three bytes, (high * 128 + middle) * 128 + low, so that sums of 4
// products are exact but for this rounding (2^-22 of the largest of 32); a number of x that is not finite makes its
// results NaN. A work-item takes up to ROWS rows of w, NR at a time, which lie in as many parts, so that each is read
// from its beginning to its end, and k by slabs. Besides what lib/packed_weights.clh and quantized/scales.clh need the
// host defines
//   MR, NR, ROWS, SLAB   SLAB along k: a multiple of 64, which divides k, too
//   BLOCKS_A_GROUP       blocks of 32 that share a scale; 0: all of a row
//   UNIT_STEPS           scales of a row lie side by side
//   BIAS                 a vector is added
#if UNIT_STEPS
#define SCALE_STEP(p) 1
#endif
#include "lib/packed_weights.clh"
#include "lib/byte_dot.clh"
#include "lib/vectors.clh"
#include "quantized/scales.clh"

#define PAIRS (SLAB / 64)  // of blocks, whose products fill a vector
#define GROUP_OF(block) (BLOCKS_A_GROUP ? (block) / (BLOCKS_A_GROUP ? BLOCKS_A_GROUP : 1) : 0)
#define NOUNROLL _Pragma("clang loop vectorize(disable) unroll(disable)")
#define EACH(i, n) _Pragma("unroll") for (int i = 0; i < n; i++)

// Of 64 weights, bytes from 0 to 255, OFFSET more than they are; four of a lane are of one block, 0 or 1, as BLOCKS
// says. IN_ORDER: bytes of x, 16 at a time, in the order of the weights.
#if FORMAT == INT8
#define PAIR_WORDS 16
#define IN_ORDER(x) ((int16)(as_int4(x[0]), as_int4(x[1]), as_int4(x[2]), as_int4(x[3])))
#define OFFSET 128
#define BLOCKS (0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1)
inline int16 bytes_of_pair(__global const uint *w) { return as_int16(vload16(0, w)) ^ (int)0x80808080; }
#else
// Even weights, then odd ones.
#define PAIR_WORDS 8
#define IN_ORDER(x)                                                                                              \
  ((int16)(as_int2(x[0].even), as_int2(x[1].even), as_int2(x[2].even), as_int2(x[3].even), as_int2(x[0].odd), \
           as_int2(x[1].odd), as_int2(x[2].odd), as_int2(x[3].odd)))
#define OFFSET 0
#define BLOCKS (0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1)
inline int16 bytes_of_pair(__global const uint *w) {
  const uint8 words = vload8(0, w);
  return as_int16((uint16)(words, words >> 4) & 0x0f0f0f0fu);
}
#endif

// A number for each of two blocks, as lanes have it.
inline float16 of_blocks(float2 each) { return shuffle(each, (uint16)BLOCKS); }

// 64 numbers of x.
typedef struct {
  int16 high, middle, low;
  int16 start;    // what weights lack, in sums
  float16 scale;
} Factors;

// The largest of 32, or NaN where one is not finite.
inline float largest(float16 a, float16 b) {
  const float16 m = fmax(fabs(a), fabs(b));
  const float8 c = fmax(m.lo, m.hi);
  const float4 d = fmax(c.lo, c.hi);
  return fmax(fmax(d.x, d.y), fmax(d.z, d.w)) + sum_of_16(a * 0 + b * 0);
}

// start + the sums of products of four bytes and what the three make.
inline int16 products(int16 bytes, int16 high, int16 middle, int16 low, int16 start) {
  const int16 both = dot_of_bytes(dot_of_bytes(0, bytes, high) << 7, bytes, middle);
  return dot_of_bytes((both << 7) + start, bytes, low);
}

inline Factors factors_of(__global const STORAGE(T) *x, int offset) {
  float16 v[4];
  for (int i = 0; i < 4; i++) v[i] = LOAD16(T, x + 16 * i);
  const float limit = 0x1fffff;
  float each[2];
  for (int i = 0; i < 2; i++) {
    const float most = largest(v[2 * i], v[2 * i + 1]), by = most > 1e-30f ? limit / most : 0;
    each[i] = most / limit;
    v[2 * i] *= by, v[2 * i + 1] *= by;
  }
  char16 h[4], m[4], l[4];
  for (int i = 0; i < 4; i++) {
    const int16 whole = convert_int16_rte(v[i]);
    h[i] = convert_char16(whole >> 14), m[i] = convert_char16(whole >> 7 & 127), l[i] = convert_char16(whole & 127);
  }
  Factors f;
  f.high = IN_ORDER(h), f.middle = IN_ORDER(m), f.low = IN_ORDER(l);
  f.start = products(0x01010101, f.high, f.middle, f.low, 0) * -offset;
  f.scale = of_blocks((float2)(each[0], each[1]));
  return f;
}

// The scales of a row's `count` blocks from the first on, as floats.
inline void load_scales(__local float *to, __global const STORAGE(SCALE) *scales, uint first, uint count,
                        const Parameters *p) {
#if UNIT_STEPS && BLOCKS_A_GROUP == 1
  if (count >= 16) {
    for (uint i = 0; i < count; i += 16) {
      const uint b = min(i, count - 16);
      vstore16(LOAD16(SCALE, scales + first + b), 0, to + b);
    }
    return;
  }
#endif
  NOUNROLL for (uint b = 0; b < count; b++) to[b] = LOAD(SCALE, scales, (long)GROUP_OF(first + b) * SCALE_STEP(p));
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void packed_rows_dot(CONST_GLOBAL(STORAGE(T), x_data), CONST_GLOBAL(uint, w_data), CONST_GLOBAL(STORAGE(SCALE), scales),
                     CONST_GLOBAL(STORAGE(T), bias), GLOBAL(STORAGE(T), out), const Parameters p, const uint rows) {
  __local Factors factors_of_x[MR][PAIRS];
  __local float totals[MR][ROWS], factors[NR][2 * PAIRS];
  __global const STORAGE(T) *x = CONST_POINTER(STORAGE(T), x_data);
  __global const uint *weights = CONST_POINTER(uint, w_data);
  __global const STORAGE(SCALE) *s = CONST_POINTER(STORAGE(SCALE), scales);
  const ulong first = (ulong)get_group_id(0) * rows;
  const uint count = (uint)min((ulong)rows, p.n - first), row_pairs = p.k / 64;
  const int offset = OFFSET + (int)p.middle;
  EACH(m, MR)
    for (uint r = 0; r < count; r++) totals[m][r] = 0;

  for (uint begin = 0; begin < row_pairs; begin += PAIRS) {
    const uint pairs = min(row_pairs - begin, (uint)PAIRS);
    for (int m = 0; m < MR; m++)
      for (uint b = 0; b < pairs; b++)
        factors_of_x[m][b] = factors_of(x + (ulong)m * p.k + (ulong)(begin + b) * 64, offset);
    const uint part = (count + NR - 1) / NR;
    for (uint r = 0; r < part; r++) {
      __global const uint *w[NR];
      float16 sums[NR][MR];
      EACH(i, NR) {
        const ulong row = first + min(r + i * part, count - 1);
        w[i] = weights + (row * row_pairs + begin) * PAIR_WORDS;
        load_scales(factors[i], s + (long)row * p.scale_n, 2 * begin, 2 * pairs, &p);
        EACH(m, MR) sums[i][m] = 0;
      }
      for (uint b = 0; b < pairs; b++)
        EACH(i, NR) {
          const int16 q = bytes_of_pair(w[i] + b * PAIR_WORDS);
          const float16 factor = of_blocks(vload2(b, factors[i]));
          EACH(m, MR) {
            const __local Factors *f = &factors_of_x[m][b];
            const int16 sum = products(q, f->high, f->middle, f->low, f->start);
            sums[i][m] = fma(convert_float16(sum), factor * f->scale, sums[i][m]);
          }
        }
      EACH(i, NR)
        if (r + i * part < count) EACH(m, MR) totals[m][r + i * part] += sum_of_16(sums[i][m]);
    }
  }

  __global STORAGE(T) *y = POINTER(STORAGE(T), out);
  for (int m = 0; m < MR; m++)
    for (uint r = 0; r < count; r++)
      STORE(T, y, (ulong)m * p.n + first + r, WITH_BIAS(totals[m][r], first + r));
}
