// SPDX-License-Identifier: MIT
// Householder's QR of small real matrices or of panels, and products with its reflections, for CPUs: a work-item a matrix,
// or some columns of one. Columns are rows here, whose loops are vectors.
// Defines: those of vector_rows.clh.
#include "linalg/vector_rows.clh"

typedef struct {
  Matrix a, c;
  long tau_batch, count;
  int m, n, columns, chunk;  // reflections, and columns of c, of which a work-item takes `chunk`
  int adjoint, identity;
} Whole;

// 1 - tau v v^T times `columns` lines, from element `begin` on, which is in the first vector of v that is not zeros.
__attribute__((always_inline)) inline void turn_lines(__global T *lines, int pitch, __global const T *v, T tau,
                                                      int begin, const int columns) {
  VECTOR sum[4];
  _Pragma("unroll") for (int u = 0; u < columns; u++) sum[u] = 0;
  for (int c = begin / 16; c < pitch / 16; c++) {
    const VECTOR own = vload16(c, v);
    _Pragma("unroll") for (int u = 0; u < columns; u++) sum[u] += own * vload16(c, lines + u * pitch);
  }
  T factor[4];
  _Pragma("unroll") for (int u = 0; u < columns; u++) factor[u] = tau * SUM(sum[u]);
  for (int c = begin / 16; c < pitch / 16; c++) {
    const VECTOR own = vload16(c, v);
    _Pragma("unroll") for (int u = 0; u < columns; u++) {
      __global T *line = lines + u * pitch;
      vstore16(vload16(c, line) - factor[u] * own, c, line);
    }
  }
}

inline void turn(__global T *lines, int pitch, __global const T *v, T tau, int begin, int columns) {
  int j = 0;
  for (; j + 4 <= columns; j += 4) turn_lines(lines + j * pitch, pitch, v, tau, begin, 4);
  for (; j < columns; j++) turn_lines(lines + j * pitch, pitch, v, tau, begin, 1);
}

// The vector of reflection k, which begins with 1 in place k.
inline void load_vector(__global T *line, __global const T *column, long stride, int k, int m, int pitch) {
  load_line(line, column, stride, m, pitch);
  for (int i = 0; i < k; i++) line[i] = 0;
  line[k] = 1;
}

#define PITCH ((p.m + 15) / 16 * 16)

// As LAPACK's geqr2, in place of a [batch, m, n].
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void qr_whole(GLOBAL(T, a), GLOBAL(T, tau), GLOBAL(T, scratch),
                                                                      Whole p) {
  const int m = p.m, n = p.n, pitch = PITCH;
  const long share = (p.count - 1) / (long)get_num_groups(0) + 1, first = (long)get_group_id(0) * share;
  __global T *v = POINTER(T, scratch) + (long)get_group_id(0) * (n + 1) * pitch, *lines = v + pitch;
  for (long batch = first; batch < min(first + share, p.count); batch++) {
    __global T *a = POINTER(T, a) + batch * p.a.batch;
    for (int j = 0; j < n; j++) load_line(lines + j * pitch, a + j * p.a.col, p.a.row, m, pitch);
    for (int k = 0; k < min(m, n); k++) {
      __global T *column = lines + k * pitch;
      const int begin = k / 16 * 16;
      for (int i = begin; i < pitch; i++) v[i] = i < k ? 0 : column[i];
      const Reflection h = reflection(v + begin, k - begin, (pitch - begin) / 16);
      POINTER(T, tau)[batch * p.tau_batch + k] = h.tau;
      turn(column + pitch, pitch, v, h.tau, begin, n - k - 1);
      for (int i = k; i < pitch; i++) column[i] = v[i];
      column[k] = h.beta;
    }
    for (int j = 0; j < n; j++) store_line(lines + j * pitch, a + j * p.a.col, p.a.row, m);
  }
}

// c = Q c or Q^T c for the `n` reflections in a [batch, m, n]. `identity`: c is that, and Q is asked for.
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void reflect_whole(CONST_GLOBAL(T, a), CONST_GLOBAL(T, tau),
                                                                           GLOBAL(T, c), GLOBAL(T, scratch), Whole p) {
  const int m = p.m, n = p.n, pitch = PITCH;
  const long chunks = (p.columns - 1) / p.chunk + 1, jobs = chunks * p.count;
  const long share = (jobs - 1) / (long)get_num_groups(0) + 1, first = (long)get_group_id(0) * share;
  __global T *vectors = POINTER(T, scratch) + (long)get_group_id(0) * (n + p.chunk) * pitch;
  __global T *lines = vectors + n * pitch;
  for (long job = first; job < min(first + share, jobs); job++) {
    const long batch = job / chunks;
    const int start = (int)(job % chunks) * p.chunk, columns = min(p.chunk, p.columns - start);
    __global const T *a = CONST_POINTER(T, a) + batch * p.a.batch, *tau = CONST_POINTER(T, tau) + batch * p.tau_batch;
    __global T *c = POINTER(T, c) + batch * p.c.batch + start * p.c.col;
    for (int k = 0; k < n && (job == first || start == 0); k++)
      load_vector(vectors + k * pitch, a + k * p.a.col, p.a.row, k, m, pitch);
    for (int j = 0; j < columns; j++) load_line(lines + j * pitch, c + j * p.c.col, p.c.row, m, pitch);
    for (int i = 0; i < n; i++) {
      // Columns of the identity are as they were until reflections begin above their one.
      const int k = p.adjoint ? i : n - 1 - i, skipped = p.identity ? clamp(k - start, 0, columns) : 0;
      turn(lines + skipped * pitch, pitch, vectors + k * pitch, tau[k], k, columns - skipped);
    }
    for (int j = 0; j < columns; j++) store_line(lines + j * pitch, c + j * p.c.col, p.c.row, m);
  }
}
