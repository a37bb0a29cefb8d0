// SPDX-License-Identifier: MIT
// Householder's QR of a panel (G. Golub, C. Van Loan, Matrix Computations, 5.1 and 5.2.2), as LAPACK's geqr2: reflections
// H = 1 - tau v v^H, R real on the diagonal. One pass of sums a step: products of column j with those after it give the
// products with v, too.
// Defines: those of rows.clh; SEGMENTS, GROUP / WIDTH or 1.
#include "lib/warp.clh"
#include "linalg/rows.clh"

// Where there are shuffles, warps make sums of their own.
#define SHUFFLES (defined(NV_PTX) && MOVES && GROUP >= 32)
#if SHUFFLES
#define PARTS (GROUP / 32)
#define SUMS(k) (((k) - j) * PARTS)  // of column k
#ifdef COMPLEX
#define SHUFFLE(v, far) ((T)(shuffle_xor((v).x, far), shuffle_xor((v).y, far)))
#else
#define SHUFFLE(v, far) shuffle_xor(v, far)
#endif

// The warp's sum of parts[k], k = lane * WIDTH / 32: with each exchange a work-item keeps one half of what it has.
__attribute__((always_inline)) inline T warp_sums(T *parts, int id) {
  UNROLL for (int count = WIDTH / 2; count > 0; count /= 2) {
    const uint far = 32 * count / WIDTH;
    const bool upper = id & far;
    UNROLL for (int k = 0; k < count; k++) {
      const T kept = upper ? parts[k + count] : parts[k], given = upper ? parts[k] : parts[k + count];
      parts[k] = kept + SHUFFLE(given, far);
    }
  }
  UNROLL for (uint far = 16 / WIDTH; far > 0; far /= 2) parts[0] += SHUFFLE(parts[0], far);
  return parts[0];
}
#else
#define PARTS SEGMENTS
#define SUMS(k) ((k) * PARTS)
#endif

typedef struct {
  Matrix a;
  long tau_batch;
  int m, n;
} Panel;

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void qr_panel(GLOBAL(T, a), GLOBAL(T, tau), Panel p) {
#if !SHUFFLES
  __local T part[WIDTH * GROUP];
#endif
  __local T sums[WIDTH * PARTS], row[WIDTH], w[WIDTH], scale;
  __local real_t beta;
  const int id = get_local_id(0);
  __global T *a = POINTER(T, a) + get_group_id(0) * p.a.batch;
  __global T *tau = POINTER(T, tau) + get_group_id(0) * p.tau_batch;
  const int steps = min(p.m, p.n);
  PANEL_ROWS
  LOAD_ROWS
  EACH_STEP(steps) {
#if SHUFFLES
    T part[WIDTH];
    EACH_COLUMN {
      part[k] = REAL(0);
      if (FROM_OWN(k)) {
        EACH_ROW if (ROW(r) > j && ROW(r) < p.m) part[k] += MUL(CONJ(X(r, OWN)), X(r, k));
      }
    }
    const T total = warp_sums(part, id);
    if (id * WIDTH % 32 == 0) sums[id % 32 * WIDTH / 32 * PARTS + id / 32] = total;
#else
    EACH_COLUMN {
      if (FROM_OWN(k)) {
        T sum = REAL(0);
        EACH_ROW if (ROW(r) > j && ROW(r) < p.m) sum += MUL(CONJ(X(r, OWN)), X(r, k));
        part[COLUMN(k) * GROUP + id] = sum;
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int t = j * SEGMENTS + id; t < min(p.n, WIDTH) * SEGMENTS; t += GROUP) {
      T sum = REAL(0);
      for (int c = t % SEGMENTS; c < GROUP; c += SEGMENTS) sum += part[t / SEGMENTS * GROUP + c];
      sums[t] = sum;
    }
#endif
    EACH_ROW if (ROW(r) == j) { EACH_COLUMN if (FROM_OWN(k)) row[COLUMN(k)] = X(r, k); }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = j + id; k < p.n; k += GROUP) {
      real_t below = 0;
      T product = REAL(0);
      for (int c = 0; c < PARTS; c++) below += RE(sums[SUMS(j) + c]), product += sums[SUMS(k) + c];
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
