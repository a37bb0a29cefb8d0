// SPDX-License-Identifier: MIT
// Householder's QR of a panel (G. Golub, C. Van Loan, Matrix Computations, 5.1 and 5.2.2), as LAPACK's geqr2: reflections
// H = 1 - tau v v^H, R real on the diagonal. One pass of sums a step: products of column j with those after it give the
// products with v, too.
// Defines: those of rows.clh and rescaling.clh; SEGMENTS, GROUP / WIDTH or 1; TINY, sums of squares that count as 0.
#include "linalg/rescaling.clh"
#include "linalg/rows.clh"
#include "lib/warp.clh"

#if defined(NV_PTX) && ROWS && GROUP % 32 == 0
#define WARPS (GROUP / 32)
#else
#define WARPS 0
#endif

// Adds a work-item's share of the product of column j with that of index k, and subtracts v times the factor w[k] from
// its row's element. Registers that move on have no branches: what is not wanted is multiplied by 0, or kept.
#if MOVES
#define OWN_COLUMN T own[ROWS]; EACH_ROW own[r] = ROW(r) > j ? CONJ(X(r, OWN)) : REAL(0);
#define PRODUCT(sum, k) EACH_ROW sum += MUL(own[r], X(r, k));
#define SUBTRACT(r, k, v) X(r, k) = ROW(r) >= j ? X(r, k) - MUL(v, w[k]) : X(r, k);
#else
#define OWN_COLUMN
#define PRODUCT(sum, k) \
  if (k >= j) { EACH_ROW if (ROW(r) > j && ROW(r) < p.m) sum += MUL(CONJ(X(r, OWN)), X(r, k)); }
#define SUBTRACT(r, k, v) if (ROW(r) >= j && k > j && k < p.n) X(r, k) -= MUL(v, w[k]);
#endif

typedef struct {
  Matrix a;
  long tau_batch;
  int m, n;
} Panel;

typedef struct {
  T factor, scale;     // tau, and what makes v of the column
  real_t beta, again;  // what the column's diagonal becomes; what the column is multiplied by for another try, or 1
} Reflection;

// Of a column with `alpha` on the diagonal, the squares below which sum up to `below`.
inline Reflection reflection_of(T alpha, real_t below) {
  if (below < TINY) below = 0;
  const real_t squared = NORM2(alpha) + below;
  const bool none = squared <= TINY || (below == 0 && IS_ZERO(alpha - REAL(RE(alpha))));  // H = 1
  const real_t length = sqrt(squared), b = RE(alpha) > 0 ? -length : length;
  Reflection h;
  h.again = rescaling(squared);
  h.factor = none ? REAL(0) : (REAL(b) - alpha) / b;
  h.scale = none ? REAL(0) : DIV(REAL(1), alpha - REAL(b));
  h.beta = none ? RE(alpha) : b;
  return h;
}

// What v times is subtracted from a column, of its number in row j and its product with column j below that.
inline T factor_of(Reflection h, T own, T product) { return MUL(CONJ(h.factor), own + MUL(CONJ(h.scale), product)); }

#if WARPS
// What this work-item keeps of two columns' numbers and is given of one of them, by the work-item `far` away.
inline T share(T low, T high, uint far) {
  const bool upper = get_local_id(0) & far;
  return (upper ? high : low) + shuffle_xor(upper ? low : high, far);
}

// Sums over the warp of WIDTH columns, the first halves of which are shared: of column lane % WIDTH in sum[0].
inline void sum_columns(T *sum) {
#pragma unroll
  for (uint far = WIDTH / 4; far > 0; far /= 2) {
#pragma unroll
    for (uint k = 0; k < far; k++) sum[k] = share(sum[k], sum[k + far], far);
  }
#pragma unroll
  for (uint far = WIDTH; far < 32; far *= 2) sum[0] += shuffle_xor(sum[0], far);
}
#endif

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void qr_panel(GLOBAL(T, a), GLOBAL(T, tau), Panel p) {
  const int id = get_local_id(0);
  __global T *a = POINTER(T, a) + get_group_id(0) * p.a.batch;
  __global T *tau = POINTER(T, tau) + get_group_id(0) * p.tau_batch;
  const int steps = min(p.m, p.n);
#if WARPS
  // By index, as rows.clh has columns; what the next step writes lies elsewhere, so that it has one barrier.
  __local T part[2][WARPS][WIDTH], row[2][WIDTH];
  __local __attribute__((aligned(16))) T factors[WARPS][WIDTH];
  const int lane = id % 32, warp = id / 32;
  __local T *w = factors[warp];
#else
  __local T part[WIDTH * GROUP], sums[WIDTH * SEGMENTS], row[WIDTH], w[WIDTH];
  __local Reflection shared;
#endif
  PANEL_ROWS
  LOAD_ROWS
  EACH_STEP(steps) {
    Reflection h;
    real_t unit = 1;  // what the column is multiplied by
    for (int rescaled = 0;; rescaled++) {
      OWN_COLUMN
#if WARPS
      const int turn = j % 2;
      T sum[WIDTH / 2];
      UNROLL for (int k = 0; k < WIDTH / 2; k++) {
        T low = REAL(0), high = REAL(0);
        PRODUCT(low, k)
        PRODUCT(high, k + WIDTH / 2)
        sum[k] = share(low, high, WIDTH / 2);
      }
      sum_columns(sum);
      if (lane < WIDTH) part[turn][warp][lane] = sum[0];
      EACH_ROW if (ROW(r) == j) { EACH_COLUMN row[turn][k] = X(r, k); }
      barrier(CLK_LOCAL_MEM_FENCE);
      real_t below = 0;
      T product = REAL(0);
      UNROLL for (int c = 0; c < WARPS; c++) {
        below += RE(part[turn][c][OWN]);
        product += part[turn][c][lane % WIDTH];
      }
      h = reflection_of(row[turn][OWN], below);
      if (lane < WIDTH) w[lane] = COLUMN(lane) < p.n ? factor_of(h, row[turn][lane], product) : REAL(0);
      WARP_SYNC();
#else
      const int first = MOVES ? 0 : j, columns = MOVES ? WIDTH : p.n;
      EACH_COLUMN {
        T sum = REAL(0);
        PRODUCT(sum, k)
        part[k * GROUP + id] = sum;
      }
      EACH_ROW if (ROW(r) == j) { EACH_COLUMN row[k] = X(r, k); }
      barrier(CLK_LOCAL_MEM_FENCE);
      for (int t = first * SEGMENTS + id; t < columns * SEGMENTS; t += GROUP) {
        T sum = REAL(0);
        for (int c = t % SEGMENTS; c < GROUP; c += SEGMENTS) sum += part[t / SEGMENTS * GROUP + c];
        sums[t] = sum;
      }
      barrier(CLK_LOCAL_MEM_FENCE);
      for (int k = first + id; k < columns; k += GROUP) {
        real_t below = 0;
        T product = REAL(0);
        for (int c = 0; c < SEGMENTS; c++) below += RE(sums[OWN * SEGMENTS + c]), product += sums[k * SEGMENTS + c];
        const Reflection found = reflection_of(row[OWN], below);
        if (k == OWN) shared = found;
        w[k] = COLUMN(k) < p.n ? factor_of(found, row[k], product) : REAL(0);
      }
      barrier(CLK_LOCAL_MEM_FENCE);
      h = shared;
#endif
      if (h.again == 1 || rescaled == RESCALINGS) break;
      EACH_ROW if (ROW(r) >= j) X(r, OWN) = X(r, OWN) * h.again;
      unit *= h.again;
      barrier(CLK_LOCAL_MEM_FENCE);  // all have read the sums
    }
    if (id == 0) tau[j] = h.factor;
    EACH_ROW {
      const T before = X(r, OWN), v = ROW(r) == j ? REAL(1) : MUL(before, h.scale);
      EACH_COLUMN SUBTRACT(r, k, v)
      X(r, OWN) = ROW(r) == j ? REAL(h.beta / unit) : ROW(r) > j ? v : before;
    }
  }
  STORE_ROWS
}
