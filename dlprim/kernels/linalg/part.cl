// SPDX-License-Identifier: MIT
// Copies of parts of matrices.
// Defines, beside those of linalg.clh: PART, 0 all, 1 lower triangle, 2 upper triangle, 3 below the diagonal with ones on
// it, 4 no part: the identity, 5 the lower triangle and its mirror image, the conjugate; CONJUGATE.
#include "linalg/linalg.clh"

typedef struct {
  Matrix out, in;
  long rows, columns, batches;
} Part;

__kernel void part(GLOBAL(T, out), CONST_GLOBAL(T, in), Part p) {
  const long j = global_id(), i = get_global_id(1);
  if (i >= p.rows || j >= p.columns) return;
  for (long b = get_global_id(2); b < p.batches; b += get_global_size(2)) {
    T value = REAL((PART == 3 || PART == 4) && i == j ? (real_t)1 : (real_t)0);
    if (PART == 5) {
      const T stored = CONST_POINTER(T, in)[b * p.in.batch + AT(p.in, max(i, j), min(i, j))];
      value = i > j ? stored : i < j ? CONJ(stored) : REAL(RE(stored));
    } else if (PART == 0 || (PART == 1 && i >= j) || (PART == 2 && i <= j) || (PART == 3 && i > j)) {
      value = CONST_POINTER(T, in)[b * p.in.batch + AT(p.in, i, j)];
      if (CONJUGATE) value = CONJ(value);
    }
    POINTER(T, out)[b * p.out.batch + AT(p.out, i, j)] = value;
  }
}

// Rows in another order: out[i] = in[order[i]], or out[order[i]] = in[i] where INVERSE.
typedef struct {
  Matrix out, in;
  long rows, columns, batches, order_batch;
} Rows;

__kernel void permute_rows(GLOBAL(T, out), CONST_GLOBAL(T, in), CONST_GLOBAL(int, order), Rows p) {
  const long j = global_id(), i = get_global_id(1);
  if (i >= p.rows || j >= p.columns) return;
  for (long b = get_global_id(2); b < p.batches; b += get_global_size(2)) {
    const long other = CONST_POINTER(int, order)[b * p.order_batch + i];
    const long to = INVERSE ? other : i, from = INVERSE ? i : other;
    POINTER(T, out)[b * p.out.batch + AT(p.out, to, j)] = CONST_POINTER(T, in)[b * p.in.batch + AT(p.in, from, j)];
  }
}
