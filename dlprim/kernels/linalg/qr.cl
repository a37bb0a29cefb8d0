// SPDX-License-Identifier: MIT
// Householder's QR of a panel (G. Golub, C. Van Loan, Matrix Computations, 5.1 and 5.2.2), as LAPACK's geqr2: reflections
// H = 1 - tau v v^H, R real on the diagonal. One pass of sums a step: products of column j with those after it give the
// products with v, too.
// Defines: those of rows.clh; SEGMENTS, GROUP / WIDTH or 1; TINY, sums of squares that count as 0.
#include "linalg/rows.clh"

typedef struct {
  Matrix a;
  long tau_batch;
  int m, n;
} Panel;

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void qr_panel(GLOBAL(T, a), GLOBAL(T, tau), Panel p) {
  __local T part[WIDTH * GROUP], sums[WIDTH * SEGMENTS], row[WIDTH], w[WIDTH], scale;
  __local real_t beta;
  const int id = get_local_id(0);
  __global T *a = POINTER(T, a) + get_group_id(0) * p.a.batch;
  __global T *tau = POINTER(T, tau) + get_group_id(0) * p.tau_batch;
  const int steps = min(p.m, p.n);
  PANEL_ROWS
  LOAD_ROWS
  EACH_STEP(steps) {
    EACH_COLUMN {
      if (FROM_OWN(k)) {
        T sum = REAL(0);
        EACH_ROW if (ROW(r) > j && ROW(r) < p.m) sum += MUL(CONJ(X(r, OWN)), X(r, k));
        part[COLUMN(k) * GROUP + id] = sum;
      }
    }
    EACH_ROW if (ROW(r) == j) { EACH_COLUMN if (FROM_OWN(k)) row[COLUMN(k)] = X(r, k); }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int t = j * SEGMENTS + id; t < min(p.n, WIDTH) * SEGMENTS; t += GROUP) {
      T sum = REAL(0);
      for (int c = t % SEGMENTS; c < GROUP; c += SEGMENTS) sum += part[t / SEGMENTS * GROUP + c];
      sums[t] = sum;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = j + id; k < p.n; k += GROUP) {
      real_t below = 0;
      T product = REAL(0);
      for (int c = 0; c < SEGMENTS; c++) below += RE(sums[j * SEGMENTS + c]), product += sums[k * SEGMENTS + c];
      if (below < TINY) below = 0;
      const T alpha = row[j];
      const bool none = below == 0 && IS_ZERO(alpha - REAL(RE(alpha)));  // H = 1
      const real_t length = sqrt(NORM2(alpha) + below), b = RE(alpha) > 0 ? -length : length;
      const T factor = none ? REAL(0) : (REAL(b) - alpha) / b, s = none ? REAL(0) : DIV(REAL(1), alpha - REAL(b));
      if (k == j) {
        tau[j] = factor, scale = s;
        beta = none ? RE(alpha) : b;
      } else {
        w[k] = MUL(CONJ(factor), row[k] + MUL(CONJ(s), product));
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    EACH_ROW {
      if (ROW(r) == j) {
        EACH_COLUMN if (AFTER_OWN(k) && COLUMN(k) < p.n) X(r, k) -= w[COLUMN(k)];
        X(r, OWN) = REAL(beta);
      } else if (ROW(r) > j && ROW(r) < p.m) {
        const T v = MUL(X(r, OWN), scale);
        EACH_COLUMN if (AFTER_OWN(k) && COLUMN(k) < p.n) X(r, k) -= MUL(v, w[COLUMN(k)]);
        X(r, OWN) = v;
      }
    }
  }
  STORE_ROWS
}
