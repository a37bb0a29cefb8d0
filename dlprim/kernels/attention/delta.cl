// SPDX-License-Identifier: MIT
// delta[batch, head, query] = dot(grad_out, out), which both passes of attention's gradient subtract. LANES work-items
// on a row. Defines: TAG, LANES.
#define ROWS (64 / LANES)
#define COLUMNS 0
#include "lib/rows.clh"

#include "attention/attention.clh"

__kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void delta(const Params params, CONST_GLOBAL(STORAGE(TAG), grad_out), CONST_GLOBAL(STORAGE(TAG), out),
           GLOBAL(float, delta)) {
  const Params *p = &params;
  __local float scratch[64];
  const uint row = ROW_OF(get_local_id(0)), lane = LANE_OF(get_local_id(0));
  const long wanted = (long)get_group_id(0) * ROWS + row, rows = (long)p->batch * p->heads * p->queries;
  const long at = min(wanted, rows - 1);
  const int q = at % p->queries, head = at / p->queries % p->heads, batch = at / p->queries / p->heads;
  const long x_at = head_at(&p->grad_out, batch, head) + (long)q * p->grad_out.row;
  const long y_at = head_at(&p->out, batch, head) + (long)q * p->out.row;
  __global const STORAGE(TAG) *x = CONST_POINTER(STORAGE(TAG), grad_out) + x_at;
  __global const STORAGE(TAG) *y = CONST_POINTER(STORAGE(TAG), out) + y_at;
  float sum = 0;
  for (int d = lane; d < p->value_width; d += LANES) sum += LOAD(TAG, x, d) * LOAD(TAG, y, d);
  ALL_LANES(float, PLUS, scratch, sum, lane, row);
  if (lane == 0 && wanted < rows) POINTER(float, delta)[wanted] = sum;
}
