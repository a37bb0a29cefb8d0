// SPDX-License-Identifier: MIT
// Singular values of real matrices, for CPUs: a work-item a matrix, two diagonals by reflections from the left and the right
// and implicit QR steps (G. Golub, C. Van Loan, Matrix Computations, 8.6; J. Demmel, W. Kahan, "Accurate singular values
// of bidiagonal matrices", 1990). Vectors are rows here, whose loops are vectors. Elements are divided by the largest one.
// Defines, beside those of vector_rows.clh: EPSILON.
#include "linalg/vector_rows.clh"

typedef struct {
  Matrix a, u, v;
  long count;
  int m, n, left, want_vectors;  // m >= n; left vectors: n or m
} Whole;

// One matrix's arrays: `x`, the matrix, whose row k keeps the vector of the reflection from the right that belongs to it,
// as row k of `columns` does from the left; `u` and `v`, vectors as rows, `q`, these as columns. The diagonals, of which
// e[k] stands right of d[k]; factors of reflections; cosines and sines of rotations of both sides; and a row.
typedef struct {
  __global T *d, *e, *left_tau, *right_tau, *c, *s, *left_c, *left_s, *line, *x, *columns, *u, *v, *q;
  int m, n, left, pitch, tall;  // between rows of n numbers, and of m
} Problem;

inline T load(Problem p, __global const T *a, Matrix m) {
  for (int i = 0; i < p.m; i++) {
    __global T *row = p.x + i * p.pitch;
    for (int j = 0; j < p.n; j++) row[j] = a[AT(m, i, j)];
    for (int j = p.n; j < p.pitch; j++) row[j] = 0;
  }
  return divide_by_largest(p.x, p.m * p.pitch / 16);
}

// line = tau v^T X of rows from k on.
STRIP sum_rows(Problem p, __global const T *v, T tau, int k, int first, int vectors) {
  VECTOR sum[4];
  EACH_VECTOR sum[u] = 0;
  for (int r = k; r < p.m; r++) EACH_VECTOR sum[u] += v[r] * vload16(0, p.x + r * p.pitch + AT_VECTOR);
  EACH_VECTOR vstore16(tau * sum[u], 0, p.line + AT_VECTOR);
}

// Reflections of column k and, right of its diagonal, of row k.
inline void reduce(Problem p, int k) {
  const int start = k / 16, skipped = start * 16, count = p.pitch / 16 - start;
  __global T *v = p.columns + k * p.tall, *row = p.x + k * p.pitch + skipped, *line = p.line + skipped;
  for (int r = 0; r < p.tall; r++) v[r] = r < k || r >= p.m ? 0 : p.x[r * p.pitch + k];
  const Reflection left = reflection(v, k, p.tall / 16);
  p.d[k] = left.beta, p.left_tau[k] = left.tau;
  Problem from = p;
  from.x += skipped, from.line += skipped;
  EACH_STRIP(count, sum_rows, from, v, left.tau, k);
  for (int j = skipped; j <= k; j++) p.line[j] = 0;
  for (int c = 0; c < count; c++) vstore16(vload16(c, row) - vload16(c, line), c, row);
  for (int j = skipped; j <= k; j++) p.x[k * p.pitch + j] = 0;
  Reflection right = {0, 0};
  if (k + 1 < p.n) right = reflection(row, k + 1 - skipped, count);
  p.right_tau[k] = right.tau, p.e[k] = right.beta;
  for (int r = k + 1; r < p.m; r++) {
    __global T *other = p.x + r * p.pitch + skipped;
    VECTOR sum = 0;
    for (int c = 0; c < count; c++) {
      const VECTOR value = vload16(c, other) - v[r] * vload16(c, line);
      vstore16(value, c, other);
      sum += value * vload16(c, row);
    }
    const T factor = right.tau * SUM(sum);
    for (int c = 0; c < count; c++) vstore16(vload16(c, other) - factor * vload16(c, row), c, other);
  }
}

// The products of the reflections of either side.
inline void collect(Problem p) {
  const int wide = (p.left + 15) / 16 * 16;
  set_identity(p.q, p.m, wide);
  for (int k = p.n - 1; k >= 0; k--) {
    const int skipped = k / 16 * 16;
    EACH_STRIP((wide - skipped) / 16, reflect, p.q + k * wide + skipped, wide, p.columns + k * p.tall + k,
               p.left_tau[k], p.m - k);
  }
  transpose_rows(p.q, wide, p.u, p.tall, p.m, p.left);
  set_identity(p.q, p.n, p.pitch);
  for (int k = p.n - 2; k >= 0; k--) {
    const int skipped = (k + 1) / 16 * 16;
    EACH_STRIP((p.pitch - skipped) / 16, reflect, p.q + (k + 1) * p.pitch + skipped, p.pitch,
               p.x + k * p.pitch + k + 1, p.right_tau[k], p.n - k - 1);
  }
  transpose_rows(p.q, p.pitch, p.v, p.pitch, p.n, p.n);
}

// The smaller singular value of (f g; 0 h), from the larger one and the determinant.
inline T smaller_of(T f, T g, T h) {
  const T sum = fabs(f) + fabs(h), difference = fabs(f) - fabs(h);
  const T larger = (sqrt(sum * sum + g * g) + sqrt(difference * difference + g * g)) / 2;
  return larger > 0 ? fabs(f) * (fabs(h) / larger) : 0;
}

// An implicit QR step with a shift on rows low to high.
inline void step(Problem p, int low, int high, T shift) {
  T x = (fabs(p.d[low]) - shift) * ((p.d[low] < 0 ? -1 : 1) + shift / p.d[low]), z = p.e[low];
  for (int k = low; k < high; k++) {
    const Rotation right = rotation(x, z);
    if (k > low) p.e[k - 1] = right.length;
    const T e = right.c * p.e[k] - right.s * p.d[k], next = right.c * p.d[k + 1];
    const Rotation left = rotation(right.c * p.d[k] + right.s * p.e[k], right.s * p.d[k + 1]);
    p.d[k] = left.length, p.d[k + 1] = left.c * next - left.s * e;
    x = left.c * e + left.s * next;
    if (k + 1 < high) z = left.s * p.e[k + 1], p.e[k + 1] *= left.c;
    keep_rotation(p.c, p.s, k, right), keep_rotation(p.left_c, p.left_s, k, left);
  }
  p.e[high - 1] = x;
}

// One without a shift, which keeps small values accurate, and ends with a zero where an element of the diagonal is one.
inline void step_from_zero(Problem p, int low, int high) {
  Rotation right, left = {1, 0, 0};
  T c = 1;
  for (int k = low; k < high; k++) {
    right = rotation(p.d[k] * c, p.e[k]);
    if (k > low) p.e[k - 1] = left.s * right.length;
    left = rotation(left.c * right.length, p.d[k + 1] * right.s);
    p.d[k] = left.length, c = right.c;
    keep_rotation(p.c, p.s, k, right), keep_rotation(p.left_c, p.left_s, k, left);
  }
  const T last = p.d[high] * c;
  p.e[high - 1] = last * left.s, p.d[high] = last * left.c;
}

// Singular values, of either sign, to `d`; false where too many steps were not enough.
inline bool diagonalize(Problem p, int want_vectors) {
  int steps = 30 * p.n, low, high = p.n - 1;
  while (last_block(p.d, p.e, &low, &high)) {
    if (steps-- == 0) return false;
    bool singular = false;
    for (int k = low; k <= high; k++) singular |= fabs(p.d[k]) <= SMALL;
    const T shift = smaller_of(p.d[high - 1], p.e[high - 1], p.d[high]), ratio = shift / p.d[low];
    if (singular || ratio * ratio < EPSILON) step_from_zero(p, low, high);
    else step(p, low, high, shift);
    if (!want_vectors) continue;
    EACH_STRIP(p.pitch / 16, rotate, p.v + low * p.pitch, p.pitch, p.c + low, p.s + low, high - low);
    EACH_STRIP(p.tall / 16, rotate, p.u + low * p.tall, p.tall, p.left_c + low, p.left_s + low, high - low);
  }
  return true;
}

// Descending.
inline void store(Problem p, T scale, __global T *values, __global T *u, __global T *v, Whole w) {
  for (int j = 0; j < p.left; j++) {
    int rank = j;
    const T own = j < p.n ? p.d[j] : 0, value = fabs(own);
    if (j < p.n) {
      rank = 0;
      for (int k = 0; k < p.n; k++) rank += fabs(p.d[k]) > value || (fabs(p.d[k]) == value && k < j);
      values[rank] = value * scale;
    }
    if (!w.want_vectors) continue;
    for (int i = 0; i < p.m; i++) u[AT(w.u, i, rank)] = p.u[j * p.tall + i];
    for (int i = 0; i < p.n && j < p.n; i++) v[AT(w.v, i, rank)] = own < 0 ? -p.v[j * p.pitch + i] : p.v[j * p.pitch + i];
  }
}

// Of a [batch, m, n]. info -4: infinities or NaN, 1: without result.
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void svd_whole(CONST_GLOBAL(T, a), GLOBAL(T, u),
                                                                       GLOBAL(T, values), GLOBAL(T, v),
                                                                       GLOBAL(int, info), GLOBAL(T, scratch), Whole w) {
  const int m = w.m, n = w.n, pitch = (n + 15) / 16 * 16, tall = (m + 15) / 16 * 16, wide = (w.left + 15) / 16 * 16;
  const long share = (w.count - 1) / (long)get_num_groups(0) + 1, start = (long)get_group_id(0) * share;
  const long vectors = w.want_vectors ? (long)w.left * tall + n * pitch + (long)m * wide : 0;
  Problem p;
  p.d = POINTER(T, scratch) + (long)get_group_id(0) * (9 * pitch + (long)m * pitch + (long)n * tall + vectors);
  p.e = p.d + pitch, p.left_tau = p.e + pitch, p.right_tau = p.left_tau + pitch, p.c = p.right_tau + pitch;
  p.s = p.c + pitch, p.left_c = p.s + pitch, p.left_s = p.left_c + pitch, p.line = p.left_s + pitch;
  p.x = p.line + pitch, p.columns = p.x + (long)m * pitch, p.u = p.columns + (long)n * tall;
  p.v = p.u + (long)w.left * tall, p.q = p.v + n * pitch;
  p.m = m, p.n = n, p.left = w.left, p.pitch = pitch, p.tall = tall;
  for (long batch = start; batch < min(start + share, w.count); batch++) {
    const T scale = load(p, CONST_POINTER(T, a) + batch * w.a.batch, w.a);
    __global T *own = POINTER(T, values) + batch * n;
    __global int *code = POINTER(int, info) + batch;
    *code = scale < 0 ? -4 : 0;
    if (*code == 0) {
      for (int k = 0; k < n; k++) reduce(p, k);
      if (w.want_vectors) {
        for (int c = 0; c < w.left * tall; c++) p.u[c] = 0;
        for (int c = 0; c < n * pitch; c++) p.v[c] = 0;
        collect(p);
      }
      if (!diagonalize(p, w.want_vectors)) *code = 1;
    }
    if (*code == 0)
      store(p, scale, own, POINTER(T, u) + batch * w.u.batch, POINTER(T, v) + batch * w.v.batch, w);
    else
      for (int i = 0; i < n; i++) own[i] = NAN;
  }
}
