// SPDX-License-Identifier: MIT
// Products of integers on CPUs. A work-item computes `rows` rows of C, 32 columns wide, ROWS of them at a time in
// vectors. B and C reach up to a multiple of 32 columns.
//   T, WIDTH   type of elements and sums, and how many of them a vector holds
#define CONCATENATED(a, b) a##b
#define CONCAT(a, b) CONCATENATED(a, b)
#define VECTOR CONCAT(T, WIDTH)
#define LOAD_VECTOR CONCAT(vload, WIDTH)
#define STORE_VECTOR CONCAT(vstore, WIDTH)
#define VECTORS (32 / WIDTH)
#define ROWS 4

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void gemm_integers(__global const T *a, ulong a_offset, __global const T *b, ulong b_offset, __global T *c,
                            ulong c_offset, long m, long k, long rows, long a_batch, long a_row, long b_batch,
                            long b_row, long c_batch, long c_row) {
  const long batch = get_group_id(2), column = get_group_id(0) * 32, first = get_group_id(1) * rows;
  const long last = min(first + rows, m);
  a = (__global const T *)((__global const char *)a + a_offset) + batch * a_batch;
  b = (__global const T *)((__global const char *)b + b_offset) + batch * b_batch + column;
  c = (__global T *)((__global char *)c + c_offset) + batch * c_batch + column;
  for (long row = first; row < last; row += ROWS) {
    VECTOR sums[ROWS][VECTORS];
    __global const T *line[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      line[r] = a + min(row + r, m - 1) * a_row;
#pragma unroll
      for (int v = 0; v < VECTORS; v++) sums[r][v] = 0;
    }
    for (long i = 0; i < k; i++) {
      VECTOR values[VECTORS];
#pragma unroll
      for (int v = 0; v < VECTORS; v++) values[v] = LOAD_VECTOR(v, b + i * b_row);
#pragma unroll
      for (int r = 0; r < ROWS; r++) {
        const VECTOR factor = line[r][i];
#pragma unroll
        for (int v = 0; v < VECTORS; v++) sums[r][v] += factor * values[v];
      }
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
      for (int v = 0; v < VECTORS; v++)
        if (row + r < last) STORE_VECTOR(sums[r][v], v, c + (row + r) * c_row);
  }
}
