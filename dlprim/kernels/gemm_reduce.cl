// SPDX-License-Identifier: MIT
// Sums the splits of a product that was cut along k and finishes it. `a` holds [batch, split, m, n] of T.
#include "gemm_operands.clh"

__kernel void gemm_reduce(GEMM_ARGUMENTS RESIDUAL_ARGUMENT) {
  const Params *p = &params;
  const INDEX size = p->m * p->n;
  const INDEX id = get_global_id(0);
  const INDEX batch = get_global_id(1);
  if (id >= size) return;
  __global const T *partial = CONST_POINTER(T, a) + batch * p->splits * size + id;
  T sum = 0;
  for (INDEX s = 0; s < p->splits; s++) sum += partial[s * size];
  const INDEX m = id / p->n, n = id - m * p->n;
  const INDEX at = batch * p->c_batch + m * p->c_m + c_column(n, p);
#if ADDEND
  const T addend = LOAD(TD, CONST_POINTER(STORAGE(TD), d), batch * p->d_batch + m * p->d_m + n * p->d_n);
#endif
#if RESIDUAL
  const T residual = LOAD(TC, CONST_POINTER(STORAGE(TC), e), at);
#endif
  STORE(TC, POINTER(STORAGE(TC), c), at, FINISH(sum, addend));
}
