// SPDX-License-Identifier: MIT
// Eigenvectors of small Hermitian matrices by Jacobi's rotations (G. Golub, C. Van Loan, Matrix Computations, 8.5), one
// work-group a matrix, in local memory. A step rotates n / 2 disjoint pairs at once, in the order of a round robin.
// Defines, beside those of linalg.clh: GROUP; EPSILON; BLOCKS: matrices are Gram's of columns, see below.
#include "linalg/linalg.clh"

typedef struct {
  Matrix a, vectors;
  int n, pitch, sweeps, want_vectors;
} Jacobi;

// Players i and m - 1 - i of round `step` of a tournament of m, m even.
inline void pair_of(int i, int step, int m, int *p, int *q) {
  const int a = i == 0 ? m - 1 : (step + i) % (m - 1), b = i == 0 ? step : (step + m - 1 - i) % (m - 1);
  *p = min(a, b), *q = max(a, b);
}

// Rotates column p to c p - conj(u) q and column q to u p + c q, so that element (p, q) vanishes. d = 1 - c: columns are
// corrected by small numbers, whose errors matter little (H. Rutishauser, "The Jacobi method for real symmetric matrices",
// 1966).
inline void rotation(T pq, real_t pp, real_t qq, real_t *d, T *u) {
  const real_t size = ABS(pq);
  *d = 0, *u = REAL(0);
  if (!(size > 0)) return;
  const real_t theta = (qq - pp) / (2 * size);
  const real_t t = (theta >= 0 ? 1 : -1) / (fabs(theta) + sqrt(1 + theta * theta));
  const real_t c = 1 / sqrt(1 + t * t), sine = t * c;
  *u = pq / size * sine;
  *d = sine * sine / (1 + c);
}

// Without BLOCKS: ascending eigenvalues to `values` [batch, n], eigenvectors to `vectors`, info 1 where `sweeps` were not
// enough. With BLOCKS: the rotations' product to `vectors`; `values` holds the norm of all columns of the matrix that
// these belong to ([batch / shared]), and info[0] becomes the largest |g_pq| / (norm max(|a_p|, |a_q|)), the bits of a
// float, of any matrix.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void jacobi(CONST_GLOBAL(T, a), GLOBAL(T, vectors),
                                                                        GLOBAL(real_t, values), GLOBAL(int, info),
                                                                        Jacobi p, int shared, __local T *s,
                                                                        __local T *w) {
  __local real_t remainders[64], partial[GROUP];
  __local T sines[64];
  __local int first[64], second[64], rotated, invalid, largest_bits;
  const int id = get_local_id(0), n = p.n, pitch = p.pitch, even = n + (n & 1), pairs = even / 2;
  const long batch = get_group_id(0);
  __global const T *a = CONST_POINTER(T, a) + batch * p.a.batch;
  if (id == 0) invalid = largest_bits = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int e = id; e < n * n; e += GROUP) {
    const int i = e / n, j = e % n;
    const T value = i >= j ? a[AT(p.a, i, j)] : CONJ(a[AT(p.a, j, i)]);
    if (!isfinite(SIZE(value))) invalid = 1;
    s[i * pitch + j] = i == j ? REAL(RE(value)) : value;
    w[i * pitch + j] = REAL(i == j ? (real_t)1 : (real_t)0);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
#if BLOCKS
  const real_t norm = POINTER(real_t, values)[batch / shared];
  real_t most = 0;
  for (int e = id; e < n * n; e += GROUP) {
    const int i = e / n, j = e % n;
    const real_t size = i > j ? ABS(s[i * pitch + j]) : 0;
    if (size > 0) most = fmax(most, size / (norm * sqrt(fmax(RE(s[i * pitch + i]), RE(s[j * pitch + j])))));
  }
  atomic_max(&largest_bits, as_int((float)most));  // no number is below 0, so their bits are in their order
  barrier(CLK_LOCAL_MEM_FENCE);
  if (id == 0) atomic_max(POINTER(int, info), largest_bits);
  const real_t tolerance = 0;
#else
  real_t most = 0;
  for (int e = id; e < n * n; e += GROUP) most = fmax(most, ABS(s[e / n * pitch + e % n]));
  partial[id] = most;
  barrier(CLK_LOCAL_MEM_FENCE);
  real_t largest = 0;
  for (int c = 0; c < GROUP; c++) largest = fmax(largest, partial[c]);
  const real_t tolerance = EPSILON * largest;
#endif
  int sweep = 0;
  for (; sweep < p.sweeps; sweep++) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (id == 0) rotated = 0;
    for (int step = 0; step < even - 1; step++) {
      barrier(CLK_LOCAL_MEM_FENCE);
      for (int i = id; i < pairs; i += GROUP) {
        int x, y;
        pair_of(i, step, even, &x, &y);
        real_t d = 0;
        T u = REAL(0);
        if (y < n) {
          const T xy = s[x * pitch + y];
          const real_t xx = RE(s[x * pitch + x]), yy = RE(s[y * pitch + y]), size = ABS(xy);
          // Measured by both where they are columns' products, and no smaller than what rounding leaves of it.
          const bool matters = BLOCKS ? size > EPSILON * sqrt(fabs(xx)) * sqrt(fabs(yy)) : size > tolerance;
          if (matters) rotated = 1;
          // Far below the tolerance, rotations would only mix the rows of equal eigenvalues, again and again.
          if (BLOCKS ? matters : size > tolerance / 8) rotation(xy, xx, yy, &d, &u);
        }
        remainders[i] = d, sines[i] = u, first[i] = x, second[i] = y;
      }
      barrier(CLK_LOCAL_MEM_FENCE);
      for (int e = id; e < pairs * pairs; e += GROUP) {
        const int i = e / pairs, j = e % pairs;
        const int xi = first[i], yi = second[i], xj = first[j], yj = second[j];
        const real_t di = remainders[i], dj = remainders[j];
        const T ui = sines[i], uj = sines[j];
        const bool row = yi < n, column = yj < n;
        const T zero = REAL(0);
        const T xx = s[xi * pitch + xj], xy = column ? s[xi * pitch + yj] : zero,
                yx = row ? s[yi * pitch + xj] : zero, yy = row && column ? s[yi * pitch + yj] : zero;
        const T xx1 = xx - (xx * dj + MUL(CONJ(uj), xy)), xy1 = xy + (MUL(uj, xx) - xy * dj);
        const T yx1 = yx - (yx * dj + MUL(CONJ(uj), yy)), yy1 = yy + (MUL(uj, yx) - yy * dj);
        const bool same = i == j, turns = same && !IS_ZERO(ui);
        const T upper = xx1 - (xx1 * di + MUL(ui, yx1)), lower = yy1 + (MUL(CONJ(ui), xy1) - yy1 * di);
        s[xi * pitch + xj] = same ? REAL(RE(upper)) : upper;
        if (column) s[xi * pitch + yj] = turns ? zero : xy1 - (xy1 * di + MUL(ui, yy1));
        if (row) s[yi * pitch + xj] = turns ? zero : yx1 + (MUL(CONJ(ui), xx1) - yx1 * di);
        if (row && column) s[yi * pitch + yj] = same ? REAL(RE(lower)) : lower;
      }
      for (int e = id; e < n * pairs; e += GROUP) {
        const int i = e / pairs, j = e % pairs;
        const int x = first[j], y = second[j];
        if (y < n) {
          const T wx = w[i * pitch + x], wy = w[i * pitch + y];
          w[i * pitch + x] = wx - (wx * remainders[j] + MUL(CONJ(sines[j]), wy));
          w[i * pitch + y] = wy + (MUL(sines[j], wx) - wy * remainders[j]);
        }
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (!rotated) break;
  }
  __global T *vectors = POINTER(T, vectors) + batch * p.vectors.batch;
#if BLOCKS
  for (int e = id; e < n * n; e += GROUP) vectors[AT(p.vectors, e / n, e % n)] = w[e / n * pitch + e % n];
#else
  const bool good = sweep < p.sweeps && !invalid;
  for (int j = id; j < n; j += GROUP) {
    const real_t value = RE(s[j * pitch + j]);
    int rank = 0;
    for (int k = 0; k < n; k++) {
      const real_t other = RE(s[k * pitch + k]);
      rank += other < value || (other == value && k < j);
    }
    if (!good) rank = j;
    POINTER(real_t, values)[batch * n + rank] = value;
    if (p.want_vectors)
      for (int i = 0; i < n; i++) vectors[AT(p.vectors, i, rank)] = w[i * pitch + j];
  }
  if (id == 0) POINTER(int, info)[batch] = !good;
#endif
}
