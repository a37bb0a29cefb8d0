// SPDX-License-Identifier: MIT
// Packs an operand of gemm_panel for all its tiles: element (i, j) of x lies at i * x_line + j * x_step, of y at
// j / width * panel + i * pitch + j % width. A work-group is one work-item. The host also defines
//   T, TA          type to compute in, tag of x
//   LINES, COUNT   elements that a work-group packs; `width` divides COUNT
//   PAIRS          1: elements are pairs (gemm/panel.clh); those of the last line (`single` 1) or column (2) may have
//                  no second one
#define INDEX long
#define NOUNROLL _Pragma("nounroll")
#define VEC CONCAT(T, 16)
#define SPACE __global
#include "lib/types.clh"
#include "gemm/panel.clh"

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void gemm_pack_panel(
    CONST_GLOBAL(STORAGE(TA), x), GLOBAL(T, y), const long lines, const long count, const long x_batch,
    const long x_line, const long x_step, const long x_other, const long y_batch, const int width, const long panel,
    const long pitch, const int single) {
  const long i = get_group_id(0) * LINES, first = get_group_id(1) * COUNT, batch = get_group_id(2);
  __global const STORAGE(TA) *X = CONST_POINTER(STORAGE(TA), x) + batch * x_batch + i * x_line;
  __global T *Y = POINTER(T, y) + batch * y_batch + i * pitch;
  const int some = (int)min(lines - i, (long)LINES);
  const int whole = single == 1 && i + some == lines ? some - 1 : some;
  for (long j = first; j < min(first + COUNT, count); j += width) {
    const int columns = (int)min(count - j, (long)width);
    const int full = single == 2 && j + columns == count ? columns - 1 : columns;
    __global T *to = Y + j / width * panel;
    pack(X + j * x_step, x_line, x_step, x_other, whole, full, to, pitch);
#if PAIRS
#define FIRST_OF_PAIR(line, column) as_float((uint)X[(line) * x_line + (j + (column)) * x_step])
    for (int v = 0; v < columns && whole < some; v++) to[whole * pitch + v] = FIRST_OF_PAIR(whole, v);
    for (int l = 0; l < some && full < columns; l++) to[l * pitch + full] = FIRST_OF_PAIR(l, full);
#endif
  }
}
