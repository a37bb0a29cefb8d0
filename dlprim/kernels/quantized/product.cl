// SPDX-License-Identifier: MIT
// out [m, n] = x [m, k] w^T for MR rows of x and packed weights w [n, k], which are read once and decoded in registers.
// Work-items of a team share NR rows of w (interleaved weights: NR tiles of eight rows, a quarter of a warp's lanes to a
// row); TEAMS teams are a group. Besides what lib/packed_weights.clh and quantized/scales.clh
// need the host defines
//   MR, NR, LANES (of a team), TEAMS, WARP (1 on CPUs), SHARE (lanes of a warp that share a row)
//   GROUP            weights that share a scale; 0: all of a row
//   BIAS             a vector is added
#include "lib/packed_weights.clh"
#include "lib/warp.clh"
#include "quantized/scales.clh"

#define ITEMS (LANES * TEAMS)
#define ROWS_A_WARP (WARP / SHARE)
#define WARPS (LANES / WARP)
// Parts between two changes of scale.
#if GROUP == 0
#define FLUSH 0
#elif FORMAT == INT4_TILES
#define FLUSH (GROUP / 32 < PARTS ? GROUP / 32 : PARTS)
#else
#define FLUSH (GROUP / 8 < PARTS ? GROUP / 8 : PARTS)
#endif

// CPUs keep vectors of sums, other devices one number.
#ifdef CPU_DEVICE
typedef float8 sum_t;
#define ADD_PRODUCTS(sum, q, x) sum = fma(q, x, sum)
#define ADD_ALL(sum, x) sum += x
inline float total(sum_t v) {
  const float4 a = v.lo + v.hi;
  return a.x + a.y + a.z + a.w;
}
#else
typedef float sum_t;
#define ADD_PRODUCTS(sum, q, x)                                                                                   \
  sum = fma(q.s7, x.s7, fma(q.s6, x.s6, fma(q.s5, x.s5, fma(q.s4, x.s4, fma(q.s3, x.s3, fma(q.s2, x.s2,           \
        fma(q.s1, x.s1, fma(q.s0, x.s0, sum))))))))
#define ADD_ALL(sum, x) sum += ((x.s0 + x.s1) + (x.s2 + x.s3)) + ((x.s4 + x.s5) + (x.s6 + x.s7))
#define total(v) (v)
#endif

// Two elements from an even position on, as they lie.
#define PAIR(tag, p) CONCAT(pair_, tag)(p)
inline float2 pair_f32(__global const float *p) { return *(__global const float2 *)p; }
inline float2 pair_bf16(__global const ushort *p) {
  const uint u = *(__global const uint *)p;
  return (float2)(as_float(u << 16), as_float(u & 0xffff0000u));
}
inline float2 pair_f16(__global const ushort *p) {
  const uint u = *(__global const uint *)p;
  return (float2)(decode_f16((ushort)u), decode_f16((ushort)(u >> 16)));
}

// The factors of part p of chunk c. Rows of x are aligned to 16 bytes.
inline float8 x_part(__global const STORAGE(T) *x, uint c, int p) {
  x += PART_K(c, p);
#if FORMAT == INT4_TILES
  return (float8)(PAIR(T, x), PAIR(T, x + 8), PAIR(T, x + 16), PAIR(T, x + 24));
#else
  EIGHT(T) e;
  LOAD_EIGHT(e, x);
  return (float8)(DECODE(T, e.each[0]), DECODE(T, e.each[1]), DECODE(T, e.each[2]), DECODE(T, e.each[3]),
                  DECODE(T, e.each[4]), DECODE(T, e.each[5]), DECODE(T, e.each[6]), DECODE(T, e.each[7]));
#endif
}

#define EACH(i, n) _Pragma("unroll") for (int i = 0; i < n; i++)

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
void packed_product(CONST_GLOBAL(STORAGE(T), x_data), CONST_GLOBAL(uint, w_data), CONST_GLOBAL(STORAGE(SCALE), scales),
                    CONST_GLOBAL(STORAGE(ZERO), zeros), CONST_GLOBAL(float, table_data),
                    CONST_GLOBAL(STORAGE(T), bias), GLOBAL(STORAGE(T), out), const Parameters p) {
  const uint item = get_local_id(0), lane = item % LANES, team = item / LANES;
  const uint warp = lane / WARP, row_in_warp = lane % WARP / SHARE;
  const ulong first = ((ulong)get_group_id(0) * TEAMS + team) * (NR * ROWS_A_WARP);
  const uint chunks = p.k / CHUNK;
  __global const STORAGE(T) *x = CONST_POINTER(STORAGE(T), x_data);
  __global const uint *weights = CONST_POINTER(uint, w_data);
  __global const STORAGE(SCALE) *s = CONST_POINTER(STORAGE(SCALE), scales);
  __global const STORAGE(ZERO) *z = CONST_POINTER(STORAGE(ZERO), zeros);
#if FORMAT == TABLE4
  __local float table[16];
  for (uint i = item; i < 16; i += ITEMS) table[i] = CONST_POINTER(float, table_data)[i];
  barrier(CLK_LOCAL_MEM_FENCE);
#else
#define table 0
#endif

  ulong rows[NR];
  EACH(r, NR) rows[r] = min(first + r * ROWS_A_WARP + row_in_warp, p.n - 1);
  sum_t sums[NR][MR], raw[NR][MR], x_sums[MR];
  EACH(r, NR) EACH(m, MR) sums[r][m] = raw[r][m] = 0;
  EACH(m, MR) x_sums[m] = 0;
  for (uint c = warp * SHARE + lane % SHARE; c < chunks; c += WARPS * SHARE) {
    uint w[NR][WORDS];
    EACH(r, NR) load_chunk(w[r], weights + CHUNK_AT(rows[r], c, chunks));
    EACH(part, PARTS) {
      float8 q[NR];
      EACH(r, NR) q[r] = ordered(w[r], part, table);
      EACH(m, MR) {
        const float8 factors = x_part(x + (ulong)m * p.k, c, part);
        ADD_ALL(x_sums[m], factors);
        EACH(r, NR) ADD_PRODUCTS(raw[r][m], q[r], factors);
      }
#if FLUSH
      if ((part + 1) % FLUSH == 0) {
        EACH(r, NR) {
          const Scale scale = scale_of(s, z, &p, rows[r], PART_K(c, part) / GROUP, Q_SCALE, Q_SHIFT);
          EACH(m, MR) {
            sums[r][m] = fma((sum_t)(scale.factor), raw[r][m], fma((sum_t)(scale.shift), x_sums[m], sums[r][m]));
            raw[r][m] = 0;
          }
        }
        EACH(m, MR) x_sums[m] = 0;
      }
#endif
    }
  }
#if !FLUSH
  EACH(r, NR) {
    const Scale scale = scale_of(s, z, &p, rows[r], 0, Q_SCALE, Q_SHIFT);
    EACH(m, MR) sums[r][m] = scale.factor * raw[r][m] + scale.shift * x_sums[m];
  }
#endif

  __global STORAGE(T) *y = POINTER(STORAGE(T), out);
#if ITEMS == 1
  EACH(r, NR) {
    if (first + r < p.n)
      EACH(m, MR) STORE(T, y, (ulong)m * p.n + first + r, WITH_BIAS(total(sums[r][m]), first + r));
  }
#else
  __local float partial[NR * MR][ITEMS];
#if defined(NV_PTX) && WARP == 32
#define SUMMED 1  // lanes of a row within a warp whose sums remain
  for (uint far = SHARE / 2; far > 0; far /= 2)
    EACH(r, NR) EACH(m, MR) sums[r][m] += shuffle_xor(sums[r][m], far);
#else
#define SUMMED SHARE
#endif
  EACH(r, NR) EACH(m, MR) partial[r * MR + m][item] = total(sums[r][m]);
  barrier(CLK_LOCAL_MEM_FENCE);
  const uint team_rows = NR * ROWS_A_WARP;
  for (uint i = item; i < TEAMS * team_rows * MR; i += ITEMS) {
    const uint m = i % MR, place = i / MR, r = place % team_rows / ROWS_A_WARP;
    const ulong row = (ulong)get_group_id(0) * TEAMS * team_rows + place;
    if (row >= p.n) continue;
    __local const float *from = partial[r * MR + m] + place / team_rows * LANES + place % ROWS_A_WARP * SHARE;
    float sum = 0;
    for (uint other = 0; other < WARPS; other++)
      for (uint i = 0; i < SUMMED; i++) sum += from[other * WARP + i];
    STORE(T, y, (ulong)m * p.n + row, WITH_BIAS(sum, row));
  }
#endif
}
