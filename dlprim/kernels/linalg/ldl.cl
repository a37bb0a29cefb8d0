// SPDX-License-Identifier: MIT
// A = L D L^T, or L D L^H, with Bunch and Kaufman's partial pivoting: D has blocks of one and two rows. The numbers that
// LAPACK's sytf2 and hetf2 leave in the lower triangle, which alone is read.
// Defines, beside those of linalg.clh: SIDE, the work-group is SIDE x SIDE; HERMITIAN, 1 for the adjoint.
#include "linalg/linalg.clh"

#define GROUP (SIDE * SIDE)
#define ALL_MEMORY (CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#if HERMITIAN
#define TURN(v) CONJ(v)
#define DIAGONAL_SIZE(v) fabs(RE(v))
#else
#define TURN(v) (v)
#define DIAGONAL_SIZE(v) SIZE(v)
#endif
#define A(i, j) a[AT(p.a, (long)(i), (long)(j))]

typedef struct {
  Matrix a;
  int n, unused;
} Factor;

// The largest of the sizes that the work-items bring, and its place; of equal ones the first. All of the group call it.
inline real_t largest(real_t size, int *place, __local real_t *sizes, __local int *places, int id) {
  barrier(ALL_MEMORY);
  sizes[id] = size, places[id] = *place;
  for (int half_way = GROUP / 2; half_way > 0; half_way /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    const int other = id + half_way;
    if (id < half_way &&
        (sizes[other] > sizes[id] || (sizes[other] == sizes[id] && places[other] < places[id])))
      sizes[id] = sizes[other], places[id] = places[other];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  *place = places[0];
  return sizes[0];
}

// Rows and columns `from` and `to` > from change places in what is not factored yet; `step` rows from k on become a
// block of D. The diagonal of a Hermitian matrix becomes real.
inline void exchange(__global T *a, const Factor p, int id, int k, int step, int to) {
  const int from = k + step - 1;
  T kept;
  if (to != from) {
    for (int i = to + 1 + id; i < p.n; i += GROUP) kept = A(i, from), A(i, from) = A(i, to), A(i, to) = kept;
    for (int j = from + 1 + id; j < to; j += GROUP)
      kept = TURN(A(j, from)), A(j, from) = TURN(A(to, j)), A(to, j) = kept;
    if (id == 0) {
      kept = A(from, from), A(from, from) = A(to, to), A(to, to) = kept;
      A(to, from) = TURN(A(to, from));
      if (step == 2) kept = A(from, k), A(from, k) = A(to, k), A(to, k) = kept;
    }
  }
#if HERMITIAN
  if (id == 0) {
    A(k, k) = REAL(RE(A(k, k)));
    A(from, from) = REAL(RE(A(from, from)));
    A(to, to) = REAL(RE(A(to, to)));
  }
#endif
  barrier(ALL_MEMORY);
}

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void ldl_factor(GLOBAL(T, a), GLOBAL(int, pivots),
                                                                            GLOBAL(int, info), Factor p) {
  __local real_t sizes[GROUP];
  __local int places[GROUP];
  const int id = get_local_id(0), x = id % SIDE, y = id / SIDE, n = p.n;
  const long batch = get_group_id(0);
  const real_t least = (1 + sqrt((real_t)17)) / 8;
  __global T *a = POINTER(T, a) + batch * p.a.batch;
  __global int *pivots = POINTER(int, pivots) + batch * n;
  int failed = 0;
  // Barriers stand in no branch, since some compilers for CPUs lose work-items there.
  for (int k = 0, step; k < n; k += step) {
    int place = n, unused = n;
    real_t most = -1;
    for (int i = k + 1 + id; i < n; i += GROUP) {
      const real_t size = SIZE(A(i, k));
      if (size > most) most = size, place = i;
    }
    const real_t column = largest(most, &place, sizes, places, id), own = DIAGONAL_SIZE(A(k, k));
    const int candidate = place < n ? place : k;
    most = -1;
    for (int j = k + id; j < n; j += GROUP) {
      const real_t size = j == candidate ? -1 : SIZE(A(max(j, candidate), min(j, candidate)));
      if (size > most) most = size;
    }
    const real_t row = largest(most, &unused, sizes, places, id), other = DIAGONAL_SIZE(A(candidate, candidate));
    const int zero = own != own || (!(own > 0) && !(column > 0));
    const int exchanged = !zero && own < least * column && own < least * column * (column / row);
    const int pivot = exchanged ? candidate : k;
    step = exchanged && other < least * row ? 2 : 1;
    if (id == 0) {
      pivots[k] = step == 1 ? pivot + 1 : -(pivot + 1);
      if (step == 2) pivots[k + 1] = -(pivot + 1);
    }
    if (zero && !failed) failed = k + 1;
    barrier(ALL_MEMORY);
    exchange(a, p, id, k, step, pivot);
    // Columns of L are those of A times the inverse of the block.
    const int next = zero ? n : k + step, last = k + step - 1;
    const T u = A(k, k), below = A(last, k), v = A(last, last);
    T c00 = DIV(REAL(1), u), c01 = REAL(0), c10 = REAL(0), c11 = REAL(0);
    if (step == 2) {
#if HERMITIAN
      const real_t length = ABS(below), d0 = RE(u) / length, d1 = RE(v) / length, scale = 1 / (d1 * d0 - 1) / length;
      c00 = REAL(scale * d1), c01 = -scale * (below / length), c10 = CONJ(c01), c11 = REAL(scale * d0);
#else
      const T d0 = DIV(u, below), d1 = DIV(v, below);
      c10 = -DIV(DIV(REAL(1), MUL(d1, d0) - REAL(1)), below);
      c01 = c10, c00 = -MUL(c10, d1), c11 = -MUL(c10, d0);
#endif
    }
    for (int j = next + y; j < n; j += SIDE) {
      T first = MUL(c00, A(j, k)), second = REAL(0);
      if (step == 2) first += MUL(c01, A(j, last)), second = TURN(MUL(c10, A(j, k)) + MUL(c11, A(j, last)));
      first = TURN(first);
      for (int i = next + x; i < n; i += SIDE) {
        if (i < j) continue;
        T change = MUL(A(i, k), first);
        if (step == 2) change += MUL(A(i, last), second);
        A(i, j) -= change;
      }
    }
    barrier(ALL_MEMORY);
    for (int i = next + id; i < n; i += GROUP) {
      const T left = A(i, k), right = A(i, last);
      A(i, k) = MUL(c00, left);
      if (step == 2) A(i, k) += MUL(c01, right), A(i, last) = MUL(c10, left) + MUL(c11, right);
    }
  }
  if (id == 0) POINTER(int, info)[batch] = failed;
}
#undef A
