// SPDX-License-Identifier: MIT
// The triangle of a product of reflections, H_1 ... H_n = 1 - V F V^H (R. Schreiber, C. Van Loan, "A storage-efficient WY
// representation for products of Householder transformations", 1989): F from V^H V and the factors tau.
// Defines, beside those of linalg.clh: WIDTH, work-items of a group and the most reflections; CONJUGATE, of tau;
// ADJOINT: F^H is written.
#include "linalg/linalg.clh"

typedef struct {
  long tau_batch;
  int n, unused;
} Reflector;

// gram and out: [batch, n, n]. Work-item i has row i.
__kernel __attribute__((reqd_work_group_size(WIDTH, 1, 1))) void reflector(CONST_GLOBAL(T, gram), CONST_GLOBAL(T, tau),
                                                                            GLOBAL(T, out), Reflector p) {
  __local T f[WIDTH][WIDTH + 1], products[WIDTH][WIDTH], factors[WIDTH];
  const int i = get_local_id(0), n = p.n;
  const long batch = get_group_id(0);
  __global const T *gram = CONST_POINTER(T, gram) + batch * n * n, *tau = CONST_POINTER(T, tau) + batch * p.tau_batch;
  __global T *out = POINTER(T, out) + batch * n * n;
  for (int j = 0; j < n; j++)
    if (i < n) products[j][i] = gram[j * n + i];
  if (i < n) factors[i] = CONJUGATE ? CONJ(tau[i]) : tau[i];
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int j = 0; j < n; j++) {
    T sum = REAL(0);
    for (int l = 0; l < j; l++) sum += MUL(f[i][l], products[l][j]);
    f[i][j] = j < i ? REAL(0) : j == i ? factors[j] : -MUL(factors[j], sum);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int j = 0; j < n; j++)
    if (i < n) out[j * n + i] = ADJOINT ? CONJ(f[i][j]) : f[j][i];
}
