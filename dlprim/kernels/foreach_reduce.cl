// SPDX-License-Identifier: MIT
// Reduces each chunk of many tensors to an element of `results`. The host defines the table (lib/foreach.clh) and
//   LANES, BATCH   work-items of a group, and elements that each has in flight
//   X, Y, REAL     tags of elements and results, type to compute in
//   EACH(x)        what an element contributes, 0 for 0
//   MERGE(a, b)    of two contributions, a for b = 0; takes each once
//   FINISH(v)      the result
#define ROWS 1
#define COLUMNS 0
#include "lib/foreach.clh"
#include "lib/rows.clh"

inline REAL highest(REAL a, REAL b) { return a > b || a != a ? a : b; }  // NaN if there is any

__kernel __attribute__((reqd_work_group_size(LANES, 1, 1)))
void foreach_reduce(BUFFERS Table table, GLOBAL(STORAGE(Y), results)) {
  __local REAL scratch[LANES];
  const uint lane = get_local_id(0);
  BEGIN_CHUNK
  __global const STORAGE(X) *x = (__global const STORAGE(X) *)address[0] + begin;
  REAL total = 0;
  for (uint first = lane; first < elements; first += BATCH * LANES) {
    REAL v[BATCH];
#pragma unroll
    for (uint i = 0; i < BATCH; i++)
      v[i] = first + i * LANES < elements ? LOAD(X, x, first + i * LANES) : 0;
#pragma unroll
    for (uint i = 0; i < BATCH; i++) total = MERGE(total, EACH(v[i]));
  }
  ALL_LANES(REAL, MERGE, scratch, total, lane, 0);
  if (lane == 0) STORE(Y, POINTER(STORAGE(Y), results), chunk, FINISH(total));
}
