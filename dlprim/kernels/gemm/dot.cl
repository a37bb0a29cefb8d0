// SPDX-License-Identifier: MIT
// Core for products of bytes: a work-group computes BM x BN of C, a work-item 4 x 4 of it, by instructions that sum the
// products of four bytes each in 32 bits. A and B pass through local memory as words of four bytes along k, WORDS deep.
// The host also defines
//   SIGNED               0 or 1
//   A_WORDS, B_WORDS     1: words lie in memory as such, aligned
//   INTEGER_DOT          1: the device has cl_khr_integer_dot_product
#include "gemm/operands.clh"
#include "gemm/words.clh"

#define GROUP ((BM / 4) * (BN / 4))
#define PITCH_A (BM + 4)
#define PITCH_B (BN + 4)
#ifdef CPU_DEVICE
#define WORDS_LOOP NOUNROLL  // there it is faster, too
#else
#define WORDS_LOOP _Pragma("unroll")
#endif

// sum + the products of the four bytes of a and b.
inline int dot4(uint a, uint b, int sum) {
#if defined(NV_PTX) && SIGNED
  asm("dp4a.s32.s32 %0, %1, %2, %0;" : "+r"(sum) : "r"(a), "r"(b));
  return sum;
#elif defined(NV_PTX)
  asm("dp4a.u32.u32 %0, %1, %2, %0;" : "+r"(sum) : "r"(a), "r"(b));
  return sum;
#elif INTEGER_DOT && SIGNED
  return sum + dot_4x8packed_ss_int(a, b);
#elif INTEGER_DOT
  return sum + (int)dot_4x8packed_uu_uint(a, b);
#else
#if SIGNED
  const int4 products = convert_int4(as_char4(a)) * convert_int4(as_char4(b));
#else
  const int4 products = convert_int4(as_uchar4(a)) * convert_int4(as_uchar4(b));
#endif
  return sum + products.x + products.y + products.z + products.w;
#endif
}

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void gemm_dot(GEMM_ARGUMENTS) {
  const Params *p = &params;
  __local uint As[WORDS * PITCH_A] __attribute__((aligned(16)));
  __local uint Bs[WORDS * PITCH_B] __attribute__((aligned(16)));
  const int item = get_local_id(0), column = item % (BN / 4), row = item / (BN / 4);
  const Tile tile = tile_of(get_group_id(0), p);
  const INDEX m0 = tile.m * BM, n0 = tile.n * BN;
  __global const uchar *A = (__global const uchar *)CONST_POINTER(STORAGE(TA), a) + tile.batch * p->a_batch;
  __global const uchar *B = (__global const uchar *)CONST_POINTER(STORAGE(TB), b) + tile.batch * p->b_batch;
  int sum[4][4] = {{0}};
  for (INDEX k0 = 0; k0 < p->k; k0 += 4 * WORDS) {
    LOAD_WORDS(A, A_WORDS, m0, p->m, p->a_k, p->a_m, BM, word * PITCH_A + row)
    LOAD_WORDS(B, B_WORDS, n0, p->n, p->b_k, p->b_n, BN, word * PITCH_B + row)
    barrier(CLK_LOCAL_MEM_FENCE);
    WORDS_LOOP for (int word = 0; word < WORDS; word++) {
      const uint4 a = *(__local const uint4 *)(As + word * PITCH_A + 4 * row);
      const uint4 b = *(__local const uint4 *)(Bs + word * PITCH_B + 4 * column);
      const uint av[4] = {a.x, a.y, a.z, a.w}, bv[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
      for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) sum[i][j] = dot4(av[i], bv[j], sum[i][j]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  __global STORAGE(TC) *C = POINTER(STORAGE(TC), c);
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 4; j++) {
      const INDEX m = m0 + 4 * row + i, n = n0 + 4 * column + j;
      if (m >= p->m || n >= p->n) continue;
      const INDEX at = tile.batch * p->c_batch + m * p->c_m + n * p->c_n;
#if ADDEND
      const T addend = TO_T(LOAD(TD, CONST_POINTER(STORAGE(TD), d), tile.batch * p->d_batch + m * p->d_m + n * p->d_n));
#endif
      LOAD_RESIDUAL(at);
      STORE(TC, C, at, (VALUE(TC))(FINISH(TO_T(sum[i][j]), addend)));
    }
}
