// SPDX-License-Identifier: MIT
// Counts how often numbers occur, or values fall in bins of equal width. A work-group counts in local memory: BINS
// counters, COPIES of each, so that work-items next to each other do not wait for one counter. ALONE, for CPUs: groups
// of one work-item count without atomics, a share of the elements each, and find the bins of some in vectors.
// count_values: defines T, FLOATING.
#include "lib/types.clh"
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable

#if ALONE
typedef int place_t;  // conversions to 64 bits are slow, and no vectors
#define SYNC
#define OF_ONE __attribute__((reqd_work_group_size(1, 1, 1)))
#define AHEAD 16
#define EACH_OF_SHARE                                                                                          \
  const long share_ = (n / AHEAD / (long)get_num_groups(0) + 1) * AHEAD, from_ = (long)get_group_id(0) * share_; \
  for (long first = from_, end = min(from_ + share_, n); first < end; first += AHEAD)
// Counts in bins[0 .. count), each below 0 nowhere.
inline void count_all(__local uint *own, const int *bins, int count) {
  for (int i = 0; i < count; i++)
    if (bins[i] >= 0) own[bins[i] * COPIES + i % COPIES]++;
}
#else
typedef long place_t;
#define SYNC barrier(CLK_LOCAL_MEM_FENCE);
#define OF_ONE
#define AHEAD 4
#endif
#define COUNTER(own, bin) ((own) + (bin) * COPIES + get_local_id(0) % COPIES)

inline void clear_counters(__local uint *own) {
  for (uint i = get_local_id(0); i < BINS * COPIES; i += get_local_size(0)) own[i] = 0;
  SYNC
}

inline void add_counters(const __local uint *own, volatile __global long *counts, uint bins) {
  SYNC
  for (uint b = get_local_id(0); b < bins; b += get_local_size(0)) {
    uint sum = 0;
    for (uint copy = 0; copy < COPIES; copy++) sum += own[b * COPIES + (copy + b) % COPIES];
    if (sum) atom_add(counts + b, (long)sum);
  }
}

#ifndef T
__kernel OF_ONE void count_bins(GLOBAL(long, counts), CONST_GLOBAL(long, numbers), long n, long bins) {
  __local uint own[BINS * COPIES];
  __global const long *in = CONST_POINTER(long, numbers);
  clear_counters(own);
#if ALONE
  EACH_OF_SHARE {
    const int count = (int)min((long)AHEAD, end - first);
    int chosen[AHEAD];
    for (int i = 0; i < count; i++) {
      const long number = in[first + i];
      chosen[i] = number >= 0 && number < bins ? (int)number : -1;
    }
    count_all(own, chosen, count);
  }
#else
  const uint group = get_local_size(0);
  const long step = (long)get_num_groups(0) * group * AHEAD;
  for (long first = (long)get_group_id(0) * group * AHEAD + get_local_id(0); first < n; first += step) {
    long number[AHEAD];
#pragma unroll
    for (int i = 0; i < AHEAD; i++) number[i] = first + i * group < n ? in[first + i * group] : -1;
#pragma unroll
    for (int i = 0; i < AHEAD; i++)
      if (number[i] >= 0 && number[i] < bins) atomic_inc(COUNTER(own, number[i]));
  }
#endif
  add_counters(own, POINTER(long, counts), (uint)bins);
}
#else

#if FLOATING
typedef VALUE(T) bound;
#define BOUND(argument) ROUNDED(argument)
#define ROUNDED(v) DECODE(T, ENCODE(T, (bound)(v)))
#else
typedef long bound;
#define BOUND(argument) (argument)
#define FEWER_BITS 14  // than 64 for products by a number of bins
#endif

// The bin of a value within the bounds, `span` apart. Floats are rounded to their type at every step, as PyTorch does.
inline place_t bin_of(bound value, bound low, bound span, uint bins) {
#if FLOATING
  const bound position = ROUNDED(ROUNDED(ROUNDED(value - low) * (bound)bins) / span);
  return position < (bound)bins ? (place_t)position : (place_t)bins - 1;
#else
  ulong from_low = (ulong)value - (ulong)low, whole = (ulong)span;
  if (from_low >> (64 - FEWER_BITS)) from_low >>= FEWER_BITS, whole >>= FEWER_BITS;
  const ulong scaled = from_low * bins;
  const bool narrow = scaled <= UINT_MAX && whole <= UINT_MAX;
  return min(narrow ? (ulong)((uint)scaled / (uint)whole) : scaled / whole, (ulong)bins - 1);
#endif
}

__kernel OF_ONE void count_values(GLOBAL(long, counts), CONST_GLOBAL(STORAGE(T), values), long n, uint bins,
                                  bound lowest, bound highest) {
  __local uint own[BINS * COPIES];
  __global const STORAGE(T) *in = CONST_POINTER(STORAGE(T), values);
  const bound low = BOUND(lowest), high = BOUND(highest);
#if FLOATING
  const bound span = ROUNDED(high - low);
#else
  const bound span = (bound)((ulong)high - (ulong)low);
#endif
  clear_counters(own);
#if ALONE
  EACH_OF_SHARE {
    const int count = (int)min((long)AHEAD, end - first);
    int chosen[AHEAD];
    for (int i = 0; i < count; i++) {
      const bound value = (bound)LOAD(T, in, first + i);
      chosen[i] = value >= low && value <= high ? (int)bin_of(value, low, span, bins) : -1;
    }
    count_all(own, chosen, count);
  }
#else
  const uint group = get_local_size(0);
  const long step = (long)get_num_groups(0) * group * AHEAD;
  for (long first = (long)get_group_id(0) * group * AHEAD + get_local_id(0); first < n; first += step) {
    bound value[AHEAD];
#pragma unroll
    for (int i = 0; i < AHEAD; i++) value[i] = (bound)LOAD(T, in, min(first + i * group, n - 1));
#pragma unroll
    for (int i = 0; i < AHEAD; i++) {
      if (first + i * group >= n || !(value[i] >= low && value[i] <= high)) continue;
      atomic_inc(COUNTER(own, bin_of(value[i], low, span, bins)));
    }
  }
#endif
  add_counters(own, POINTER(long, counts), bins);
}
#endif
