// SPDX-License-Identifier: MIT
// Triangular systems with sparse matrices, row after row: a work-group takes ACROSS columns of the right side, ALONG
// work-items of each share a row's entries.
// Defines, beside those of linalg.clh: INDEX (tag), ACROSS, ALONG, UPPER, UNIT (ones on the diagonal).
#include "linalg/linalg.clh"

#define GROUP (ACROSS * ALONG)

typedef struct {
  long n, entries, columns, row, col;  // strides of x
  int code, unused;
} Solve;

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void sparse_triangular_solve(
    CONST_GLOBAL(STORAGE(INDEX), starts), CONST_GLOBAL(STORAGE(INDEX), columns), CONST_GLOBAL(T, values), GLOBAL(T, x),
    GLOBAL(int, status), Solve p) {
  __local T sums[GROUP], pivots[ALONG];
  const int id = get_local_id(0), across = id % ACROSS, along = id / ACROSS;
  const long column = (long)get_group_id(0) * ACROSS + across;
  const int active = column < p.columns;
  __global const STORAGE(INDEX) *starts = CONST_POINTER(STORAGE(INDEX), starts);
  __global const STORAGE(INDEX) *columns = CONST_POINTER(STORAGE(INDEX), columns);
  __global const T *values = CONST_POINTER(T, values);
  __global int *status = POINTER(int, status);
  __global T *x = POINTER(T, x) + (active ? column : 0) * p.col;
  for (long step = 0; step < p.n; step++) {
    const long row = UPPER ? p.n - 1 - step : step, start = starts[row], stop = starts[row + 1];
    const long begin = clamp(start, 0L, p.entries), end = clamp(stop, begin, p.entries);
    if (begin != start || end != stop) REPORT(status, p.code, begin != start ? start : stop);
    T sum = REAL(0), pivot = REAL(0);
    for (long e = begin + along; e < end; e += ALONG) {
      const long other = columns[e];
      if (other < 0 || other >= p.n) REPORT(status, p.code, other);
      else if (other == row) pivot += values[e];
      else if (active && (UPPER ? other > row : other < row)) sum += MUL(values[e], x[other * p.row]);
    }
    sums[id] = sum;
    if (across == 0) pivots[along] = pivot;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (along == 0 && active) {
      for (int k = 1; k < ALONG; k++) sum += sums[k * ACROSS + across], pivot += pivots[k];
      const T rest = x[row * p.row] - sum;
      x[row * p.row] = UNIT ? rest : DIV(rest, pivot);
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
  }
}
