// SPDX-License-Identifier: MIT
// LU factors of small matrices with partial pivoting, for CPUs: a work-item a matrix, whose loops along the dense
// dimension are vectors.
// Defines: those of linalg.clh; ROW_FAST: elements of a column are neighbours, else those of a row.
#include "linalg/linalg.clh"

typedef struct {
  Matrix a;
  long count;
  int m, n, pivot, unused;
} Whole;

#if ROW_FAST
#define X(i, j) x[(i) + (j) * far]
#else
#define X(i, j) x[(i) * far + (j)]
#endif

// The row of the largest element of column j from row j on; j where there are but NaN.
inline long pivot_row(__global const T *x, long far, long j, long m) {
  real_t most = -1;
  long where = j;
  for (long i = j; i < m; i++) {
    const real_t size = SIZE(X(i, j));
    if (size > most) most = size, where = i;
  }
  return where;
}

// Divides what is below the diagonal in column j, and takes its products with row j from what is right of it.
inline void eliminate(__global T *x, long far, long j, long m, long n) {
  const T divisor = X(j, j);
#if ROW_FAST
  for (long i = j + 1; i < m; i++) X(i, j) = DIV(X(i, j), divisor);
  for (long k = j + 1; k < n; k++) {
    const T factor = X(j, k);
    SUBTRACT_PRODUCTS(x + k * far, x + j * far, factor, j + 1, m);
  }
#else
  for (long i = j + 1; i < m; i++) {
    const T factor = DIV(X(i, j), divisor);
    X(i, j) = factor;
    SUBTRACT_PRODUCTS(x + i * far, x + j * far, factor, j + 1, n);
  }
#endif
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void lu_whole(GLOBAL(T, a), GLOBAL(int, pivots),
                                                                      GLOBAL(int, info), Whole p) {
  const long far = ROW_FAST ? p.a.col : p.a.row, m = p.m, n = p.n, steps = min(m, n);
  const long share = (p.count - 1) / (long)get_num_groups(0) + 1, first = (long)get_group_id(0) * share;
  for (long batch = first; batch < min(first + share, p.count); batch++) {
    __global T *x = POINTER(T, a) + batch * p.a.batch;
    int failed = 0;
    for (long j = 0; j < steps; j++) {
      const long where = p.pivot ? pivot_row(x, far, j, m) : j;
      POINTER(int, pivots)[batch * steps + j] = (int)where + 1;
      for (long k = 0; where != j && k < n; k++) {
        const T other = X(j, k);
        X(j, k) = X(where, k), X(where, k) = other;
      }
      if (!IS_ZERO(X(j, j))) eliminate(x, far, j, m, n);
      else if (!failed) failed = (int)j + 1;
    }
    POINTER(int, info)[batch] = failed;
  }
}
