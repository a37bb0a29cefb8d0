// SPDX-License-Identifier: MIT
// Portable core: one work-item an element of C, any type, any strides.
#include "gemm/operands.clh"

__kernel void gemm_reference(GEMM_ARGUMENTS) {
  const Params *p = &params;
  const ulong id = global_id();
  const ulong per_batch = (ulong)p->m * (ulong)p->n;
  const INDEX batch = (INDEX)(id / per_batch);
  const INDEX m = (INDEX)((id - (ulong)batch * per_batch) / (ulong)p->n);
  const INDEX n = (INDEX)(id - (ulong)batch * per_batch - (ulong)m * (ulong)p->n);
  if (id >= per_batch * (ulong)p->splits) return;  // here `splits` counts the batches
  __global const STORAGE(TA) *A = CONST_POINTER(STORAGE(TA), a) + batch * p->a_batch + m * p->a_m;
  __global const STORAGE(TB) *B = CONST_POINTER(STORAGE(TB), b) + batch * p->b_batch;
  T sum = (T)(0);
#if MODE == 0
  B += n * p->b_n;
  for (INDEX k = 0; k < p->k; k++)
    sum += MULTIPLY(TO_T(LOAD(TA, A, k * p->a_k)), TO_T(LOAD(TB, B, k * p->b_k)));
#else
#if MODE == 1
  const Place fixed = place_point(n, p);
#else
  const Place fixed = place_tap(n, p);
#endif
  for (INDEX k = 0; k < p->k; k++) {
#if MODE == 1
    const Place place = place_tap(k, p);
    const INDEX a_k = k * p->a_k;
#else
    const Place place = place_point(k, p);
    const INDEX a_k = place.y;
#endif
    if (MODE == 1 ? inside(fixed, place, p) : inside(place, fixed, p))
      sum += MULTIPLY(TO_T(LOAD(TA, A, a_k)), TO_T(LOAD(TB, B, fixed.x + place.x)));
  }
#endif
  const INDEX at = batch * p->c_batch + m * p->c_m + c_column(n, p);
#if ADDEND
  const T addend = TO_T(LOAD(TD, CONST_POINTER(STORAGE(TD), d), batch * p->d_batch + m * p->d_m + n * p->d_n));
#endif
  LOAD_RESIDUAL(at);
  STORE(TC, POINTER(STORAGE(TC), c), at, (VALUE(TC))(FINISH(sum, addend)));
}
