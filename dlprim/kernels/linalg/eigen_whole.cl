// SPDX-License-Identifier: MIT
// Eigenvectors of small real symmetric matrices, for CPUs: a work-item a matrix, tridiagonal form by reflections and
// implicit QR steps (G. Golub, C. Van Loan, Matrix Computations, 8.3). The vectors are rows here, whose loops are vectors.
// Elements are divided by the largest one.
// Defines, beside those of vector_rows.clh: EPSILON.
#include "linalg/vector_rows.clh"

typedef struct {
  Matrix a, out;
  long count;
  int n, want_vectors;
} Whole;

// One matrix's arrays: `s`, the matrix and later the vectors; `q`; the diagonals of the tridiagonal matrix, of which
// e[k] stands between d[k] and d[k + 1]; factors of reflections, cosines and sines of rotations, and rows.
typedef struct {
  __global T *s, *q, *d, *e, *tau, *cosine, *sine, *w, *next;
  int n, pitch;
} Problem;

// Fills `s`, both triangles, from the lower one; the largest size, -1 where there are infinities or NaN.
inline T load(Problem p, __global const T *a, Matrix m) {
  for (int i = 0; i < p.n; i++) {
    __global T *row = p.s + i * p.pitch;
    for (int j = 0; j <= i; j++) row[j] = a[AT(m, i, j)];
    for (int j = 0; j < i; j++) p.s[j * p.pitch + i] = row[j];
    for (int j = p.n; j < p.pitch; j++) row[j] = 0;
  }
  return divide_by_largest(p.s, p.n * p.pitch / 16);
}

// A - v w^T - w v^T of the first `rows` rows, and the product of what it becomes with x to `next`.
STRIP update(Problem p, __global const T *v, __global const T *x, int rows, int first, int vectors) {
  VECTOR vs[4], ws[4], sum[4];
  EACH_VECTOR vs[u] = vload16(0, v + AT_VECTOR), ws[u] = vload16(0, p.w + AT_VECTOR), sum[u] = 0;
  for (int r = 0; r < rows; r++) {
    __global T *row = p.s + r * p.pitch;
    const T vr = v[r], wr = p.w[r], xr = x[r];
    EACH_VECTOR {
      const VECTOR value = vload16(0, row + AT_VECTOR) - vr * ws[u] - wr * vs[u];
      vstore16(value, 0, row + AT_VECTOR);
      sum[u] += xr * value;
    }
  }
  EACH_VECTOR vstore16(sum[u], 0, p.next + AT_VECTOR);
}

// From the last row up; row i of `s` keeps the vector of its reflection.
inline void make_tridiagonal(Problem p) {
  for (int k = 0; k < p.pitch; k++) p.w[k] = p.cosine[k] = 0;
  __global T *v = p.cosine;  // of the row before: none
  for (int i = p.n - 1; i >= 0; i--) {
    __global T *row = p.s + i * p.pitch;
    const int count = (i + 15) / 16;
    const T vi = v[i], wi = p.w[i];
    for (int c = 0; c <= i / 16; c++)
      vstore16(vload16(c, row) - vi * vload16(c, p.w) - wi * vload16(c, v), c, row);
    p.d[i] = row[i];
    if (i == 0) break;
    for (int k = i; k < count * 16; k++) row[k] = 0;
    const Reflection h = reflection(row, i - 1, count);
    p.e[i - 1] = h.beta, p.tau[i] = h.tau;
    EACH_STRIP(count, update, p, v, row, i);
    const T tau = h.tau, share = tau * product_of_rows(p.next, row, count) * tau / 2;
    for (int c = 0; c < count; c++) vstore16(tau * vload16(c, p.next) - share * vload16(c, row), c, p.w);
    for (int k = i; k < count * 16; k++) p.w[k] = 0;
    v = row;
  }
}

// The transpose of the product of all reflections to `s`.
inline void collect(Problem p) {
  set_identity(p.q, p.n, p.pitch);
  for (int i = 1; i < p.n; i++)
    EACH_STRIP((i + 15) / 16, reflect, p.q, p.pitch, p.s + i * p.pitch, p.tau[i], i);
  transpose_rows(p.q, p.pitch, p.s, p.pitch, p.n, p.n);
}

// One implicit QR step of rows low to high, with the shift that J. Wilkinson chose: the eigenvalue of the last two rows
// that is nearer to the last element. Its rotations are of rows k and k + 1.
inline void step(Problem p, int low, int high) {
  const T before = p.e[high - 1], gap = (p.d[high - 1] - p.d[high]) / 2;
  const T root = hypot(gap, before);
  T x = p.d[low] - (p.d[high] - before * (before / (gap + (gap < 0 ? -root : root)))), z = p.e[low];
  for (int k = low; k < high; k++) {
    const Rotation r = rotation(x, z);
    const T c = r.c, s = r.s;
    if (k > low) p.e[k - 1] = r.length;
    const T between = p.e[k], t = s * (p.d[k + 1] - p.d[k]) + 2 * c * between;
    p.d[k] += s * t, p.d[k + 1] -= s * t;
    x = p.e[k] = c * t - between;
    if (k + 1 < high) z = s * p.e[k + 1], p.e[k + 1] *= c;
    keep_rotation(p.cosine, p.sine, k, r);
  }
}

// Eigenvalues to `d`, vectors to the rows of `s`; false where too many steps were not enough.
inline bool solve_tridiagonal(Problem p, int want_vectors) {
  int steps = 30 * p.n, low, high = p.n - 1;
  while (last_block(p.d, p.e, &low, &high)) {
    if (steps-- == 0) return false;
    step(p, low, high);
    if (want_vectors)
      EACH_STRIP(p.pitch / 16, rotate, p.s + low * p.pitch, p.pitch, p.cosine + low, p.sine + low, high - low);
  }
  return true;
}

// Ascending.
inline void store(Problem p, T scale, __global T *values, __global T *out, Matrix m, int want_vectors) {
  for (int j = 0; j < p.n; j++) {
    const T value = p.d[j];
    int rank = 0;
    for (int k = 0; k < p.n; k++) rank += p.d[k] < value || (p.d[k] == value && k < j);
    values[rank] = value * scale;
    __global const T *row = p.s + j * p.pitch;
    for (int i = 0; i < p.n && want_vectors; i++) out[AT(m, i, rank)] = row[i];
  }
}

// Of `scratch`, in which a matrix without vectors leaves out `q`.
inline Problem problem_at(__global T *scratch, int n, int pitch) {
  const Problem p = {scratch + 7 * pitch, scratch + (7 + n) * pitch, scratch, scratch + pitch, scratch + 2 * pitch,
                     scratch + 3 * pitch, scratch + 4 * pitch, scratch + 5 * pitch, scratch + 6 * pitch, n, pitch};
  return p;
}

// The matrices of a work-item, and its arrays.
#define EACH_PROBLEM                                                                                             \
  const int n = whole.n, pitch = (n + 15) / 16 * 16;                                                             \
  const long share = (whole.count - 1) / (long)get_num_groups(0) + 1, start = (long)get_group_id(0) * share;     \
  const int rows = 7 + (whole.want_vectors ? 2 : 1) * n;                                                         \
  const Problem p = problem_at(POINTER(T, scratch) + (long)get_group_id(0) * rows * pitch, n, pitch);            \
  for (long batch = start; batch < min(start + share, whole.count); batch++)

// Of the lower triangles of a [batch, n, n]. `out` may be `a`. info 1: without result.
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void eigen_whole(CONST_GLOBAL(T, a), GLOBAL(T, out),
                                                                         GLOBAL(T, values), GLOBAL(int, info),
                                                                         GLOBAL(T, scratch), Whole whole) {
  EACH_PROBLEM {
    const T scale = load(p, CONST_POINTER(T, a) + batch * whole.a.batch, whole.a);
    bool good = scale >= 0;
    if (good) {
      make_tridiagonal(p);
      if (whole.want_vectors) collect(p);
      good = solve_tridiagonal(p, whole.want_vectors);
    }
    POINTER(int, info)[batch] = !good;
    if (good)
      store(p, scale, POINTER(T, values) + batch * n, POINTER(T, out) + batch * whole.out.batch, whole.out,
            whole.want_vectors);
    else
      for (int i = 0; i < n; i++) POINTER(T, values)[batch * n + i] = NAN;
  }
}

// The tridiagonal form of a [batch, n, n], whose largest element is 1, as tridiagonal.cl has it: from the first row down,
// which is from the last one up where rows and columns are counted from the other end.
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void tridiagonal_whole(CONST_GLOBAL(T, a), GLOBAL(T, vectors),
                                                                               GLOBAL(T, tau), GLOBAL(T, diagonal),
                                                                               GLOBAL(T, beside), GLOBAL(T, scratch),
                                                                               Whole whole) {
  const Matrix flipped = {0, -whole.a.row, -whole.a.col};
  EACH_PROBLEM {
    load(p, CONST_POINTER(T, a) + batch * whole.a.batch + AT(whole.a, n - 1, n - 1), flipped);
    make_tridiagonal(p);
    __global T *out = POINTER(T, vectors) + batch * n * n;
    for (int i = 0; i < n; i++) {
      const long at = batch * n + n - 1 - i;
      POINTER(T, diagonal)[at] = p.d[i], POINTER(T, beside)[at] = i > 0 ? p.e[i - 1] : 0;
      if (i > 0) POINTER(T, tau)[at - batch] = p.tau[i];
      for (int k = 0; k < i; k++) out[(n - 1 - i) * n + n - 1 - k] = p.s[i * pitch + k];
    }
  }
}
