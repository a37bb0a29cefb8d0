// SPDX-License-Identifier: MIT
// out [m, n] = x [m, k] w^T on CPUs, for MR rows of x and packed weights w [n, k] (INT8, INT4) of which at least 32 along
// k share a scale. A work-item takes up to ROWS rows of w, NR at a time, and k by slabs: it brings a slab of x into the
// order in which a vector of weights is decoded, and sums up x by blocks of 32, which zero points are multiplied by.
// Besides what lib/packed_weights.clh and quantized/scales.clh need the host defines
//   MR, NR, ROWS, SLAB   SLAB along k: a multiple of 32
//   BLOCKS_A_GROUP       blocks of 32 that share a scale; 0: all of a row
//   UNIT_STEPS           scales, and zero points, of a row lie side by side
//   BIAS                 a vector is added
#if UNIT_STEPS
#define SCALE_STEP(p) 1
#define ZERO_STEP(p) 1
#endif
#include "lib/packed_weights.clh"
#include "lib/vectors.clh"
#include "quantized/scales.clh"

#define SLAB_BLOCKS (SLAB / 32)
#define BLOCK_WORDS (FORMAT == INT8 ? 8 : 4)
#define GROUP_OF(block) (BLOCKS_A_GROUP ? (block) / (BLOCKS_A_GROUP ? BLOCKS_A_GROUP : 1) : 0)
#define EACH(i, n) _Pragma("unroll") for (int i = 0; i < n; i++)

// The two vectors that a block's numbers become, as factor * vector + shift.
typedef struct {
  float16 first, second;
} Block;

#if FORMAT == INT8
#define BLOCK_SCALE 1.0f
#define BLOCK_SHIFT 0.0f
inline Block decode_block(__global const uint *w) {
  Block block = {convert_float16(as_char16(vload4(0, w))), convert_float16(as_char16(vload4(1, w)))};
  return block;
}
inline Block ordered_block(float16 a, float16 b) {
  Block block = {a, b};
  return block;
}
#else
// Lane l has number l / 4, and 4 behind it, of word l % 4. Bits of a number are those of a mantissa: 1 + q / 16.
#define BLOCK_SCALE 16.0f
#define BLOCK_SHIFT -16.0f
#define MANTISSA(v) as_float16(((v) & 0x00780000u) | 0x3f800000u)
#define FIRST (19, 19, 19, 19, 15, 15, 15, 15, 11, 11, 11, 11, 7, 7, 7, 7)
#define SECOND (3, 3, 3, 3, 31, 31, 31, 31, 27, 27, 27, 27, 23, 23, 23, 23)
inline Block decode_block(__global const uint *w) {
  const uint4 words = vload4(0, w);
  const uint16 all = (uint16)(words, words, words, words);
  Block block = {MANTISSA(rotate(all, (uint16)FIRST)), MANTISSA(rotate(all, (uint16)SECOND))};
  return block;
}
inline Block ordered_block(float16 a, float16 b) {
  Block block = {(float16)(a.s08, b.s08, a.s19, b.s19, a.s2a, b.s2a, a.s3b, b.s3b),
                 (float16)(a.s4c, b.s4c, a.s5d, b.s5d, a.s6e, b.s6e, a.s7f, b.s7f)};
  return block;
}
#endif

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void packed_rows(CONST_GLOBAL(STORAGE(T), x_data), CONST_GLOBAL(uint, w_data), CONST_GLOBAL(STORAGE(SCALE), scales),
                 CONST_GLOBAL(STORAGE(ZERO), zeros), CONST_GLOBAL(STORAGE(T), bias), GLOBAL(STORAGE(T), out),
                 const Parameters p, const uint rows) {
  __local float16 factors_of_x[MR][2 * SLAB_BLOCKS];
  __local float sums_of_x[MR][SLAB_BLOCKS], totals[MR][ROWS], factors[NR][SLAB_BLOCKS], shifts[NR][SLAB_BLOCKS];
  __global const STORAGE(T) *x = CONST_POINTER(STORAGE(T), x_data);
  __global const uint *weights = CONST_POINTER(uint, w_data);
  __global const STORAGE(SCALE) *s = CONST_POINTER(STORAGE(SCALE), scales);
  __global const STORAGE(ZERO) *z = CONST_POINTER(STORAGE(ZERO), zeros);
  const ulong first = (ulong)get_group_id(0) * rows;
  const uint count = (uint)min((ulong)rows, p.n - first), row_blocks = p.k / 32;
  EACH(m, MR)
    for (uint r = 0; r < count; r++) totals[m][r] = 0;

  for (uint begin = 0; begin < row_blocks; begin += SLAB_BLOCKS) {
    const uint blocks = min(row_blocks - begin, (uint)SLAB_BLOCKS);
    for (int m = 0; m < MR; m++)
      for (uint b = 0; b < blocks; b++) {
        __global const STORAGE(T) *from = x + (ulong)m * p.k + (ulong)(begin + b) * 32;
        const float16 low = LOAD16(T, from), high = LOAD16(T, from + 16);
        const Block ordered = ordered_block(low, high);
        factors_of_x[m][2 * b] = ordered.first, factors_of_x[m][2 * b + 1] = ordered.second;
        sums_of_x[m][b] = sum_of_16(low + high);
      }
    for (uint r = 0; r < count; r += NR) {
      __global const uint *w[NR];
      float16 sums[NR][MR];
      float shifted[NR][MR];
      EACH(i, NR) {
        const ulong row = first + min(r + i, count - 1);
        w[i] = weights + (row * row_blocks + begin) * BLOCK_WORDS;
        for (uint b = 0; b < blocks; b++) {
          const Scale scale = scale_of(s, z, &p, row, GROUP_OF(begin + b), BLOCK_SCALE, BLOCK_SHIFT);
          factors[i][b] = scale.factor, shifts[i][b] = scale.shift;
        }
        EACH(m, MR) {
          float sum = 0;
          for (uint b = 0; b < blocks; b++) sum += shifts[i][b] * sums_of_x[m][b];
          shifted[i][m] = sum, sums[i][m] = 0;
        }
      }
      for (uint b = 0; b < blocks; b++)
        EACH(i, NR) {
          const Block q = decode_block(w[i] + b * BLOCK_WORDS);
          const float16 factor = factors[i][b];
          EACH(m, MR) {
            const float16 products = fma(q.second, factors_of_x[m][2 * b + 1], q.first * factors_of_x[m][2 * b]);
            sums[i][m] = fma(factor, products, sums[i][m]);
          }
        }
      EACH(i, NR)
        if (r + i < count)
          EACH(m, MR) totals[m][r + i] += sum_of_16(sums[i][m]) + shifted[i][m];
    }
  }

  __global STORAGE(T) *y = POINTER(STORAGE(T), out);
  for (int m = 0; m < MR; m++)
    for (uint r = 0; r < count; r++)
      STORE(T, y, (ulong)m * p.n + first + r, WITH_BIAS(totals[m][r], first + r));
}
