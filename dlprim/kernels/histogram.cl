// SPDX-License-Identifier: MIT
// Counts how often numbers occur. Defines: BINS of local memory.
#include "lib/types.clh"
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable

#define AHEAD 4

__kernel void count_bins(GLOBAL(long, counts), CONST_GLOBAL(long, numbers), long n, long bins) {
  __local uint own[BINS];
  volatile __global long *out = POINTER(long, counts);
  __global const long *in = CONST_POINTER(long, numbers);
  const uint group = get_local_size(0);
  for (uint b = get_local_id(0); b < BINS; b += group) own[b] = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  const long step = (long)get_num_groups(0) * group * AHEAD;
  for (long first = (long)get_group_id(0) * group * AHEAD + get_local_id(0); first < n; first += step) {
    long number[AHEAD];
#pragma unroll
    for (int i = 0; i < AHEAD; i++) number[i] = first + i * group < n ? in[first + i * group] : -1;
#pragma unroll
    for (int i = 0; i < AHEAD; i++)
      if (number[i] >= 0 && number[i] < bins) atomic_inc(own + number[i]);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint b = get_local_id(0); b < (uint)bins; b += group)
    if (own[b]) atom_add(out + b, (long)own[b]);
}
