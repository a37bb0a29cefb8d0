// SPDX-License-Identifier: MIT
// Copies x [rows, columns] with any strides, in elements, to y, whose rows begin `pitch` elements apart, a multiple of 16
// bytes; what lies between them is not defined. The host also defines
//   BYTES         1, 2 or 4, of an element
//   ALONG_ROWS    work-items side by side go along the rows' numbers (x_row is 1), else along columns
#include "lib/types.clh"

#define CHUNK (16 / BYTES)
#if BYTES == 4
typedef uint Element;
typedef uint4 Chunk;
#elif BYTES == 2
typedef ushort Element;
typedef ushort8 Chunk;
#else
typedef uchar Element;
typedef uchar16 Chunk;
#endif

__kernel void gemm_align(CONST_GLOBAL(Element, x), GLOBAL(Element, y), const long rows, const long columns,
                         const long pitch, const long x_batch, const long x_row, const long x_column) {
  const long row = get_global_id(ALONG_ROWS ? 0 : 1), column = CHUNK * (long)get_global_id(ALONG_ROWS ? 1 : 0);
  const long batch = get_global_id(2);
  if (row >= rows || column >= columns) return;
  __global const Element *X = CONST_POINTER(Element, x) + batch * x_batch + row * x_row;
  Element v[CHUNK];
#pragma unroll
  for (int i = 0; i < CHUNK; i++) v[i] = X[min(column + i, columns - 1) * x_column];
  __global Chunk *to = (__global Chunk *)(POINTER(Element, y) + (batch * rows + row) * pitch + column);
#if BYTES == 4
  *to = (Chunk)(v[0], v[1], v[2], v[3]);
#elif BYTES == 2
  *to = (Chunk)(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]);
#else
  *to = (Chunk)(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13], v[14], v[15]);
#endif
}
