// SPDX-License-Identifier: MIT
// Bags of embedding rows, one work-item a bag and column. The host defines T and INDEX (tags), MODE (0 sum, 1 mean,
// 2 max), WEIGHTED when rows have weights.
#include "lib/types.clh"

__kernel void embedding_bag(CONST_GLOBAL(STORAGE(T), weight), CONST_GLOBAL(STORAGE(INDEX), indices),
                            CONST_GLOBAL(STORAGE(INDEX), offsets), CONST_GLOBAL(STORAGE(T), sample_weights),
                            GLOBAL(STORAGE(T), out), GLOBAL(STORAGE(INDEX), sizes), GLOBAL(STORAGE(INDEX), maxima),
                            GLOBAL(int, status), int code, long rows, long columns, long bags, long n, long padding) {
  const long column = get_global_id(0), bag = get_global_id(1);
  if (column >= columns || bag >= bags) return;
  __global const STORAGE(INDEX) *indices = CONST_POINTER(STORAGE(INDEX), indices);
  __global const STORAGE(INDEX) *offsets = CONST_POINTER(STORAGE(INDEX), offsets);
  const long begin = clamp((long)offsets[bag], 0L, n);
  const long end = bag + 1 < bags ? clamp((long)offsets[bag + 1], 0L, n) : n;
  VALUE(T) result = 0;
  long count = 0, largest = 0;
  for (long i = begin; i < end; i++) {
    const long row = indices[i];
    if (row == padding) continue;
    if (row < 0 || row >= rows) {
      REPORT(POINTER(int, status), code, row);
      continue;
    }
    VALUE(T) value = LOAD(T, CONST_POINTER(STORAGE(T), weight), row * columns + column);
#if MODE == 2
    if (count == 0 || value > result || value != value) {
      result = value;
      largest = row;
    }
#else
#ifdef WEIGHTED
    value *= LOAD(T, CONST_POINTER(STORAGE(T), sample_weights), i);
#endif
    result += value;
#endif
    count++;
  }
#if MODE == 1
  if (count > 0) result /= (VALUE(T))count;
#elif MODE == 2
  POINTER(STORAGE(INDEX), maxima)[bag * columns + column] = (STORAGE(INDEX))largest;
#endif
  STORE(T, POINTER(STORAGE(T), out), bag * columns + column, result);
  if (column == 0) POINTER(STORAGE(INDEX), sizes)[bag] = (STORAGE(INDEX))count;
}
