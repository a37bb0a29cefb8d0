// SPDX-License-Identifier: MIT
// What one-sided Jacobi does with columns. Blocks of `width` columns of a matrix stand in slots, two in each:
// [batch, slots, rows, 2 width].
// Defines, beside those of linalg.clh: GROUP.
#include "linalg/linalg.clh"

inline real_t sum_of_group(real_t value, __local real_t *shared, int id) {
  shared[id] = value;
  for (int span = GROUP / 2; span > 0; span /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (id < span) shared[id] += shared[id + span];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  const real_t sum = shared[0];
  barrier(CLK_LOCAL_MEM_FENCE);
  return sum;
}

typedef struct {
  Matrix a;
  long rows, columns;
} Norm;

// Of each of get_num_groups(0) shares of a matrix's rows, to parts [batch, shares, 2]: the largest element, NaN where there
// are infinities or NaN, and the sum of squares divided by its square.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void norm_parts(CONST_GLOBAL(T, a), GLOBAL(real_t, parts),
                                                                            Norm p) {
  __local real_t shared[GROUP];
  __local int invalid;
  const int id = get_local_id(0);
  const long share = get_group_id(0), shares = get_num_groups(0), batch = get_group_id(1);
  __global const T *a = CONST_POINTER(T, a) + batch * p.a.batch;
  if (id == 0) invalid = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  real_t most = 0, sum = 0;
  for (long i = share; i < p.rows; i += shares)
    for (long j = id; j < p.columns; j += GROUP) {
      const real_t size = SIZE(a[AT(p.a, i, j)]);
      if (!isfinite(size)) invalid = 1;
      most = fmax(most, size);
    }
  shared[id] = most;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int c = 0; c < GROUP; c++) most = fmax(most, shared[c]);
  barrier(CLK_LOCAL_MEM_FENCE);
  for (long i = share; i < p.rows && most > 0 && !invalid; i += shares)
    for (long j = id; j < p.columns; j += GROUP) {
      const T value = a[AT(p.a, i, j)] / most;
      sum += NORM2(value);
    }
  sum = sum_of_group(sum, shared, id);
  if (id == 0) {
    __global real_t *part = POINTER(real_t, parts) + (batch * shares + share) * 2;
    part[0] = invalid ? (real_t)NAN : most, part[1] = sum;
  }
}

// scales [2, batch]: the largest element of each matrix and Frobenius' norm of the matrix divided by it; 1 and 0 for
// zeros, NaN and 0 for matrices with infinities or NaN.
__kernel void norms(CONST_GLOBAL(real_t, parts), GLOBAL(real_t, scales), int shares, int batches) {
  const int batch = get_global_id(0);
  if (batch >= batches) return;
  __global const real_t *part = CONST_POINTER(real_t, parts) + (long)batch * shares * 2;
  real_t most = 0, sum = 0;
  for (int s = 0; s < shares && !isnan(most); s++) most = part[2 * s] <= most ? most : part[2 * s];
  for (int s = 0; s < shares && most > 0; s++) {
    const real_t ratio = part[2 * s] / most;
    sum += part[2 * s + 1] * ratio * ratio;
  }
  POINTER(real_t, scales)[batch] = isnan(most) ? most : most > 0 ? most : 1;
  POINTER(real_t, scales)[batches + batch] = sqrt(sum);
}

typedef struct {
  Matrix a;
  long rows, columns, batches, height, slots, width;  // height: rows of a slot
} Slots;

// Slots from a matrix divided by its scale, or zeros where that is NaN, and from the identity below it.
__kernel void to_slots(CONST_GLOBAL(T, a), CONST_GLOBAL(real_t, scales), GLOBAL(T, out), Slots p) {
  const long c = global_id(), i = get_global_id(1), wide = 2 * p.width;
  if (c >= wide * p.slots || i >= p.height) return;
  for (long b = get_global_id(2); b < p.batches; b += get_global_size(2)) {
    const real_t scale = CONST_POINTER(real_t, scales)[b];
    T value = REAL(i - p.rows == c ? (real_t)1 : (real_t)0);
    if (i < p.rows)
      value = c < p.columns && scale > 0 ? CONST_POINTER(T, a)[b * p.a.batch + AT(p.a, i, c)] / scale : REAL(0);
    POINTER(T, out)[((b * p.slots + c / wide) * p.height + i) * wide + c % wide] = value;
  }
}

// The next round: the first block stays, all others move on by one place.
__kernel void next_round(CONST_GLOBAL(T, in), GLOBAL(T, out), Slots p) {
  const long c = global_id(), i = get_global_id(1), wide = 2 * p.width;
  if (c >= wide * p.slots || i >= p.height) return;
  const long slot = c / wide, second = c % wide / p.width;
  long from = slot, from_second = second;
  if (second == 0) {
    if (slot == 1) from = 0, from_second = 1;
    else if (slot > 1) from = slot - 1;
  } else if (slot == p.slots - 1) {
    from_second = p.slots > 1 ? 0 : 1;
  } else {
    from = slot + 1;
  }
  for (long b = get_global_id(2); b < p.batches; b += get_global_size(2))
    POINTER(T, out)[((b * p.slots + slot) * p.height + i) * wide + c % wide] =
        CONST_POINTER(T, in)[((b * p.slots + from) * p.height + i) * wide + from_second * p.width + c % p.width];
}

typedef struct {
  Matrix a, other;
  long rows, columns;
} Columns;

// values [batch, columns] = the real parts of the products a_j^H other_j, or their roots where `root`.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void column_products(CONST_GLOBAL(T, a),
                                                                                 CONST_GLOBAL(T, other),
                                                                                 GLOBAL(real_t, values), Columns p,
                                                                                 int root) {
  __local real_t shared[GROUP];
  const int id = get_local_id(0);
  const long batch = get_group_id(0) / p.columns, j = get_group_id(0) % p.columns;
  real_t sum = 0;
  for (long i = id; i < p.rows; i += GROUP) {
    const T x = CONST_POINTER(T, a)[batch * p.a.batch + AT(p.a, i, j)];
    const T y = CONST_POINTER(T, other)[batch * p.other.batch + AT(p.other, i, j)];
    sum += RE(MUL(CONJ(x), y));
  }
  sum = sum_of_group(sum, shared, id);
  if (id == 0) POINTER(real_t, values)[get_group_id(0)] = root ? sqrt(sum) : sum;
}

typedef struct {
  long columns, batches;
  int descending, unused;
} Ranking;

// order [batch, columns]: the place of each value; values times scale in this order to `sorted`.
__kernel void rank_values(CONST_GLOBAL(real_t, values), CONST_GLOBAL(real_t, scales), GLOBAL(int, order),
                          GLOBAL(real_t, sorted), Ranking p) {
  const long at = global_id();
  if (at >= p.columns * p.batches) return;
  const long batch = at / p.columns, j = at % p.columns;
  __global const real_t *values = CONST_POINTER(real_t, values) + batch * p.columns;
  const real_t value = values[j];
  int rank = 0;
  for (long k = 0; k < p.columns; k++) {
    const real_t other = values[k];
    rank += (p.descending ? other > value : other < value) || (other == value && k < j);
  }
  if (isnan(value)) rank = (int)j;
  POINTER(int, order)[at] = rank;
  POINTER(real_t, sorted)[batch * p.columns + rank] = value * CONST_POINTER(real_t, scales)[batch];
}

// a /= scale, or zeros where that is NaN.
__kernel void divide(GLOBAL(T, a), CONST_GLOBAL(real_t, scales), Norm p, long batches) {
  const long j = global_id(), i = get_global_id(1);
  if (i >= p.rows || j >= p.columns) return;
  for (long b = get_global_id(2); b < batches; b += get_global_size(2)) {
    const real_t scale = CONST_POINTER(real_t, scales)[b];
    __global T *a = POINTER(T, a) + b * p.a.batch + AT(p.a, i, j);
    *a = scale > 0 ? *a / scale : REAL(0);
  }
}

// a += shift on the diagonal, where shift is the fourth root, and a little, of Frobenius' norm of a^4.
typedef struct {
  Matrix a;
  long n, batches;
} Shift;

__kernel void shift_diagonal(GLOBAL(T, a), CONST_GLOBAL(real_t, scales), Shift p) {
  const long at = global_id();
  if (at >= p.n * p.batches) return;
  const long b = at / p.n, i = at % p.n;
  __global const real_t *scales = CONST_POINTER(real_t, scales);
  const real_t shift = (real_t)1.01 * sqrt(sqrt(scales[b] * scales[p.batches + b]));
  POINTER(T, a)[b * p.a.batch + AT(p.a, i, i)] += REAL(shift);
}

// Columns of u whose element of r's diagonal is negative change their sign.
__kernel void orient(GLOBAL(T, u), CONST_GLOBAL(T, r), Columns p, long batches) {
  const long j = global_id(), i = get_global_id(1);
  if (i >= p.rows || j >= p.columns) return;
  for (long b = get_global_id(2); b < batches; b += get_global_size(2))
    if (RE(CONST_POINTER(T, r)[b * p.other.batch + AT(p.other, j, j)]) < 0) {
      __global T *u = POINTER(T, u) + b * p.a.batch + AT(p.a, i, j);
      *u = -*u;
    }
}

// info = code where the scale is NaN, else 0, or where `keeps` what it was.
__kernel void report(CONST_GLOBAL(real_t, scales), GLOBAL(int, info), int batches, int code, int keeps) {
  const int b = get_global_id(0);
  if (b >= batches) return;
  const bool none = isnan(CONST_POINTER(real_t, scales)[b]);
  if (none || !keeps) POINTER(int, info)[b] = none ? code : 0;
}
