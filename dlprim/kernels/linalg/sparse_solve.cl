// SPDX-License-Identifier: MIT
// Triangular systems with sparse matrices. A work-group takes ACROSS columns of the right side and goes down the rows in
// blocks of ROWS, a work-item a row. What a row needs of blocks before is at hand; of its own block it waits for the rows
// that it needs, round by round.
// Defines, beside those of linalg.clh: INDEX (tag), ACROSS, ROWS, UPPER, UNIT (ones on the diagonal).
#include "linalg/linalg.clh"

typedef struct {
  long n, entries, columns, row, col;  // strides of x
  int code, unused;
} Solve;

// Steps are counted in the order in which rows are solved.
#define STEP(row) (UPPER ? p.n - 1 - (row) : (row))

__kernel __attribute__((reqd_work_group_size(ROWS * ACROSS, 1, 1))) void sparse_triangular_solve(
    CONST_GLOBAL(STORAGE(INDEX), starts), CONST_GLOBAL(STORAGE(INDEX), columns), CONST_GLOBAL(T, values), GLOBAL(T, x),
    GLOBAL(int, status), Solve p) {
  __local int solved[ROWS], left;
  const int id = get_local_id(0), across = id % ACROSS, lane = id / ACROSS;
  const long column = (long)get_group_id(0) * ACROSS + across;
  const int active = column < p.columns;
  __global const STORAGE(INDEX) *starts = CONST_POINTER(STORAGE(INDEX), starts);
  __global const STORAGE(INDEX) *columns = CONST_POINTER(STORAGE(INDEX), columns);
  __global const T *values = CONST_POINTER(T, values);
  __global int *status = POINTER(int, status);
  __global T *x = POINTER(T, x) + (active ? column : 0) * p.col;
  for (long base = 0; base < p.n; base += ROWS) {
    const long step = base + lane;
    const int inside = step < p.n;
    const long row = inside ? STEP(step) : 0;
    if (across == 0) solved[lane] = 0;
    if (id == 0) left = (int)min((long)ROWS, p.n - base);
    T sum = REAL(0), pivot = REAL(0);
    long first = 0, last = 0;  // where entries of the block lie
    if (inside) {
      const long start = starts[row], stop = starts[row + 1];
      const long begin = clamp(start, 0L, p.entries), end = clamp(stop, begin, p.entries);
      if (begin != start || end != stop) REPORT(status, p.code, begin != start ? start : stop);
      for (long e = begin; e < end; e++) {
        const long other = columns[e];
        if (other < 0 || other >= p.n) {
          REPORT(status, p.code, other);
        } else if (other == row) {
          pivot += values[e];
        } else if (STEP(other) < base) {
          if (active) sum += MUL(values[e], x[other * p.row]);
        } else if (STEP(other) < step) {
          if (first == last) first = e;
          last = e + 1;
        }
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    int waiting = inside;
    for (int rest = left; rest > 0; rest = left) {
      int ready = waiting;
      for (long e = first; ready && e < last; e++) {
        const long other = columns[e];
        const long place = other < 0 || other >= p.n ? -1 : STEP(other) - base;
        if (place >= 0 && place < lane) ready = solved[place];
      }
      if (ready && active) {
        T known = sum;
        for (long e = first; e < last; e++) {
          const long other = columns[e];
          const long place = other < 0 || other >= p.n ? -1 : STEP(other) - base;
          if (place >= 0 && place < lane) known += MUL(values[e], x[other * p.row]);
        }
        const T value = x[row * p.row] - known;
        x[row * p.row] = UNIT ? value : DIV(value, pivot);
      }
      barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
      if (ready && across == 0) solved[lane] = 1, atomic_dec(&left);
      waiting = waiting && !ready;
      barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
}
