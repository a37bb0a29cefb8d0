// SPDX-License-Identifier: MIT
// Packs an operand of gemm_wgmma: x [rows, k] with strides becomes y [tile][slab][part][2][ROWS][16 bytes], slabs of 32
// bytes along k, zeros where x ends. The host also defines
//   ROWS      rows of a tile
//   BYTES     2 or 4, of an element
//   PARTS     float32 only. 1: elements are rounded to tf32; 2: split into two tf32 numbers, the large one first
//   ALONG_K   work-items side by side go along k (x_k is 1), else along the rows
//   VECTOR    along k, chunks of 16 bytes are whole and aligned
#include "lib/types.clh"
#include "lib/nvidia.clh"

#define CHUNK (16 / BYTES)
#if BYTES == 4
typedef uint Element;
typedef uint4 Chunk;
#else
typedef ushort Element;
typedef ushort8 Chunk;
#endif

// x and y count elements, chunks and padded_rows are those of y.
__kernel void gemm_pack(CONST_GLOBAL(Element, x), GLOBAL(Element, y), const long rows, const long k,
                        const long padded_rows, const long chunks, const long x_batch, const long x_r, const long x_k) {
  const long row = get_global_id(ALONG_K ? 1 : 0), chunk = get_global_id(ALONG_K ? 0 : 1), batch = get_global_id(2);
  if (row >= padded_rows || chunk >= chunks) return;
  __global const Element *X = CONST_POINTER(Element, x) + batch * x_batch + row * x_r + CHUNK * chunk * x_k;
  Chunk value = 0;
  if (row < rows) {
#if VECTOR
    if (CHUNK * chunk < k) value = *(__global const Chunk *)X;
#else
    Element v[CHUNK];
    for (int i = 0; i < CHUNK; i++) v[i] = CHUNK * chunk + i < k ? X[i * x_k] : 0;
#if BYTES == 4
    value = (Chunk)(v[0], v[1], v[2], v[3]);
#else
    value = (Chunk)(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]);
#endif
#endif
  }
  const long before = (batch * padded_rows + row / ROWS * ROWS) * chunks;
  __global Chunk *Y = (__global Chunk *)POINTER(Element, y) + PARTS * (before + chunk / 2 * 2 * ROWS) + row % ROWS;
#if BYTES == 4 && PARTS == 1
  value = round_tf32(value);
#elif BYTES == 4
  Y[(2 + chunk % 2) * ROWS] = small_part(value);
  value = big_part(value);
#endif
  Y[chunk % 2 * ROWS] = value;
}
