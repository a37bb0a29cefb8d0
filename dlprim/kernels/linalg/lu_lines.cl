// SPDX-License-Identifier: MIT
// LU factors of small real matrices or of panels with partial pivoting, for CPUs: a work-item a matrix. Columns are rows
// here, whose loops are vectors; BLOCK of them are factored before what is right of them changes.
// Defines: those of vector_rows.clh.
#include "linalg/vector_rows.clh"

#define BLOCK 8
#define MOST_COLUMNS 32  // of a panel whose factor is applied to others

typedef struct {
  Matrix a;
  long count, pivots_batch;
  int m, n, start, pivot;  // `start`: rows and columns before the panel
} Lines;

typedef struct {
  __global T *lines, *factors;  // columns; those of L in the block, with zeros down to their diagonal
  int pitch, m, n;
} Problem;

// The row of the largest element from row j on; j where there are but NaN.
inline int pivot_row(Problem p, __global const T *line, int j) {
  const int head = min((j / 16 + 1) * 16, p.pitch);
  T most = -1;
  for (int i = j; i < head; i++) most = fmax(most, fabs(line[i]));
  VECTOR sizes = most;
  for (int c = head / 16; c < p.pitch / 16; c++) sizes = fmax(sizes, fabs(vload16(c, line)));
  most = LARGEST(sizes);
  for (int i = j; i < head; i++)
    if (fabs(line[i]) == most) return i;
  for (int c = head / 16; c < p.pitch / 16; c++)
    if (any(fabs(vload16(c, line)) == most))
      for (int i = c * 16; i < c * 16 + 16; i++)
        if (fabs(line[i]) == most) return i;
  return j;
}

inline void exchange(__global T *line, int i, int j) {
  const T value = line[i];
  line[i] = line[j], line[j] = value;
}

// Divides column j below its diagonal by what is on it, also to `factor`.
inline void scale_column(Problem p, __global T *line, __global T *factor, int j) {
  const T divisor = line[j];
  const int head = min((j / 16 + 1) * 16, p.pitch);
  for (int c = 0; c < j / 16; c++) vstore16((VECTOR)0, c, factor);
  for (int i = j / 16 * 16; i <= j; i++) factor[i] = 0;
  for (int i = j + 1; i < head; i++) factor[i] = divisor == 0 ? 0 : line[i] / divisor;
  for (int c = head / 16; c < p.pitch / 16; c++)
    vstore16(divisor == 0 ? (VECTOR)0 : vload16(c, line) / divisor, c, factor);
  if (divisor == 0) return;
  for (int i = j + 1; i < head; i++) line[i] = factor[i];
  for (int c = head / 16; c < p.pitch / 16; c++) vstore16(vload16(c, factor), c, line);
}

// Subtracts the products of the factors of `width` columns from j on from `columns` lines right of them.
__attribute__((always_inline)) inline void eliminate(Problem p, __global T *lines, int j, int width,
                                                     const int columns) {
  T x[BLOCK][4];
  for (int t = 0; t < width; t++) {
    _Pragma("unroll") for (int u = 0; u < columns; u++) x[t][u] = lines[u * p.pitch + j + t];
    for (int s = 0; s < t; s++) {
      const T factor = p.factors[s * p.pitch + j + t];
      _Pragma("unroll") for (int u = 0; u < columns; u++) x[t][u] -= factor * x[s][u];
    }
  }
  for (int c = j / 16; c < p.pitch / 16; c++) {
    VECTOR value[4];
    _Pragma("unroll") for (int u = 0; u < columns; u++) value[u] = vload16(c, lines + u * p.pitch);
    for (int t = 0; t < width; t++) {
      const VECTOR factor = vload16(c, p.factors + t * p.pitch);
      _Pragma("unroll") for (int u = 0; u < columns; u++) value[u] -= x[t][u] * factor;
    }
    _Pragma("unroll") for (int u = 0; u < columns; u++) vstore16(value[u], c, lines + u * p.pitch);
  }
}

// Columns j to j + width, and their exchanges in all others; the first row without pivot, or `failed`.
inline int factor_block(Problem p, int j, int width, int pivot, __global int *pivots, int start, int failed) {
  int rows[BLOCK];
  for (int t = 0; t < width; t++) {
    __global T *line = p.lines + (j + t) * p.pitch;
    const int row = pivot ? pivot_row(p, line, j + t) : j + t;
    rows[t] = row, pivots[j + t] = start + row + 1;
    for (int k = j; k < j + width && row != j + t; k++) exchange(p.lines + k * p.pitch, j + t, row);
    if (row != j + t)
      for (int s = 0; s < t; s++) exchange(p.factors + s * p.pitch, j + t, row);
    if (line[j + t] == 0 && !failed) failed = start + j + t + 1;
    scale_column(p, line, p.factors + t * p.pitch, j + t);
    for (int k = j + t + 1; k < j + width; k++) {
      __global T *other = p.lines + k * p.pitch;
      const T x = other[j + t];
      for (int c = (j + t) / 16; c < p.pitch / 16; c++)
        vstore16(vload16(c, other) - x * vload16(c, p.factors + t * p.pitch), c, other);
    }
  }
  for (int k = 0; k < p.n; k++)
    for (int t = 0; t < width && (k < j || k >= j + width); t++)
      if (rows[t] != j + t) exchange(p.lines + k * p.pitch, j + t, rows[t]);
  return failed;
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void lu_lines(GLOBAL(T, a), GLOBAL(int, pivots),
                                                                      GLOBAL(int, info), GLOBAL(T, scratch), Lines w) {
  const int m = w.m, n = w.n, pitch = (m + 15) / 16 * 16, steps = min(m, n);
  const long share = (w.count - 1) / (long)get_num_groups(0) + 1, first = (long)get_group_id(0) * share;
  __global T *factors = POINTER(T, scratch) + (long)get_group_id(0) * (n + BLOCK) * pitch;
  const Problem p = {factors + BLOCK * pitch, factors, pitch, m, n};
  for (long batch = first; batch < min(first + share, w.count); batch++) {
    __global T *a = POINTER(T, a) + batch * w.a.batch;
    __global int *pivots = POINTER(int, pivots) + batch * w.pivots_batch + w.start, *info = POINTER(int, info) + batch;
    for (int j = 0; j < n; j++) load_line(p.lines + j * pitch, a + j * w.a.col, w.a.row, m, pitch);
    int failed = 0;
    for (int j = 0; j < steps; j += BLOCK) {
      const int width = min(BLOCK, steps - j);
      failed = factor_block(p, j, width, w.pivot, pivots, w.start, failed);
      int k = j + width;
      for (; k + 4 <= n; k += 4) eliminate(p, p.lines + k * pitch, j, width, 4);
      for (; k < n; k++) eliminate(p, p.lines + k * pitch, j, width, 1);
    }
    for (int j = 0; j < n; j++) store_line(p.lines + j * pitch, a + j * w.a.col, w.a.row, m);
    if (w.start == 0 || *info == 0) *info = failed;
  }
}

typedef struct {
  Matrix a;
  long count, pivots_batch, columns, chunk;
  int m, n, start, unused;
} Others;

// Columns, `pitch` apart, right of a panel.
__attribute__((always_inline)) inline void solve_columns(__global T *a, long pitch, T (*lower)[MOST_COLUMNS], int n,
                                                         const int columns) {
  T head[4][MOST_COLUMNS];
  for (int u = 0; u < columns; u++)
    for (int t = 0; t < MOST_COLUMNS; t++) head[u][t] = t < n ? a[u * pitch + t] : 0;
  for (int t = 0; t < n; t++)
    for (int c = t / 16; c < MOST_COLUMNS / 16; c++) {
      const VECTOR factor = vload16(c, lower[t]);
      _Pragma("unroll") for (int u = 0; u < columns; u++)
        vstore16(vload16(c, head[u]) - head[u][t] * factor, c, head[u]);
    }
  for (int u = 0; u < columns; u++)
    for (int t = 0; t < n; t++) a[u * pitch + t] = head[u][t];
}

// What a panel of `n` columns, at most MOST_COLUMNS, does to the other columns of a [batch, m, columns], whose elements
// lie side by side: exchanges; of those right of it, the first rows become L^-1 times what they are.
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void lu_others(GLOBAL(T, a), CONST_GLOBAL(int, pivots),
                                                                       Others w) {
  const long chunks = (w.columns - 1) / w.chunk + 1, batch = (long)get_group_id(0) / chunks, pitch = w.a.col;
  const long first = (long)get_group_id(0) % chunks * w.chunk, end = min(first + w.chunk, w.columns);
  __global T *a = POINTER(T, a) + batch * w.a.batch;
  __global const int *pivots = CONST_POINTER(int, pivots) + batch * w.pivots_batch + w.start;
  for (long j = first; j < end; j++)
    for (int t = 0; t < w.n && (j < w.start || j >= w.start + w.n); t++)
      exchange(a + j * pitch, t, pivots[t] - 1 - w.start);
  long j = max(first, (long)w.start + w.n);
  if (j >= end) return;
  T lower[MOST_COLUMNS][MOST_COLUMNS];
  for (int t = 0; t < w.n; t++)
    for (int i = 0; i < MOST_COLUMNS; i++) lower[t][i] = i > t && i < w.n ? a[(w.start + t) * pitch + i] : 0;
  for (; j + 4 <= end; j += 4) solve_columns(a + j * pitch, pitch, lower, w.n, 4);
  for (; j < end; j++) solve_columns(a + j * pitch, pitch, lower, w.n, 1);
}
