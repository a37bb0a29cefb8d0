// SPDX-License-Identifier: MIT
// Numbering the elements that are not zero: chunks are counted, the counts summed, and each chunk emits its elements.
// The host defines T (tag of the mask), GROUP, CHUNK (a multiple of GROUP), and for emit one of
//   COORDINATES with DIMS, SELECT, SCATTER (both with UNIT), RANKS
#include "lib/types.clh"

#define MARKED(s) IS_SET(DECODE(T, s))

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void count_chunks(CONST_GLOBAL(STORAGE(T), mask), GLOBAL(long, starts), ulong n) {
  __local int counts[GROUP];
  const ulong begin = (ulong)get_group_id(0) * CHUNK, end = min(begin + CHUNK, n);
  const int item = get_local_id(0);
  int count = 0;
  for (ulong i = begin + item; i < end; i += GROUP) count += MARKED(CONST_POINTER(STORAGE(T), mask)[i]);
  counts[item] = count;
  for (int step = GROUP / 2; step > 0; step /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item < step) counts[item] += counts[item + step];
  }
  if (item == 0) POINTER(long, starts)[get_group_id(0)] = counts[0];
}

// Sums before each item of the group; returns the item's and sets `total`.
inline long scan_group(long value, __local long *sums, long *total) {
  const int item = get_local_id(0);
  barrier(CLK_LOCAL_MEM_FENCE);
  sums[item] = value;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int step = 1; step < GROUP; step *= 2) {
    const long before = item >= step ? sums[item - step] : 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    sums[item] += before;
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  *total = sums[GROUP - 1];
  return sums[item] - value;
}

// One work-group turns counts into starts; the total goes behind them.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void scan_chunks(GLOBAL(long, starts), ulong chunks) {
  __local long sums[GROUP];
  __global long *starts = POINTER(long, starts);
  long before = 0, total;
  for (ulong base = 0; base < chunks; base += GROUP) {
    const ulong at = base + get_local_id(0);
    const long sum = scan_group(at < chunks ? starts[at] : 0, sums, &total);
    if (at < chunks) starts[at] = before + sum;
    before += total;
  }
  if (get_local_id(0) == 0) starts[chunks] = before;
}

#if defined(COORDINATES) || defined(SELECT) || defined(SCATTER) || defined(RANKS)
typedef struct {
  long row_stride, column_stride;  // of the coordinates
  ulong n;
  long limit;
  int code, unused;
#ifdef COORDINATES
  long sizes[DIMS];  // of the mask, slowest first
#endif
} Parameters;

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void emit(CONST_GLOBAL(STORAGE(T), mask), CONST_GLOBAL(long, starts), GLOBAL(void, out),
                   CONST_GLOBAL(void, source), GLOBAL(int, status), Parameters p) {
  __local long sums[GROUP];
  const ulong begin = (ulong)get_group_id(0) * CHUNK, end = min(begin + CHUNK, p.n);
  long before = CONST_POINTER(long, starts)[get_group_id(0)], total;
  for (ulong base = begin; base < end; base += GROUP) {
    const ulong i = base + get_local_id(0);
    const bool marked = i < end && MARKED(CONST_POINTER(STORAGE(T), mask)[i]);
    const long rank = before + scan_group(marked, sums, &total);
    before += total;
#ifdef RANKS
    if (i < end) POINTER(long, out)[i] = rank + marked;
#elif defined(SCATTER)
    if (marked) {
      if (rank < p.limit) POINTER(UNIT, out)[i] = CONST_POINTER(UNIT, source)[rank];
      else REPORT(POINTER(int, status), p.code, rank);
    }
#elif defined(SELECT)
    if (marked && rank < p.limit) POINTER(UNIT, out)[rank] = CONST_POINTER(UNIT, source)[i];
#else
    if (marked && rank < p.limit) {
      ulong rest = i;
      for (int d = DIMS - 1; d >= 0; d--) {
        POINTER(long, out)[rank * p.row_stride + d * p.column_stride] = (long)(rest % (ulong)p.sizes[d]);
        rest /= (ulong)p.sizes[d];
      }
    }
#endif
  }
}
#endif
