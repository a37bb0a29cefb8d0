// SPDX-License-Identifier: MIT
// The parts of L D L^T = P A P^T that a solve takes. LAPACK exchanges rows of what is left only; here the columns of L
// follow, so that L is one triangle.
// Defines, beside those of linalg.clh: GROUP; HERMITIAN.
#include "linalg/linalg.clh"

#define A(i, j) a[AT(p.a, (long)(i), (long)(j))]

typedef struct {
  Matrix a;
  int n, chunks;  // chunks of GROUP columns
} Unpack;

// kinds, int [batch, n]: 0 a block of one row, 1 the first of two, 2 the second. order: as pivots_to_order. A work-item a
// column of L, one more for those two.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void ldl_unpack(GLOBAL(T, a), CONST_GLOBAL(int, pivots),
                                                                            GLOBAL(int, order), GLOBAL(int, kinds),
                                                                            Unpack p) {
  const int n = p.n, column = get_group_id(0) % p.chunks * GROUP + get_local_id(0);
  const long batch = get_group_id(0) / p.chunks;
  __global T *a = POINTER(T, a) + batch * p.a.batch;
  __global const int *pivots = CONST_POINTER(int, pivots) + batch * n;
  __global int *order = POINTER(int, order) + batch * n, *kinds = POINTER(int, kinds) + batch * n;
  if (column > n) return;
  if (column == n)
    for (int i = 0; i < n; i++) order[i] = i;
  for (int k = 0; k < n;) {
    const int pivot = pivots[k], two = pivot < 0 && k + 1 < n, row = k + two;
    const int other = (pivot < 0 ? -pivot : pivot) - 1;
    const int moves = other != row && other >= 0 && other < n;
    if (column == n) {
      kinds[k] = two;
      if (two) kinds[row] = 2;
      const int kept = order[row];
      if (moves) order[row] = order[other], order[other] = kept;
    } else if (two && column == k) {
      A(row, k) = REAL(0);
    } else if (column < k && moves) {
      const T kept = A(row, column);
      A(row, column) = A(other, column), A(other, column) = kept;
    }
    k = row + 1;
  }
}

typedef struct {
  Matrix a, x;
  long rows, columns, batches;
} Blocks;

// x = D^-1 x.
__kernel void ldl_blocks(CONST_GLOBAL(T, a), GLOBAL(T, x), CONST_GLOBAL(int, kinds), Blocks p) {
  const long column = global_id(), k = get_global_id(1);
  if (k >= p.rows || column >= p.columns) return;
  for (long batch = get_global_id(2); batch < p.batches; batch += get_global_size(2)) {
    const int kind = CONST_POINTER(int, kinds)[batch * p.rows + k];
    if (kind == 2) continue;
    __global const T *a = CONST_POINTER(T, a) + batch * p.a.batch;
    __global T *x = POINTER(T, x) + batch * p.x.batch + k * p.x.row + column * p.x.col;
    if (kind == 0) {
      *x = DIV(*x, A(k, k));
      continue;
    }
    const T below = A(k + 1, k), above = HERMITIAN ? CONJ(below) : below;
    const T d0 = DIV(A(k, k), above), d1 = DIV(A(k + 1, k + 1), below), scale = MUL(d0, d1) - REAL(1);
    const T u = DIV(x[0], above), v = DIV(x[p.x.row], below);
    x[0] = DIV(MUL(d1, u) - v, scale);
    x[p.x.row] = DIV(MUL(d0, v) - u, scale);
  }
}
