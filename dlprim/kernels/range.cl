// SPDX-License-Identifier: MIT
// Numbers made from positions. The host defines T (tag of the output), R (type computed in) and CAST(v) from R to T's
// compute type; FEW: positions are ints; UNIT (an integer type as wide as an element) for triangles.
#include "lib/indexing.clh"
#include "lib/types.clh"

#ifdef R
#ifdef FEW  // vector code of CPUs converts no 64-bit integers
#define NUMBER(i) ((R)(int)(i))
#else
#define NUMBER(i) ((R)(i))
#endif

__kernel void sequence(GLOBAL(STORAGE(T), out), ulong count, R start, R step) {
  const ulong i = global_id();
  if (i < count) STORE(T, POINTER(STORAGE(T), out), i, CAST((start + NUMBER(i) * step)));
}

// Counts from both ends, so that both are exact.
__kernel void spaced(GLOBAL(STORAGE(T), out), ulong count, R start, R end, R step, R base) {
  const ulong i = global_id();
  if (i >= count) return;
  R value = i < count / 2 || count == 1 ? start + NUMBER(i) * step : end - NUMBER(count - 1 - i) * step;
#ifdef POWER
  value = pow(base, value);
#endif
  STORE(T, POINTER(STORAGE(T), out), i, CAST(value));
}

// Elements of the lower triangle in rows before `row`: each row t holds t + offset + 1, at least 0, at most columns.
inline long elements_before(long row, long columns, long offset) {
  const long first = clamp(-offset, 0L, row), full = clamp(columns - offset, first, row);
  return (full - first) * (first + full + 2 * offset + 1) / 2 + (row - full) * columns;
}

inline long start_of_row(long row, long columns, long offset) {
#ifdef LOWER
  return elements_before(row, columns, offset);
#else
  return row * columns - elements_before(row, columns, offset - 1);
#endif
}

__kernel void triangle_indices(GLOBAL(STORAGE(T), out), ulong count, long rows, long columns, long offset) {
  const ulong i = global_id();
  if (i >= count) return;
  long low = 0, high = rows;  // the last row that starts at or before i
  while (high - low > 1) {
    const long middle = (low + high) / 2;
    if (start_of_row(middle, columns, offset) <= (long)i) low = middle;
    else high = middle;
  }
  long column = (long)i - start_of_row(low, columns, offset);
#ifndef LOWER
  column += clamp(low + offset, 0L, columns);
#endif
  __global STORAGE(T) *out = POINTER(STORAGE(T), out);
  out[i] = (STORAGE(T))low;
  out[count + i] = (STORAGE(T))column;
}
#endif  // R

#ifdef UNIT
#include "lib/each_line.clh"
__kernel void triangle(GLOBAL(UNIT, out), CONST_GLOBAL(UNIT, in), ulong count, uint rows, uint columns, long diagonal) {
  EACH_LINE(line, count, columns) {
    __global const UNIT *from = CONST_POINTER(UNIT, in) + line * columns;
    __global UNIT *to = POINTER(UNIT, out) + line * columns;
    const long row = (long)(line % rows);
#ifdef LOWER
    EACH_OF_LINE(column, columns) to[column] = column <= row + diagonal ? from[column] : (UNIT)0;
#else
    EACH_OF_LINE(column, columns) to[column] = column >= row + diagonal ? from[column] : (UNIT)0;
#endif
  }
}
#endif
