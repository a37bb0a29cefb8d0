// SPDX-License-Identifier: MIT
// Joins INPUTS matrices of equal height side by side. The host defines INPUTS and UNIT, the type moved.
#include "lib/indexing.clh"
#include "lib/types.clh"

typedef struct {
  Divider columns;      // of all inputs together
  uint start[INPUTS];   // first column of each input
  uint width[INPUTS];
  uint row_stride, count;
} Parameters;

#define SOURCE(k) CONST_GLOBAL(UNIT, in##k)
#define CASE(k) case k: value = CONST_POINTER(UNIT, in##k)[at]; break;

__kernel void concat(GLOBAL(UNIT, out), Parameters p, SOURCE(0), SOURCE(1), SOURCE(2), SOURCE(3), SOURCE(4), SOURCE(5),
                     SOURCE(6), SOURCE(7)) {
  const uint i = get_global_id(0);
  if (i >= p.count) return;
  uint column;
  const uint row = divide_rest(i, p.columns, &column);
  int input = 0;
#pragma unroll
  for (int k = 1; k < INPUTS; k++) input += column >= p.start[k];
  const uint at = row * p.width[input] + (column - p.start[input]);
  UNIT value;
  switch (input) {
    CASE(0) CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6)
    default: value = CONST_POINTER(UNIT, in7)[at];
  }
  POINTER(UNIT, out)[(ulong)row * p.row_stride + column] = value;
}
