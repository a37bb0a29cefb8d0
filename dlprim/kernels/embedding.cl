// SPDX-License-Identifier: MIT
// Bags of embedding rows, one work-item a bag and column, or LINES: whole bags, for CPUs. The host defines T and INDEX
// (tags), MODE (0 sum, 1 mean, 2 max), WEIGHTED when rows have weights; for LINES, VECTOR of 16 values.
#include "lib/types.clh"

#ifdef LINES
#include "lib/vectors.clh"

// The rows of a bag's part of `indices`, from `weight` on: those that are padding or out of range do not count.
#define EACH_ROW(i, begin, end, row) \
  for (long i = begin, row; i < end && (row = indices[i], true); i++) \
    if (row != padding && row >= 0 && row < rows)
#ifdef WEIGHTED
#define FACTOR(i) *LOAD(T, sample_weights, i)
#else
#define FACTOR(i)
#endif

// Elements of a bag from `column` on: W vectors.
#define EACH_VECTOR(W, k) _Pragma("unroll") for (int k = 0; k < W; k++)
#define ADD_UP(W)                                                                                             \
  do {                                                                                                        \
    VECTOR sums[W];                                                                                           \
    EACH_VECTOR(W, k) sums[k] = 0;                                                                            \
    EACH_ROW(i, begin, end, row) {                                                                            \
      __global const STORAGE(T) *weight = CONST_POINTER(STORAGE(T), weight_data) + row * columns + column;    \
      EACH_VECTOR(W, k) sums[k] += LOAD16(T, weight + k * 16) FACTOR(i);                                      \
    }                                                                                                         \
    EACH_VECTOR(W, k) vstore16(ENCODE16(T, sums[k] / scale), k, out + column);                                \
  } while (0)

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void embedding_bag(CONST_GLOBAL(STORAGE(T), weight_data), CONST_GLOBAL(STORAGE(INDEX), indices_data),
                            CONST_GLOBAL(STORAGE(INDEX), offsets_data),
                            CONST_GLOBAL(STORAGE(T), sample_weights_data), GLOBAL(STORAGE(T), out_data),
                            GLOBAL(STORAGE(INDEX), sizes), GLOBAL(STORAGE(INDEX), maxima), GLOBAL(int, status), int code,
                            long rows, long columns, long bags, long n, long padding) {
  __global const STORAGE(INDEX) *indices = CONST_POINTER(STORAGE(INDEX), indices_data);
  __global const STORAGE(INDEX) *offsets = CONST_POINTER(STORAGE(INDEX), offsets_data);
  __global const STORAGE(T) *sample_weights = CONST_POINTER(STORAGE(T), sample_weights_data);
  const long share = (bags - 1) / (long)get_num_groups(0) + 1, first = (long)get_group_id(0) * share;
  for (long bag = first; bag < min(first + share, bags); bag++) {
    const long begin = clamp((long)offsets[bag], 0L, n);
    const long end = bag + 1 < bags ? clamp((long)offsets[bag + 1], 0L, n) : n;
    long count = 0;
    for (long i = begin; i < end; i++) {
      const long row = indices[i];
      if (row == padding) continue;
      if (row < 0 || row >= rows) REPORT(POINTER(int, status), code, row);
      else count++;
    }
    const VALUE(T) scale = MODE == 1 && count > 0 ? (VALUE(T))count : (VALUE(T))1;
    __global STORAGE(T) *out = POINTER(STORAGE(T), out_data) + bag * columns;
    long column = 0;
    for (; column + 64 <= columns; column += 64) ADD_UP(4);
    for (; column + 32 <= columns; column += 32) ADD_UP(2);
    for (; column + 16 <= columns; column += 16) ADD_UP(1);
    if (column < columns) {
      VALUE(T) sums[16] = {0};
      const int rest = (int)(columns - column);
      EACH_ROW(i, begin, end, row) {
        __global const STORAGE(T) *weight = CONST_POINTER(STORAGE(T), weight_data) + row * columns + column;
        for (int k = 0; k < rest; k++) sums[k] += LOAD(T, weight, k) FACTOR(i);
      }
      for (int k = 0; k < rest; k++) STORE(T, out, column + k, sums[k] / scale);
    }
    POINTER(STORAGE(INDEX), sizes)[bag] = (STORAGE(INDEX))count;
  }
}
#else
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
#endif
