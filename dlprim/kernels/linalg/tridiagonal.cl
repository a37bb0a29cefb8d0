// SPDX-License-Identifier: MIT
// Reduction of symmetric matrices to tridiagonal form by reflections H = 1 - tau v v^T (G. Golub, C. Van Loan, Matrix
// Computations, 8.3.1), a launch a column. A' = A - v w^T - w v^T of the column before is applied to rows as they are read
// for the product with the next v, so that the matrix is read and written once a column. Elements are 1 at most; a part of
// a column whose square comes near the smallest numbers counts as zero, for its length, and so H, would not be exact.
// Defines, beside those of linalg.clh: GROUP; ROWS of a work-group; TINY, squares that count as zero.
#include "linalg/group_sums.clh"

typedef struct {
  int n, column;
} Step;

// a [batch, n, n]: the matrix, both triangles; rows up to `column` are done. vectors [batch, n, n]: row j has v of column
// j, from its element j + 1 on, which is 1. products [2, batch, n]: A v of columns of even and odd number. tau [batch, n - 1]; diagonal and beside
// [batch, n].
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void tridiagonal_step(GLOBAL(T, a), GLOBAL(T, vectors),
                                                                                  GLOBAL(T, products), GLOBAL(T, tau),
                                                                                  GLOBAL(T, diagonal),
                                                                                  GLOBAL(T, beside), Step p) {
  __local T shared[2][ROWS + 1][PARTS];
  const int id = get_local_id(0), n = p.n, j = p.column;
  const long batch = get_group_id(1), size = (long)n * n;
  const int first = j + 1 + (int)get_group_id(0) * ROWS;  // row
  __global T *a = POINTER(T, a) + batch * size, *vectors = POINTER(T, vectors) + batch * size;
  __global T *products = POINTER(T, products) + batch * n, *tau = POINTER(T, tau) + batch * (n - 1);
  const long other = (long)get_num_groups(1) * n;
  __global const T *v = vectors + (long)(j - 1) * n, *product = products + (j % 2 ? 0 : other);
  const T factor = j > 0 ? tau[j - 1] : 0;  // w = factor A v - share v
  T dot[1] = {0};
  if (j > 0)
    for (int k = j + id; k < n; k += GROUP) dot[0] += product[k] * v[k];
  sums_of_group(dot, 1, shared[0], id);
  const T share = factor * factor * dot[0] / 2;
#define V(k) (j > 0 ? v[k] : 0)
#define W(k, vk) (j > 0 ? factor * product[k] - share * (vk) : 0)
  const T vj = V(j), wj = W(j, vj);
  T vi[ROWS], wi[ROWS], corner[ROWS], sums[ROWS + 1];  // corner: column j + 1, of work-item 0
  UNROLL for (int r = 0; r < ROWS; r++) {
    const int i = min(first + r, n - 1);
    vi[r] = V(i), wi[r] = W(i, vi[r]), corner[r] = sums[r] = 0;
  }
  sums[ROWS] = 0;
  for (int k = j + 1 + id; k < n; k += GROUP) {
    const T vk = V(k), wk = W(k, vk);
    const T x = k > j + 1 ? a[(long)j * n + k] - vj * wk - wj * vk : 0;
    sums[ROWS] += x * x;
    UNROLL for (int r = 0; r < ROWS; r++)
      if (first + r < n) {
        __global T *element = a + (long)(first + r) * n + k;
        const T value = *element - vi[r] * wk - wi[r] * vk;
        *element = value;
        if (k == j + 1) corner[r] = value;
        sums[r] += value * x;
      }
  }
  sums_of_group(sums, ROWS + 1, shared[1], id);
  const T v1 = j + 1 < n ? V(j + 1) : 0, w1 = j + 1 < n ? W(j + 1, v1) : 0;
  const T alpha = j + 1 < n ? a[(long)j * n + j + 1] - vj * w1 - wj * v1 : 0;
  const T below = sums[ROWS] < TINY ? 0 : sums[ROWS];
  const T length = sqrt(alpha * alpha + below), beta = below == 0 ? alpha : alpha > 0 ? -length : length;
  const T scale = below == 0 ? 0 : 1 / (alpha - beta);
  if (id == 0 && get_group_id(0) == 0) {
    if (j + 1 < n) tau[j] = below == 0 ? 0 : (beta - alpha) / beta;
    POINTER(T, diagonal)[batch * n + j] = a[(long)j * n + j] - 2 * vj * wj;
    POINTER(T, beside)[batch * n + j] = j + 1 < n ? beta : 0;
  }
  for (int r = id; r < ROWS; r += GROUP) {
    const int i = first + r;
    if (i >= n) continue;
    const T vk = V(i), wk = W(i, vk);
    vectors[(long)j * n + i] = i == j + 1 ? 1 : (a[(long)j * n + i] - vj * wk - wj * vk) * scale;
  }
  if (id == 0) {
    UNROLL for (int r = 0; r < ROWS; r++)
      if (first + r < n) products[(j % 2 ? other : 0) + first + r] = corner[r] + sums[r] * scale;
  }
}
