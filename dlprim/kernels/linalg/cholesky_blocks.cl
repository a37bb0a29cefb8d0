// SPDX-License-Identifier: MIT
// Cholesky of large matrices in blocks of BLOCK columns, two launches each: a product makes the panel below a block on the
// diagonal, with the inverse of the block's factor; another updates what is left, and the first of its work-groups factors
// the next block as soon as it has updated it. A work-item has EACH x EACH elements of a block in registers.
// Defines, beside those of linalg.clh: SIDE, the work-group is SIDE x SIDE; EACH; DEPTH of a product's slices; ROW_FAST:
// the rows of a column lie side by side in memory.
#include "linalg/linalg.clh"

#define BLOCK (SIDE * EACH)
#define GROUP (SIDE * SIDE)
#define PITCH (BLOCK + 4)

typedef struct {
  Matrix a;
  int n, start;  // order; first row and column of the block that is factored, or was
} Blocks;

typedef struct {
  __attribute__((aligned(16))) T left[DEPTH][PITCH];
  __attribute__((aligned(16))) T right[DEPTH][PITCH];
  __attribute__((aligned(16))) T column[2][BLOCK];
  __attribute__((aligned(16))) T row[2][BLOCK];
} Shared;

inline int lane(void) { return get_local_id(1) * SIDE + get_local_id(0); }
inline int first_row(void) { return EACH * (ROW_FAST ? get_local_id(0) : get_local_id(1)); }
inline int first_column(void) { return EACH * (ROW_FAST ? get_local_id(1) : get_local_id(0)); }

// A slice of DEPTH columns of the rows i < rows, zeros elsewhere.
inline void load_slice(__local T (*slice)[PITCH], __global const T *a, Matrix m, int rows, int columns) {
  for (int t = lane(); t < BLOCK * DEPTH; t += GROUP) {
    const int i = ROW_FAST ? t % BLOCK : t / DEPTH, l = ROW_FAST ? t / BLOCK : t % DEPTH;
    slice[l][i] = i < rows && l < columns ? a[AT(m, (long)i, (long)l)] : REAL(0);
  }
}

// sum += rows of `a` times the conjugates of rows of `b`.
__attribute__((always_inline)) inline void add_products(T (*sum)[EACH], __local Shared *shared, __global const T *a,
                                                        Matrix ma, int rows, __global const T *b, Matrix mb, int columns,
                                                        int depth) {
  const int i0 = first_row(), k0 = first_column();
  for (int l0 = 0; l0 < depth; l0 += DEPTH) {
    load_slice(shared->left, a + l0 * ma.col, ma, rows, depth - l0);
    load_slice(shared->right, b + l0 * mb.col, mb, columns, depth - l0);
    barrier(CLK_LOCAL_MEM_FENCE);
    UNROLL for (int l = 0; l < DEPTH; l++) {
      T u[EACH], v[EACH];
      UNROLL for (int e = 0; e < EACH; e++) u[e] = shared->left[l][i0 + e], v[e] = CONJ(shared->right[l][k0 + e]);
      UNROLL for (int e = 0; e < EACH; e++)
        UNROLL for (int f = 0; f < EACH; f++) sum[e][f] += MUL(u[e], v[f]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
}

// Factors the block s of `size` rows and inverts its factor: every step of the elimination is applied to the identity,
// too. One barrier a step: columns and rows of the next are written elsewhere. Gives 0, or the step whose pivot is not
// positive, from 1.
__attribute__((always_inline)) inline int factor(T (*s)[EACH], T (*w)[EACH], __local Shared *shared, int size) {
  const int i0 = first_row(), k0 = first_column();
  UNROLL for (int e = 0; e < EACH; e++)
    UNROLL for (int f = 0; f < EACH; f++) w[e][f] = REAL(i0 + e == k0 + f ? (real_t)1 : (real_t)0);
  int failed = 0;
  for (int outer = 0; outer < size && !failed; outer += EACH) {
    UNROLL for (int inner = 0; inner < EACH; inner++) {
      const int j = outer + inner;
      __local T *column = shared->column[inner % 2], *row = shared->row[inner % 2];
      if (k0 == outer) {
        UNROLL for (int e = 0; e < EACH; e++) column[i0 + e] = s[e][inner];
      }
      if (i0 == outer) {
        UNROLL for (int f = 0; f < EACH; f++) row[k0 + f] = w[inner][f];
      }
      barrier(CLK_LOCAL_MEM_FENCE);
      const real_t pivot = RE(column[j]), over_root = rsqrt(pivot), over_pivot = over_root * over_root;
      if (!(pivot > 0) && !failed && j < size) failed = j + 1;
      T own[EACH], left[EACH], right[EACH], above[EACH];
      UNROLL for (int e = 0; e < EACH; e++) {
        own[e] = column[i0 + e], right[e] = CONJ(column[k0 + e]), above[e] = row[k0 + e];
        left[e] = i0 + e > j ? own[e] * over_pivot : REAL(0);
        right[e] = k0 + e > j ? right[e] : REAL(0);
      }
      UNROLL for (int e = 0; e < EACH; e++)
        UNROLL for (int f = 0; f < EACH; f++) s[e][f] -= MUL(left[e], right[f]), w[e][f] -= MUL(left[e], above[f]);
      if (i0 == outer) {
        UNROLL for (int f = 0; f < EACH; f++) w[inner][f] = above[f] * over_root;
      }
      if (k0 == outer) {
        UNROLL for (int e = 0; e < EACH; e++)
          s[e][inner] = i0 + e > j ? own[e] * over_root : i0 + e == j ? REAL(pivot * over_root) : s[e][inner];
      }
    }
  }
  return failed;
}

inline Matrix inverse_layout(void) {
  const Matrix m = {BLOCK * BLOCK, ROW_FAST ? 1 : BLOCK, ROW_FAST ? BLOCK : 1};
  return m;
}

// Factors s, a block on the diagonal from row p.start, and writes its factor and the inverse of that.
__attribute__((always_inline)) inline void finish_block(T (*s)[EACH], __local Shared *shared, __global T *a,
                                                        __global T *inverse, __global int *info, Blocks p, int start) {
  const int i0 = first_row(), k0 = first_column(), size = min(p.n - start, BLOCK);
  const Matrix layout = inverse_layout();
  T w[EACH][EACH];
  const int failed = factor(s, w, shared, size);
  if (lane() == 0 && (failed || start == 0)) *info = failed ? start + failed : 0;
  UNROLL for (int e = 0; e < EACH; e++)
    UNROLL for (int f = 0; f < EACH; f++) {
      if (i0 + e < size && k0 + f <= i0 + e) a[AT(p.a, (long)(i0 + e), (long)(k0 + f))] = s[e][f];
      inverse[AT(layout, i0 + e, k0 + f)] = w[e][f];
    }
}

__kernel __attribute__((reqd_work_group_size(SIDE, SIDE, 1))) void cholesky_first(GLOBAL(T, a), GLOBAL(T, inverse),
                                                                                   GLOBAL(int, info), Blocks p) {
  __local Shared shared;
  const long batch = get_group_id(0);
  const int i0 = first_row(), k0 = first_column(), size = min(p.n - p.start, BLOCK);
  __global int *info = POINTER(int, info) + batch;
  if (p.start && *info) return;
  __global T *a = POINTER(T, a) + batch * p.a.batch + p.start * (p.a.row + p.a.col);
  T s[EACH][EACH];
  UNROLL for (int e = 0; e < EACH; e++)
    UNROLL for (int f = 0; f < EACH; f++) {
      const int i = i0 + e, k = k0 + f;
      s[e][f] = i < size && k <= i ? a[AT(p.a, (long)i, (long)k)] : REAL(i == k ? (real_t)1 : (real_t)0);
    }
  finish_block(s, &shared, a, POINTER(T, inverse) + batch * BLOCK * BLOCK, info, p, p.start);
}

// Blocks below that on the diagonal times the inverse's conjugate transpose.
__kernel __attribute__((reqd_work_group_size(SIDE, SIDE, 1))) void cholesky_panel(GLOBAL(T, a), GLOBAL(T, inverse),
                                                                                   GLOBAL(int, info), Blocks p) {
  __local Shared shared;
  const long batch = get_group_id(1);
  const int start = p.start + BLOCK * (1 + (int)get_group_id(0)), i0 = first_row(), k0 = first_column();
  if (POINTER(int, info)[batch]) return;
  __global T *a = POINTER(T, a) + batch * p.a.batch + AT(p.a, (long)start, (long)p.start);
  __global const T *inverse = POINTER(T, inverse) + batch * BLOCK * BLOCK;
  T sum[EACH][EACH];
  UNROLL for (int e = 0; e < EACH; e++)
    UNROLL for (int f = 0; f < EACH; f++) sum[e][f] = REAL(0);
  add_products(sum, &shared, a, p.a, p.n - start, inverse, inverse_layout(), BLOCK, BLOCK);
  barrier(CLK_GLOBAL_MEM_FENCE);  // all have read what is written now
  UNROLL for (int e = 0; e < EACH; e++)
    UNROLL for (int f = 0; f < EACH; f++)
      if (start + i0 + e < p.n) a[AT(p.a, (long)(i0 + e), (long)(k0 + f))] = sum[e][f];
}

// a -= panel panel^H in blocks from the diagonal down: get_group_id(0) counts them down a column, (1) columns.
__kernel __attribute__((reqd_work_group_size(SIDE, SIDE, 1))) void cholesky_update(GLOBAL(T, a), GLOBAL(T, inverse),
                                                                                    GLOBAL(int, info), Blocks p) {
  __local Shared shared;
  const long batch = get_group_id(2);
  const int from = p.start + BLOCK, i = from + BLOCK * (int)(get_group_id(0) + get_group_id(1)),
            k = from + BLOCK * (int)get_group_id(1), i0 = first_row(), k0 = first_column();
  __global int *info = POINTER(int, info) + batch;
  if (i >= p.n || *info) return;
  __global T *a = POINTER(T, a) + batch * p.a.batch, *own = a + AT(p.a, (long)i, (long)k);
  __global const T *left = a + AT(p.a, (long)i, (long)p.start), *right = a + AT(p.a, (long)k, (long)p.start);
  const bool diagonal = i == k;
  T s[EACH][EACH];
  UNROLL for (int e = 0; e < EACH; e++)
    UNROLL for (int f = 0; f < EACH; f++) s[e][f] = REAL(0);
  add_products(s, &shared, left, p.a, p.n - i, right, p.a, p.n - k, BLOCK);
  UNROLL for (int e = 0; e < EACH; e++)
    UNROLL for (int f = 0; f < EACH; f++) {
      const int y = i0 + e, x = k0 + f;
      const bool inside = i + y < p.n && k + x < p.n && (!diagonal || x <= y);
      s[e][f] = inside ? own[AT(p.a, (long)y, (long)x)] - s[e][f] : REAL(y == x ? (real_t)1 : (real_t)0);
      if (inside && i != from) own[AT(p.a, (long)y, (long)x)] = s[e][f];  // else finish_block writes it
    }
  if (i == from)
    finish_block(s, &shared, own, POINTER(T, inverse) + batch * BLOCK * BLOCK, info, p, from);
}
