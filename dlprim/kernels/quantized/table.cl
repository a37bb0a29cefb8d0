// SPDX-License-Identifier: MIT
// Each byte's entry of a table. A work-item takes `share` bytes, a multiple of 8, whose entries it writes eight at
// once.
#include "lib/types.clh"

__kernel void byte_table(CONST_GLOBAL(uchar, x), CONST_GLOBAL(uchar, table), GLOBAL(uchar, y), const ulong count,
                         const ulong share) {
  __global const uchar *from = CONST_POINTER(uchar, x), *entries = CONST_POINTER(uchar, table);
  __global uchar *to = POINTER(uchar, y);
  const ulong begin = global_id() * share, end = min(begin + share, count);
  ulong i = begin;
  for (; i + 8 <= end; i += 8) {
    const uchar8 v = vload8(0, from + i);
    vstore8((uchar8)(entries[v.s0], entries[v.s1], entries[v.s2], entries[v.s3], entries[v.s4], entries[v.s5],
                     entries[v.s6], entries[v.s7]),
            0, to + i);
  }
  for (; i < end; i++) to[i] = entries[from[i]];
}
