// SPDX-License-Identifier: MIT
// Sums over the rows of [rows, columns] data, columns next to each other, each a channel: a batch norm's moments of x or,
// with SUMS, its gradients' sums of gy and of gy * (x - mean). LANES x ROWS work-items take PACK columns each, every
// ROWS-th row of a chunk (grid dim 1) of `chunk` rows, AHEAD of them read at once. merge_channels, of SIDE x ACROSS
// work-items, adds up what the chunks leave, [chunks, columns]. Defines also: X_TAG, G_TAG, S_TAG (statistics), R_TAG
// (running ones, with HAS_RUNNING).
//
// A work-item's moments are taken around its first element f: with d = x - f, m2 = sum d^2 - (sum d)^2 / n. Rounding
// errors are multiplied by at most n, whatever the data are, for f itself adds as much to m2: (f - mean)^2 <= m2. Those of
// several are merged around their common mean (Chan, Golub and LeVeque 1979), as distances from one of their elements.
#include "lib/types.clh"
#include "lib/packs.clh"

#define WIDTH (LANES * PACK)
#define EACH_ROW _Pragma("unroll") for (int a = 0; a < AHEAD; a++)
#define EACH_COLUMN _Pragma("unroll") for (int k = 0; k < PACK; k++)

#if SUMS
typedef float2 Partial;  // of gy, of gy * (x - mean)
#define DATA CONST_GLOBAL(STORAGE(X_TAG), x_data), CONST_GLOBAL(STORAGE(G_TAG), gy_data), \
    CONST_GLOBAL(STORAGE(S_TAG), mean_data)
#define LOAD_ROW(r, h, g)                           \
  LOAD_PACK(X_TAG, x, (r) * columns + column, h);   \
  LOAD_PACK(G_TAG, gy, (r) * columns + column, g);
#define ADD(h, g) \
  EACH_COLUMN { first[k] += (g)[k], second[k] += (g)[k] * ((h)[k] - center[k]); }
#else
typedef float4 Partial;  // mean as a sum of two numbers, m2, count
#define DATA CONST_GLOBAL(STORAGE(X_TAG), x_data)
#define LOAD_ROW(r, h, g) LOAD_PACK(X_TAG, x, (r) * columns + column, h);
#define ADD(h, g)                               \
  EACH_COLUMN {                                 \
    const float d = (h)[k] - center[k];         \
    first[k] += d, second[k] += d * d;          \
  }
#endif

// Rows of a chunk that are a work-item's.
inline uint rows_of(uint row, uint rows) { return row < rows ? (rows - row + ROWS - 1) / ROWS : 0; }

__kernel __attribute__((reqd_work_group_size(LANES * ROWS, 1, 1)))
void norm_channels(GLOBAL(Partial, partial_data), DATA, ulong rows, ulong columns, ulong chunk) {
  __local float firsts[ROWS][WIDTH], seconds[ROWS][WIDTH], base[WIDTH];
  __global const STORAGE(X_TAG) *x = CONST_POINTER(STORAGE(X_TAG), x_data);
#if SUMS
  __global const STORAGE(G_TAG) *gy = CONST_POINTER(STORAGE(G_TAG), gy_data);
  __global const STORAGE(S_TAG) *means = CONST_POINTER(STORAGE(S_TAG), mean_data);
#endif
  const uint lane = get_local_id(0) % LANES, row = get_local_id(0) / LANES;
  const ulong column = ((ulong)get_group_id(0) * LANES + lane) * PACK;
  const ulong begin = get_group_id(1) * chunk, end = min(begin + chunk, rows);
  float first[PACK] = {0}, second[PACK] = {0}, center[PACK] = {0};
  if (column < columns) {
#if SUMS
    EACH_COLUMN center[k] = LOAD(S_TAG, means, column + k);
#endif
    for (ulong r = begin + row; r < end; r += AHEAD * ROWS) {
      float h[AHEAD][PACK], g[AHEAD][PACK];
      EACH_ROW { LOAD_ROW(min(r + a * ROWS, end - 1), h[a], g[a]) }
#if !SUMS
      if (r == begin + row) EACH_COLUMN center[k] = h[0][k];
#endif
      EACH_ROW {
        if (r + a * ROWS < end) ADD(h[a], g[a])
      }
    }
  }
  const uint height = (uint)(end - begin);
#if !SUMS
  if (row == 0) EACH_COLUMN base[lane * PACK + k] = center[k];
  barrier(CLK_LOCAL_MEM_FENCE);
  const float n = max(rows_of(row, height), 1u);
  EACH_COLUMN {
    const float low = first[k] / n, m2 = second[k] - first[k] * low;
    first[k] = center[k] - base[lane * PACK + k] + low, second[k] = m2 < 0 ? 0 : m2;
  }
#endif
  EACH_COLUMN firsts[row][lane * PACK + k] = first[k], seconds[row][lane * PACK + k] = second[k];
  barrier(CLK_LOCAL_MEM_FENCE);
  const uint i = get_local_id(0);
  const ulong c = (ulong)get_group_id(0) * WIDTH + i;
  if (i < WIDTH && c < columns) {
    float a = 0, b = 0;
#if SUMS
    for (uint j = 0; j < ROWS; j++) a += firsts[j][i], b += seconds[j][i];
    const Partial result = (Partial)(a, b);
#else
    for (uint j = 0; j < ROWS; j++) a += rows_of(j, height) * firsts[j][i];
    a /= height;
    for (uint j = 0; j < min((uint)ROWS, height); j++) {
      const float d = firsts[j][i] - a;
      b += seconds[j][i] + rows_of(j, height) * d * d;
    }
    const Partial result = (Partial)(base[i], a, b, height);
#endif
    POINTER(Partial, partial_data)[get_group_id(1) * columns + c] = result;
  }
}

// SIDE work-items for each of ACROSS columns.
#define EACH_PART for (ulong j = side; j < parts; j += SIDE)

// The sum of what the work-items of a column have.
inline float of_column(float value, __local float (*shared)[ACROSS], uint side, uint across) {
  barrier(CLK_LOCAL_MEM_FENCE);
  shared[side][across] = value;
  barrier(CLK_LOCAL_MEM_FENCE);
  float sum = 0;
  for (uint j = 0; j < SIDE; j++) sum += shared[j][across];
  return sum;
}

#if SUMS
#define RESULTS GLOBAL(STORAGE(R_TAG), sum_data), GLOBAL(STORAGE(R_TAG), dot_data), \
    CONST_GLOBAL(STORAGE(S_TAG), rstd_data)
#else
#define RESULTS GLOBAL(STORAGE(S_TAG), mean_data), GLOBAL(STORAGE(S_TAG), rstd_data), \
    GLOBAL(STORAGE(R_TAG), running_mean), GLOBAL(STORAGE(R_TAG), running_variance)
#endif
#define UPDATE(name, value)                                                      \
  do {                                                                           \
    __global STORAGE(R_TAG) *old = POINTER(STORAGE(R_TAG), name);                \
    STORE(R_TAG, old, c, (1 - momentum) * LOAD(R_TAG, old, c) + momentum * (value)); \
  } while (0)

__kernel __attribute__((reqd_work_group_size(SIDE * ACROSS, 1, 1)))
void merge_channels(CONST_GLOBAL(Partial, partial_data), RESULTS, ulong parts, ulong columns, float n, float eps,
                    float momentum) {
  __local float shared[SIDE][ACROSS];
  const uint across = get_local_id(0) % ACROSS, side = get_local_id(0) / ACROSS;
  const ulong c = (ulong)get_group_id(0) * ACROSS + across;
  __global const Partial *partial = CONST_POINTER(Partial, partial_data) + min(c, columns - 1);
#if SUMS
  float sum = 0, dot = 0;
  EACH_PART {
    const Partial q = partial[j * columns];
    sum += q.x, dot += q.y;
  }
  sum = of_column(sum, shared, side, across), dot = of_column(dot, shared, side, across);
  if (side == 0 && c < columns) {
    STORE(R_TAG, POINTER(STORAGE(R_TAG), sum_data), c, sum);
    STORE(R_TAG, POINTER(STORAGE(R_TAG), dot_data), c, dot * LOAD(S_TAG, CONST_POINTER(STORAGE(S_TAG), rstd_data), c));
  }
#else
  const float base = partial[0].x;
  float low = 0, m2 = 0;
  EACH_PART {
    const Partial q = partial[j * columns];
    low += q.w * (q.x - base + q.y);
  }
  low = of_column(low, shared, side, across) / n;
  EACH_PART {
    const Partial q = partial[j * columns];
    const float d = q.x - base + q.y - low;
    m2 += q.z + q.w * d * d;
  }
  m2 = of_column(m2, shared, side, across);
  if (side == 0 && c < columns) {
    const float mean = base + low;
    STORE(S_TAG, POINTER(STORAGE(S_TAG), mean_data), c, mean);
    STORE(S_TAG, POINTER(STORAGE(S_TAG), rstd_data), c, 1 / sqrt(m2 / n + eps));
#if HAS_RUNNING
    UPDATE(running_mean, mean);
    UPDATE(running_variance, m2 / (n - 1));
#endif
  }
#endif
}
