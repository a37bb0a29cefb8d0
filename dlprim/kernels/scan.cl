// SPDX-License-Identifier: MIT
// Inclusive scans. LANES x ROWS work-items form a group: LANES on one row, ITEMS consecutive elements each; grid dim 1
// counts chunks of a row. Defines: those of lib/scan.clh; FOURS: rows are dense and begin where vectors of four
// elements may; PHASE:
//   0 scan rows whole   1 totals of chunks   2 scan the totals   3 scan chunks, each after the total before it
#include "lib/rows.clh"
#define SCAN_INDEX IDX
#include "lib/scan.clh"

typedef struct {
  ulong rows, length, inner, chunk;
} scan_shape;

// From each lane's total: *before becomes itself and all lanes before this one combined, *all every lane of the row.
// Inclusive scan of the totals by Hillis and Steele (1986).
#if LANES > 1
inline void scan_lanes(__local acc_t *scratch, const acc_t *total, acc_t *before, acc_t *all, uint lane, uint row) {
  acc_t own = *total;
  for (uint distance = 1; distance < LANES; distance *= 2) {
    scratch[SLOT(lane, row)] = own;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane >= distance) {
      const acc_t neighbour = scratch[SLOT(lane - distance, row)];
      own = combine(neighbour, own);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  scratch[SLOT(lane, row)] = own;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (lane > 0) *before = combine(*before, scratch[SLOT(lane - 1, row)]);
  *all = scratch[SLOT(LANES - 1, row)];
  barrier(CLK_LOCAL_MEM_FENCE);
}
#endif

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void scan(const scan_shape shape, GLOBAL(STORAGE(T_TAG), y_data), GLOBAL(long, indices_data),
          CONST_GLOBAL(STORAGE(T_TAG), x_data), GLOBAL(acc_t, totals_data)) {
  __global STORAGE(T_TAG) *y = POINTER(STORAGE(T_TAG), y_data);
  __global const STORAGE(T_TAG) *x = CONST_POINTER(STORAGE(T_TAG), x_data);
  __global acc_t *totals = POINTER(acc_t, totals_data);
#if INDEXED
  __global long *indices = POINTER(long, indices_data);
#endif
#if LANES > 1
  __local acc_t scratch[GROUP];
#endif
  const uint row = ROW_OF(get_local_id(0)), lane = LANE_OF(get_local_id(0));
  const IDX rows = (IDX)shape.rows, length = (IDX)shape.length, inner = (IDX)shape.inner;
  const IDX wanted = (IDX)get_group_id(0) * ROWS + row, o = min(wanted, rows - 1);
  const IDX chunk = (IDX)get_group_id(1), chunks = (IDX)get_num_groups(1);
  const IDX begin = chunk * (IDX)shape.chunk, end = wanted < rows ? min(begin + (IDX)shape.chunk, length) : begin;
  const IDX limit = min(begin + (IDX)shape.chunk, length);
#if PHASE == 2
#define ADDRESS(r) (o * length + (r))
#else
  const IDX base = o / inner * inner * length + o % inner;
#define ADDRESS(r) (base + (r) * inner)
#endif
  acc_t carry = no_elements();
#if PHASE == 3
  if (chunk > 0) carry = totals[o * chunks + chunk - 1];
#endif
  for (IDX tile = begin; tile < limit; tile += LANES * ITEMS) {
    acc_t v[ITEMS];
    const IDX own = tile + lane * ITEMS;
#if FOURS
    if (own + ITEMS <= end) {
#pragma unroll
      for (uint i = 0; i < ITEMS; i += 4) {
        const FOUR(T_TAG) four = *(__global const FOUR(T_TAG) *)(x + ADDRESS(own + i));
        v[i] = to_acc(DECODE(T_TAG, four.x), own + i), v[i + 1] = to_acc(DECODE(T_TAG, four.y), own + i + 1);
        v[i + 2] = to_acc(DECODE(T_TAG, four.z), own + i + 2), v[i + 3] = to_acc(DECODE(T_TAG, four.w), own + i + 3);
      }
    } else
#endif
    {
#pragma unroll
      for (uint i = 0; i < ITEMS; i++) {
        v[i] = no_elements();
#if PHASE == 2
        if (own + i < end) v[i] = totals[ADDRESS(own + i)];
#else
        if (own + i < end) v[i] = to_acc(LOAD(T_TAG, x, ADDRESS(own + i)), own + i);
#endif
      }
    }
#pragma unroll
    for (uint i = 1; i < ITEMS; i++) v[i] = combine(v[i - 1], v[i]);
#if LANES > 1
    acc_t before = carry, all;
    scan_lanes(scratch, &v[ITEMS - 1], &before, &all, lane, row);
#else
    const acc_t before = carry, all = v[ITEMS - 1];
#endif
    carry = combine(carry, all);
#if PHASE != 1
#pragma unroll
    for (uint i = 0; i < ITEMS; i++) v[i] = combine(before, v[i]);
#if FOURS
    if (own + ITEMS <= end) {
#pragma unroll
      for (uint i = 0; i < ITEMS; i += 4) {
        FOUR(T_TAG) four;
        four.x = ENCODE(T_TAG, ACC_VALUE(v[i])), four.y = ENCODE(T_TAG, ACC_VALUE(v[i + 1]));
        four.z = ENCODE(T_TAG, ACC_VALUE(v[i + 2])), four.w = ENCODE(T_TAG, ACC_VALUE(v[i + 3]));
        *(__global FOUR(T_TAG) *)(y + ADDRESS(own + i)) = four;
#if INDEXED
        *(__global long4 *)(indices + ADDRESS(own + i)) = (long4)(v[i].i, v[i + 1].i, v[i + 2].i, v[i + 3].i);
#endif
      }
      continue;
    }
#endif
#pragma unroll
    for (uint i = 0; i < ITEMS; i++) {
      const IDX r = own + i;
      if (r >= end) break;
#if PHASE == 2
      totals[ADDRESS(r)] = v[i];
#else
      STORE(T_TAG, y, ADDRESS(r), ACC_VALUE(v[i]));
#if INDEXED
      indices[ADDRESS(r)] = v[i].i;
#endif
#endif
    }
#endif
  }
#if PHASE == 1
  if (lane == 0 && wanted < rows) totals[o * chunks + chunk] = carry;
#endif
}
