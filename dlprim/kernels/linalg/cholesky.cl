// SPDX-License-Identifier: MIT
// A = L L^H of small matrices, one work-group each, in local memory. Columns stay unscaled until the end, so that every
// step reads one column and writes those after it: one barrier a step.
// Defines, beside those of linalg.clh: SIDE, the work-group is SIDE x SIDE; 1 on CPUs, for columns in vectors.
#include "linalg/linalg.clh"

typedef struct {
  Matrix a;
  int n, start;  // `start` rows were factored before
  int pitch, unused;
} Cholesky;

// What changes of column k: real ones in whole vectors, of which what is above the diagonal is not used.
#ifdef COMPLEX
#define FIRST(k) (k)
#define LAST n
#else
#define FIRST(k) ((k) / 16 * 16)
#define LAST pitch
#endif

__kernel __attribute__((reqd_work_group_size(SIDE, SIDE, 1))) void cholesky(GLOBAL(T, a), GLOBAL(int, info), Cholesky p,
                                                                             __local T *s) {
  const int x = get_local_id(0), y = get_local_id(1), n = p.n, pitch = p.pitch;
  const long batch = get_group_id(0);
  __global T *a = POINTER(T, a) + batch * p.a.batch;
  __global int *info = POINTER(int, info) + batch;
  if (p.start && *info) return;
#if SIDE == 1
  for (int j = 0; j < n; j++) {
    for (int i = 0; i < j; i++) s[j * pitch + i] = REAL(0);
    for (int i = j; i < n; i++) s[j * pitch + i] = a[AT(p.a, i, j)];
    for (int i = n; i < pitch; i++) s[j * pitch + i] = REAL(0);
  }
  int bad = 0;
  for (int j = 0; j < n && !bad; j++) {
    __local T *column = s + j * pitch;
    const real_t d = RE(column[j]);
    if (!(d > 0)) bad = j + 1;
    const real_t inverse = 1 / d;
    for (int k = j + 1; k < n && !bad; k++) {
      __local T *other = s + k * pitch;
      const T factor = CONJ(column[k]) * inverse;
      SUBTRACT_PRODUCTS(other, column, factor, FIRST(k), LAST);
    }
  }
  *info = bad ? p.start + bad : 0;
  for (int j = 0; j < n; j++) {
    const real_t root = sqrt(RE(s[j * pitch + j]));
    for (int i = j; i < n; i++) a[AT(p.a, i, j)] = i == j ? REAL(root) : s[j * pitch + i] / root;
  }
#else
  if (p.a.col <= p.a.row) {
    for (int i = y; i < n; i += SIDE)
      for (int j = x; j <= i; j += SIDE) s[i * pitch + j] = a[AT(p.a, i, j)];
  } else {
    for (int j = y; j < n; j += SIDE)
      for (int i = x; i < n; i += SIDE)
        if (i >= j) s[i * pitch + j] = a[AT(p.a, i, j)];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  int failed = 0;
  for (int j = 0; j < n; j++) {
    const real_t d = RE(s[j * pitch + j]);
    if (!(d > 0)) {
      failed = j + 1;
      break;
    }
    const real_t inverse = 1 / d;
    for (int i = j + 1 + y; i < n; i += SIDE) {
      const T scaled = s[i * pitch + j] * inverse;
      for (int k = j + 1 + x; k <= i; k += SIDE) s[i * pitch + k] -= MUL(scaled, CONJ(s[k * pitch + j]));
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (x == 0 && y == 0) *info = failed ? p.start + failed : 0;
  if (p.a.col <= p.a.row) {
    for (int i = y; i < n; i += SIDE)
      for (int j = x; j <= i; j += SIDE) {
        const real_t root = sqrt(RE(s[j * pitch + j]));
        a[AT(p.a, i, j)] = i == j ? REAL(root) : s[i * pitch + j] / root;
      }
  } else {
    for (int j = y; j < n; j += SIDE)
      for (int i = x; i < n; i += SIDE)
        if (i >= j) {
          const real_t root = sqrt(RE(s[j * pitch + j]));
          a[AT(p.a, i, j)] = i == j ? REAL(root) : s[i * pitch + j] / root;
        }
  }
#endif
}
