// SPDX-License-Identifier: MIT
// out [m, n] = x [m, k] w^T for up to 8 MT rows of x in 16 bits and packed weights w [n, k], by matrix units as NVIDIA's.
// A work-group computes 16 R columns of out; its warps take turns along k. Weights are read once, decoded in registers as
// the unit's first operand, rows of x the second. A lane reads PIECE words of a row of weights, in whatever order their
// numbers come, and x in the same order, so that sums are right. Elsewhere the products are emulated, for tests.
// Besides what quantized/scales.clh and lib/packed_weights.clh need the host defines
//   MT, R, WARPS   tiles of 8 rows of x, of 16 rows of weights; warps of a group
//   PIECE          words of a row that a lane reads at a time: 4 PIECE of them lie in one group of scales, or are tiles
//   U              such steps whose loads are under way together
//   GROUP          weights that share a scale; 0: all of a row
//   QUADS          each of the four lanes reads a group of scales, of at most two rows of x: four columns of the second
//                  operand are a row, each with the factors of one lane and 0 for the others, and have sums of their own
//   BIAS           a vector is added
#include "lib/packed_weights.clh"
#include "lib/nvidia.clh"
#include "quantized/scales.clh"

#define UNITS CONCAT(multiply_, T)
#define IS_BF16(tag) CONCAT(IS_, tag)
#define IS_bf16 1
#define IS_f16 0
#define WORD_NUMBERS (FORMAT == INT8 ? 4 : 8)
#define UNIT_PARTS (PIECE / PART_WORDS)
#define STEP (4 * PIECE * WORD_NUMBERS)  // of k
#define SUMS (R * MT * 4)                // of a lane
// Groups of scales that a step of tiles goes through; parts of each.
#define GROUPS_A_STEP (FORMAT == INT4_TILES && GROUP < STEP ? STEP / GROUP : 1)
#define GROUP_PARTS (UNIT_PARTS / GROUPS_A_STEP)
// Two numbers of 4 bits in the mantissas of two numbers of type T, from 128 or 1024 on.
#define MAGIC_PAIR (IS_BF16(T) ? 0x43004300u : 0x64006400u)
#if FORMAT == TABLE4 || (FORMAT == INT8 && IS_BF16(T))
#define UNIT_SHIFT 0.0f
#elif FORMAT == INT8
#define UNIT_SHIFT -1152.0f
#else
#define UNIT_SHIFT (IS_BF16(T) ? -128.0f : -1024.0f)
#endif

// The eight numbers of a part as four pairs.
#if FORMAT == INT8
#if IS_BF16(T)
inline float byte_number(uint flipped, int i) {
#ifdef NV_PTX
  return signed_byte(flipped, i);
#else
  return (float)(char)((flipped >> 8 * i) ^ 0x80);
#endif
}
inline uint pair_of(uint w, int i) {  // whole numbers of 8 bits: nothing is rounded
  return as_uint(byte_number(w, i)) >> 16 | (as_uint(byte_number(w, i + 1)) & 0xffff0000u);
}
#else
inline uint pair_of(uint w, int i) { return ((w >> 8 * i) & 0xff) | ((w >> (8 * i + 8)) & 0xff) << 16 | MAGIC_PAIR; }
#endif
inline uint4 decode_part(const uint *w, int part, __local const uint *pairs) {
  const uint a = w[2 * part] ^ 0x80808080u, b = w[2 * part + 1] ^ 0x80808080u;
  return (uint4)(pair_of(a, 0), pair_of(a, 2), pair_of(b, 0), pair_of(b, 2));
}
#elif FORMAT == TABLE4
inline uint4 decode_part(const uint *w, int part, __local const uint *pairs) {
  const uint v = w[part];
  return (uint4)(pairs[v & 255], pairs[(v >> 8) & 255], pairs[(v >> 16) & 255], pairs[v >> 24]);
}
#else  // numbers 0 and 4, 1 and 5, ...
inline uint4 decode_part(const uint *w, int part, __local const uint *pairs) {
  const uint v = w[part], mask = 0x000f000fu;
  return (uint4)((v & mask) | MAGIC_PAIR, ((v >> 4) & mask) | MAGIC_PAIR, ((v >> 8) & mask) | MAGIC_PAIR,
                 ((v >> 12) & mask) | MAGIC_PAIR);
}
#endif

// Elements of a row of x in the order of the numbers of part `part` of a step that begins at `from`, 0 where not inside.
inline uint4 factors_of(__global const ushort *from, int part, int lane, bool inside) {
  if (!inside) return (uint4)(0);
#if FORMAT == INT4_TILES
  __global const uint *at = (__global const uint *)(from + 32 * part) + lane % 4;
  return (uint4)(at[0], at[4], at[8], at[12]);
#else
  const uint4 x = *(__global const uint4 *)(from + (lane % 4 * UNIT_PARTS + part) * 8);
#if FORMAT == INT4
  return (uint4)((x.x & 0xffff) | x.z << 16, x.x >> 16 | (x.z & 0xffff0000u), (x.y & 0xffff) | x.w << 16,
                 x.y >> 16 | (x.w & 0xffff0000u));
#else
  return x;
#endif
#endif
}

inline void load_piece(uint *w, __global const uint *from) {
#if PIECE == 4
  const uint4 v = *(__global const uint4 *)from;
  w[0] = v.x, w[1] = v.y, w[2] = v.z, w[3] = v.w;
#elif PIECE == 2
  const uint2 v = *(__global const uint2 *)from;
  w[0] = v.x, w[1] = v.y;
#else
  w[0] = *from;
#endif
}

// With QUADS a lane's sums are of two neighbouring groups of a row of x, from this one on.
#define SUM_GROUP (warp.lane % 2 * 2)
#define X_ROW(t) (QUADS ? line / 4 : line + 8 * (t))
#define INSIDE (!QUADS || (line / 4 < p.m && warp.lane % 4 == line % 4))
// Scales of a step that a lane keeps: of the groups that it goes through, or of its two columns.
#define SCALES (QUADS ? 2 : GROUPS_A_STEP)
#define SCALE_GROUP(step, g) (QUADS ? (step) * 4 + SUM_GROUP + (g) : ((step) * STEP + (g) * GROUP) / GROUP)

#define ADD_QUADS(r, t, own)                                                                                       \
  sum[r][t] += (float4)((own)[0][r][0].factor, (own)[1][r][0].factor, (own)[0][r][1].factor, (own)[1][r][1].factor) * \
                   raw[r][t] +                                                                                     \
               (float4)((own)[0][r][0].shift, (own)[1][r][0].shift, (own)[0][r][1].shift, (own)[1][r][1].shift) *  \
                   x_sum[t]
#define ADD_GROUP(r, t, low, high)                                                             \
  sum[r][t] += (float4)((low).factor, (low).factor, (high).factor, (high).factor) * raw[r][t] + \
               (float4)((low).shift, (low).shift, (high).shift, (high).shift) * x_sum[t]
#define SCALE_OF(row, group)                                                                                     \
  scale_of(CONST_POINTER(STORAGE(SCALE), scales), CONST_POINTER(STORAGE(ZERO), zeros), &p, row, group, 1.0f,      \
           UNIT_SHIFT)

__kernel __attribute__((reqd_work_group_size(32 * WARPS, 1, 1)))
void packed_units(CONST_GLOBAL(ushort, x_data), CONST_GLOBAL(uint, w_data), CONST_GLOBAL(STORAGE(SCALE), scales),
                  CONST_GLOBAL(STORAGE(ZERO), zeros), CONST_GLOBAL(float, table_data), CONST_GLOBAL(ushort, bias),
                  GLOBAL(ushort, out), const Parameters p) {
  __local float sums[WARPS * SUMS * 32];
  WARPS_MEMORY(shared, WARPS);
  const Warp warp = WARP(shared);
  const int item = get_local_id(0), line = warp.lane / 4;
#if FORMAT == TABLE4
  __local uint pairs[256];
  for (int i = item; i < 256; i += 32 * WARPS) {
    __global const float *table = CONST_POINTER(float, table_data);
    pairs[i] = (uint)ENCODE(T, table[i >> 4]) | (uint)ENCODE(T, table[i & 15]) << 16;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
#else
#define pairs 0
#endif
  const uint steps = p.k / STEP;
  const ulong first = (ulong)get_group_id(0) * (16 * R);
  __global const uint *W[R][2];  // rows past the last repeat it
  ulong row[R][2];
  UNROLL for (int r = 0; r < R; r++)
    UNROLL for (int h = 0; h < 2; h++) {
      row[r][h] = min(first + 16 * r + 8 * h + line, p.n - 1);
#if FORMAT == INT4_TILES
      const ulong tile = min(first / 8 + 2 * r + h, p.n / 8 - 1);
      W[r][h] = CONST_POINTER(uint, w_data) + (tile * steps * 32 + warp.lane) * PIECE;
#else
      W[r][h] = CONST_POINTER(uint, w_data) + row[r][h] * (p.k / WORD_NUMBERS) + warp.lane % 4 * PIECE;
#endif
    }
  const uint w_step = (FORMAT == INT4_TILES ? 32 : 4) * PIECE;
  __global const ushort *X[MT];
  UNROLL for (int t = 0; t < MT; t++) X[t] = CONST_POINTER(ushort, x_data) + (ulong)min((uint)X_ROW(t), p.m - 1) * p.k;

  const uint one = IS_BF16(T) ? 0x3f803f80u : 0x3c003c00u;
  float4 sum[R][MT], raw[R][MT], x_sum[MT];
  UNROLL for (int t = 0; t < MT; t++) {
    x_sum[t] = 0;
    UNROLL for (int r = 0; r < R; r++) sum[r][t] = raw[r][t] = 0;
  }
  for (uint begin = 0; begin < steps; begin += WARPS * U) {
    const uint own = begin + warp.number * U;
    uint w[U][R][2][PIECE];
#if QUADS
    uint4 factors[U][UNIT_PARTS];
#endif
#if GROUP
    Scale scale[U][SCALES][R][2];
#endif
    UNROLL for (int u = 0; u < U; u++) {
      const uint step = min(own + u, steps - 1);
#if QUADS
      UNROLL for (int part = 0; part < UNIT_PARTS; part++)
        factors[u][part] = factors_of(X[0] + (ulong)step * STEP, part, warp.lane, INSIDE && own + u < steps);
#endif
      UNROLL for (int r = 0; r < R; r++)
        UNROLL for (int h = 0; h < 2; h++) {
          load_piece(w[u][r][h], W[r][h] + (ulong)step * w_step);
#if GROUP
          UNROLL for (int g = 0; g < SCALES; g++) scale[u][g][r][h] = SCALE_OF(row[r][h], SCALE_GROUP(step, g));
#endif
        }
    }
    UNROLL for (int u = 0; u < U; u++)
      UNROLL for (int part = 0; part < UNIT_PARTS; part++) {
        uint4 a[R][2];
        UNROLL for (int r = 0; r < R; r++)
          UNROLL for (int h = 0; h < 2; h++) a[r][h] = decode_part(w[u][r][h], part, pairs);
        UNROLL for (int t = 0; t < MT; t++) {
#if QUADS
          const uint4 b = factors[u][part];
#else
          const uint4 b = factors_of(X[t] + (ulong)(own + u) * STEP, part, warp.lane,
                                     INSIDE && own + u < steps);
#endif
          UNROLL for (int r = 0; r < R; r++) {
            UNITS(&raw[r][t], (uint4)(a[r][0].x, a[r][1].x, a[r][0].y, a[r][1].y), b.xy, &warp);
            UNITS(&raw[r][t], (uint4)(a[r][0].z, a[r][1].z, a[r][0].w, a[r][1].w), b.zw, &warp);
          }
#if SHIFTED
          UNITS(&x_sum[t], (uint4)(one), b.xy, &warp);
          UNITS(&x_sum[t], (uint4)(one), b.zw, &warp);
#endif
        }
#if GROUP
        if ((part + 1) % GROUP_PARTS == 0) {
          const int g = part / GROUP_PARTS;
          UNROLL for (int t = 0; t < MT; t++) {
            UNROLL for (int r = 0; r < R; r++) {
#if QUADS
              ADD_QUADS(r, t, scale[u]);
#else
              ADD_GROUP(r, t, scale[u][g][r][0], scale[u][g][r][1]);
#endif
              raw[r][t] = 0;
            }
            x_sum[t] = 0;
          }
        }
#endif
      }
  }
#if !GROUP
  UNROLL for (int r = 0; r < R; r++) {
    const Scale low = SCALE_OF(row[r][0], 0), high = SCALE_OF(row[r][1], 0);
    UNROLL for (int t = 0; t < MT; t++) ADD_GROUP(r, t, low, high);
  }
#endif

  UNROLL for (int r = 0; r < R; r++)
    UNROLL for (int t = 0; t < MT; t++) {
      __local float *to = sums + (warp.number * SUMS + (r * MT + t) * 4) * 32 + warp.lane;
      to[0] = sum[r][t].x, to[32] = sum[r][t].y, to[64] = sum[r][t].z, to[96] = sum[r][t].w;
    }
  barrier(CLK_LOCAL_MEM_FENCE);
  // Neighbours in a warp take neighbouring columns.
  for (int o = item; o < 16 * R * 8 * MT; o += 32 * WARPS) {
    const int column = o % (16 * R), i = o / (16 * R);
    const ulong n = first + column;
    if (i >= p.m || n >= p.n) continue;
    float total = 0;
#if QUADS
    const int slot = column / 16 * 4 + column % 16 / 8 * 2, lane = column % 8 * 4 + 2 * i;
    for (int from = 0; from < WARPS; from++) {
      const __local float *four = sums + (from * SUMS + slot) * 32 + lane;
      total += (four[0] + four[1]) + (four[32] + four[33]);
    }
#else
    const int slot = (column / 16 * MT + i / 8) * 4 + column % 16 / 8 * 2 + i % 2, lane = column % 8 * 4 + i % 8 / 2;
    for (int from = 0; from < WARPS; from++) total += sums[(from * SUMS + slot) * 32 + lane];
#endif
    STORE(T, POINTER(ushort, out), (ulong)i * p.n + n, WITH_BIAS(total, n));
  }
}
