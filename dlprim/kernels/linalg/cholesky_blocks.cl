// SPDX-License-Identifier: MIT
// Cholesky of large matrices in blocks of BLOCK columns, a launch each. A launch knows the inverse of a factored block
// on the diagonal: each of its work-groups makes the two blocks of the panel below that its own block of the rest needs,
// products with that inverse, and subtracts their product. The first one has the next block on the diagonal, which it
// factors and inverts at once. So that panels are read by many and written by one in the same launch, what is read lies
// in `work`: of each matrix two halves, taken in turn, of blocks in columns of BLOCK elements, one for each row of
// blocks; that on the diagonal is the conjugate transpose of the inverse.
// Defines, beside those of linalg.clh: SIDE, the work-group is SIDE * SIDE, a multiple of 32; EACH, a work-item has
// EACH x EACH elements of a block in registers; STEP, a multiple of EACH: columns that are factored between barriers.
#include "linalg/linalg.clh"

#define BLOCK (SIDE * EACH)
#define GROUP (SIDE * SIDE)
#define PITCH (BLOCK + 4)
#define PACK (16 / (int)sizeof(T))  // elements that are copied together

typedef struct {
  Matrix a;
  int n, start;  // order; first row and column of the block that was factored, or is to be
  int last;      // nothing is updated but the panel
  int unused;
} Blocks;

// Blocks by columns.
typedef struct {
  __attribute__((aligned(16))) T left[BLOCK][PITCH];
  __attribute__((aligned(16))) T right[BLOCK][PITCH];
} Shared;

// Neighbours in local memory that are read or written at once.
typedef struct {
  T v[EACH];
} __attribute__((aligned(EACH * sizeof(T) < 16 ? EACH * sizeof(T) : 16))) Neighbours;
inline Neighbours load_neighbours(__local const T *from) { return *(__local const Neighbours *)from; }
inline void store_neighbours(__local T *to, Neighbours n) { *(__local Neighbours *)to = n; }

// 32 work-items have 4 tiles down and 8 across: neither rows nor columns of local memory meet in a bank, and in global
// memory both are read in long pieces.
inline int first_row(void) { return EACH * (int)(get_local_id(0) % 4 + get_local_id(0) / 32 % (SIDE / 4) * 4); }
inline int first_column(void) { return EACH * (int)(get_local_id(0) / 4 % 8 + get_local_id(0) / (8 * SIDE) * 8); }

#define EACH_ELEMENT                        \
  UNROLL for (int e = 0; e < EACH; e++)     \
    UNROLL for (int f = 0; f < EACH; f++)

// The half of `work` that belongs to the block from row `start`; block `start / BLOCK` of it is the inverse.
inline __global T *half_of(__global T *work, Blocks p, long batch, int start) {
  const int blocks = (p.n + BLOCK - 1) / BLOCK;
  return work + (batch * 2 + start / BLOCK % 2) * blocks * (BLOCK * BLOCK);
}

typedef struct {
  uint4 packs[BLOCK * BLOCK / PACK / GROUP];
} Part;

// A work-item's part of a block, on its way to local memory.
inline Part load_part(__global const T *block) {
  Part part;
  UNROLL for (int r = 0; r < BLOCK * BLOCK / PACK / GROUP; r++)
    part.packs[r] = ((__global const uint4 *)block)[get_local_id(0) + r * GROUP];
  return part;
}

inline void store_part(__local T (*block)[PITCH], const Part *part) {
  UNROLL for (int r = 0; r < BLOCK * BLOCK / PACK / GROUP; r++) {
    const int t = get_local_id(0) + r * GROUP;
    *(__local uint4 *)&block[t / (BLOCK / PACK)][t % (BLOCK / PACK) * PACK] = part->packs[r];
  }
}

// product = rows of `left` times rows of `right`, which is conjugated already.
__attribute__((always_inline)) inline void multiply(T (*product)[EACH], __local const Shared *shared) {
  const int i0 = first_row(), k0 = first_column();
  EACH_ELEMENT product[e][f] = REAL(0);
#ifndef CPU_DEVICE
#pragma unroll 8
#endif
  for (int l = 0; l < BLOCK; l++) {
    const Neighbours u = load_neighbours(&shared->left[l][i0]), v = load_neighbours(&shared->right[l][k0]);
    EACH_ELEMENT product[e][f] += MUL(u.v[e], v.v[f]);
  }
}

// What factor() exchanges, of STEP columns from c on: `across` holds, of columns k < c, the inverse's rows of the block
// d on the diagonal; of k >= c + STEP, the conjugates of rows k below it.
typedef struct {
  __attribute__((aligned(16))) T across[STEP][PITCH];
  __attribute__((aligned(16))) T d[STEP][STEP];
} Exchange;

// Each of BLOCK work-items factors d by itself, which takes no barriers, and solves with it for its column of `across`;
// writes columns of the factor and rows of the inverse, to[BLOCK][BLOCK] transposed. Gives the first step whose pivot
// is not positive, from 1; or 0.
__attribute__((always_inline)) inline int factor_columns(__local Exchange *x, __global T *a, Matrix m, __global T *to,
                                                         int c, int size) {
  const int k = get_local_id(0);
  const bool before = k < c, after = k >= c + STEP;
  T d[STEP][STEP], own[STEP];
  UNROLL for (int i = 0; i < STEP; i++) {
    own[i] = before || after ? x->across[i][k] : REAL(k == c + i ? (real_t)1 : (real_t)0);
    UNROLL for (int j = 0; j <= i; j++) d[i][j] = x->d[i][j];
  }
  int failed = 0;
  UNROLL for (int j = 0; j < STEP; j++) {
    const real_t pivot = RE(d[j][j]), over_root = rsqrt(pivot);
    if (!(pivot > 0) && !failed && c + j < size) failed = c + j + 1;
    d[j][j] = REAL(pivot * over_root);
    own[j] = own[j] * over_root;
    UNROLL for (int i = j + 1; i < STEP; i++) d[i][j] = d[i][j] * over_root;
    UNROLL for (int i = j + 1; i < STEP; i++) {
      own[i] -= MUL(d[i][j], own[j]);
      UNROLL for (int l = j + 1; l <= i; l++) d[i][l] -= MUL(d[i][j], CONJ(d[l][j]));
    }
  }
  UNROLL for (int i = 0; i < STEP; i++) {
    x->across[i][k] = own[i];
    to[k * BLOCK + c + i] = after ? REAL(0) : CONJ(own[i]);
    if (after && k < size) a[AT(m, (long)k, (long)(c + i))] = CONJ(own[i]);
    UNROLL for (int j = 0; j <= i; j++)
      if (k == c + i && k < size) a[AT(m, (long)k, (long)(c + j))] = d[i][j];
  }
  return failed;
}

inline void subtract_products(T (*s)[EACH], __local const Exchange *x) {
  const int i0 = first_row(), k0 = first_column();
  UNROLL for (int l = 0; l < STEP; l++) {
    const Neighbours u = load_neighbours(&x->across[l][i0]), v = load_neighbours(&x->across[l][k0]);
    EACH_ELEMENT s[e][f] -= MUL(CONJ(u.v[e]), v.v[f]);
  }
}

// Factors s, a block on the diagonal from row `start`, and inverts its factor: the elimination is applied to the
// identity, too. A tile holds columns of s until they are factored, then those of the inverse, whose rows follow one by
// one; either is updated alike. `info` keeps the first failure: PoCL 3.1 never ends the loop with that in a register.
__attribute__((always_inline)) inline void factor(T (*s)[EACH], __local Shared *shared, __global T *a,
                                                  __global T *inverse, __global int *info, Blocks p, int start) {
  const int i0 = first_row(), k0 = first_column(), size = min(p.n - start, BLOCK);
  if (get_local_id(0) == 0 && start == 0) *info = 0;
  for (int c = 0; c < size; c += STEP) {
    // In turn, so that what one step reads the next one does not overwrite.
    __local Exchange *x = (__local Exchange *)shared + c / STEP % 2;
    const bool rows = i0 >= c && i0 < c + STEP, columns = k0 >= c && k0 < c + STEP;
    if (rows && k0 < c) EACH_ELEMENT x->across[i0 - c + e][k0 + f] = s[e][f];
    if (columns && i0 >= c + STEP) EACH_ELEMENT x->across[k0 - c + f][i0 + e] = CONJ(s[e][f]);
    if (rows && columns) EACH_ELEMENT x->d[i0 - c + e][k0 - c + f] = s[e][f];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (get_local_id(0) < BLOCK) {
      const int failed = factor_columns(x, a, p.a, inverse, c, size);
      if (failed && get_local_id(0) == 0 && *info == 0) *info = start + failed;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (columns) EACH_ELEMENT s[e][f] = REAL(0);
    if (i0 >= c + STEP) subtract_products(s, x);
  }
}

// A tile of a block with `rows` and `columns` inside the matrix; elsewhere zeros, and `one` on the block's diagonal.
__attribute__((always_inline)) inline void load_tile(T (*s)[EACH], __global const T *a, Matrix m, int rows, int columns,
                                                     real_t one) {
  const int i0 = first_row(), k0 = first_column();
  EACH_ELEMENT {
    const int i = i0 + e, k = k0 + f;
    s[e][f] = i < rows && k < columns ? a[AT(m, (long)i, (long)k)] : REAL(i == k ? one : (real_t)0);
  }
}

// Whether a launch before that which factors the block from row `start` failed; that one may be writing `info` now.
inline bool failed_before(__global const int *info, int start) {
  const int found = start ? *info : 0;
  return found && found <= start;
}

// Factors the first block of a panel; other work-groups bring those below to `work`.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void cholesky_first(GLOBAL(T, a), GLOBAL(T, work),
                                                                                 GLOBAL(int, info), Blocks p) {
  __local Shared shared;
  const long batch = get_group_id(2);
  const int i = p.start + BLOCK * (int)get_group_id(0), i0 = first_row(), k0 = first_column();
  __global int *info = POINTER(int, info) + batch;
  if (failed_before(info, p.start)) return;
  __global T *a = POINTER(T, a) + batch * p.a.batch + AT(p.a, (long)i, (long)p.start);
  __global T *to = half_of(POINTER(T, work), p, batch, p.start) + (long)(i / BLOCK) * BLOCK * BLOCK;
  T s[EACH][EACH];
  load_tile(s, a, p.a, p.n - i, p.n - p.start, i == p.start);
  barrier(CLK_GLOBAL_MEM_FENCE);  // all have read what others write
  if (i != p.start) {
    EACH_ELEMENT to[(k0 + f) * BLOCK + i0 + e] = s[e][f];
    return;
  }
  factor(s, &shared, a, to, info, p, p.start);
}

// The panel below the block from p.start on, and a -= panel panel^H in blocks from the diagonal down: get_group_id(0)
// counts them down a column, (1) columns.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void cholesky_step(GLOBAL(T, a), GLOBAL(T, work),
                                                                                GLOBAL(int, info), Blocks p) {
  __local Shared shared;
  const long batch = get_group_id(2);
  const int from = p.start + BLOCK, i = from + BLOCK * (int)(get_group_id(0) + get_group_id(1)),
            k = from + BLOCK * (int)get_group_id(1), i0 = first_row(), k0 = first_column();
  __global int *info = POINTER(int, info) + batch;
  if (i >= p.n || failed_before(info, from)) return;
  __global T *a = POINTER(T, a) + batch * p.a.batch, *own = a + AT(p.a, (long)i, (long)k);
  __global const T *panel = half_of(POINTER(T, work), p, batch, p.start);
  __global T *next = half_of(POINTER(T, work), p, batch, from) + (long)(i / BLOCK) * BLOCK * BLOCK;
  const Part inverse = load_part(panel + (long)(p.start / BLOCK) * BLOCK * BLOCK),
             first = load_part(panel + (long)(i / BLOCK) * BLOCK * BLOCK);
  Part second = first;
  if (i != k) second = load_part(panel + (long)(k / BLOCK) * BLOCK * BLOCK);
  T s[EACH][EACH], below[EACH][EACH], other[EACH][EACH];
  if (!p.last) load_tile(s, own, p.a, p.n - i, p.n - k, i == k);
  store_part(shared.left, &first);
  store_part(shared.right, &inverse);
  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);  // global: all have read the tiles that others write in factor()
  multiply(below, &shared);
  if (get_group_id(1) == 0) {
    __global T *factored = a + AT(p.a, (long)i, (long)p.start);
    EACH_ELEMENT if (i + i0 + e < p.n) factored[AT(p.a, (long)(i0 + e), (long)(k0 + f))] = below[e][f];
  }
  if (p.last) return;
  EACH_ELEMENT other[e][f] = below[e][f];
  barrier(CLK_LOCAL_MEM_FENCE);
  if (i != k) {
    store_part(shared.left, &second);
    barrier(CLK_LOCAL_MEM_FENCE);
    multiply(other, &shared);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  UNROLL for (int f = 0; f < EACH; f++) {
    Neighbours left, right;
    UNROLL for (int e = 0; e < EACH; e++) left.v[e] = below[e][f], right.v[e] = CONJ(other[e][f]);
    store_neighbours(&shared.left[k0 + f][i0], left);
    store_neighbours(&shared.right[k0 + f][i0], right);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  multiply(other, &shared);
  EACH_ELEMENT s[e][f] -= other[e][f];
  if (i == from) {
    barrier(CLK_LOCAL_MEM_FENCE);
    factor(s, &shared, own, next, info, p, from);
  } else if (k == from) {
    EACH_ELEMENT next[(k0 + f) * BLOCK + i0 + e] = s[e][f];
  } else {
    EACH_ELEMENT {
      if (i + i0 + e < p.n && k + k0 + f <= i + i0 + e) own[AT(p.a, (long)(i0 + e), (long)(k0 + f))] = s[e][f];
    }
  }
}
