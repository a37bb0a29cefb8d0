// SPDX-License-Identifier: MIT
// delta[batch, head, query] = dot(grad_out, out), which both passes of attention's gradient subtract. LANES work-items
// on a row. Defines: TAG, LANES; VECTOR: 8 where elements of 16 bits may be read so many at once, else 1; WIDE: rows are
// not below 2^31.
#define ROWS (64 / LANES)
#define COLUMNS 0
#include "lib/rows.clh"

#include "attention/attention.clh"

#if VECTOR == 8
inline float product_of_two(uint x, uint y) {
  return DECODE(TAG, (ushort)x) * DECODE(TAG, (ushort)y) + DECODE(TAG, (ushort)(x >> 16)) * DECODE(TAG, (ushort)(y >> 16));
}
inline float product(__global const ushort *x, __global const ushort *y) {
  const uint4 a = *(__global const uint4 *)x, b = *(__global const uint4 *)y;
  return product_of_two(a.x, b.x) + product_of_two(a.y, b.y) + product_of_two(a.z, b.z) + product_of_two(a.w, b.w);
}
#else
inline float product(__global const STORAGE(TAG) *x, __global const STORAGE(TAG) *y) {
  return LOAD(TAG, x, 0) * LOAD(TAG, y, 0);
}
#endif

__kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void delta(const Params params, CONST_GLOBAL(STORAGE(TAG), grad_out), CONST_GLOBAL(STORAGE(TAG), out),
           GLOBAL(float, delta)) {
  const Params *p = &params;
  __local float scratch[64];
  const uint row = ROW_OF(get_local_id(0)), lane = LANE_OF(get_local_id(0));
  const IDX wanted = (IDX)get_group_id(0) * ROWS + row, rows = (IDX)p->batch * p->heads * p->queries;
  const IDX at = min(wanted, rows - 1);
  const int q = at % p->queries, head = at / p->queries % p->heads, batch = at / p->queries / p->heads;
  const long x_at = head_at(&p->grad_out, batch, head) + (long)q * p->grad_out.row;
  const long y_at = head_at(&p->out, batch, head) + (long)q * p->out.row;
  __global const STORAGE(TAG) *x = CONST_POINTER(STORAGE(TAG), grad_out) + x_at;
  __global const STORAGE(TAG) *y = CONST_POINTER(STORAGE(TAG), out) + y_at;
  float sum = 0;
  for (int d = VECTOR * lane; d < p->value_width; d += VECTOR * LANES) sum += product(x + d, y + d);
  ALL_LANES(float, PLUS, scratch, sum, lane, row);
  if (lane == 0 && wanted < rows) POINTER(float, delta)[wanted] = sum;
}
