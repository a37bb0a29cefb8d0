// SPDX-License-Identifier: MIT
// One elementwise operation over many tensors. The host defines
//   LISTS, TENSORS, SCALARS, TENSOR_SCALARS   sizes of the tables
//   CHUNK                                     elements a work-group handles
//   S                                         type of scalars
//   BROADCASTS, ONCE, LOADS, EACH, STORES     statements; `i` is the element, ARG(k) the address of list k
#include "lib/types.clh"

typedef struct {
  ulong address[LISTS][TENSORS];  // buffer number in the top 8 bits, byte offset below
  ulong size[TENSORS];
  S tensor_scalar[TENSOR_SCALARS][TENSORS];
  uint chunk_end[TENSORS];  // chunks of this and all earlier tensors
  uint tensors;
} Table;

typedef struct {
  S value[SCALARS];
} Scalars;

__kernel void foreach(GLOBAL(char, b0), GLOBAL(char, b1), GLOBAL(char, b2), GLOBAL(char, b3), GLOBAL(char, b4),
                      GLOBAL(char, b5), GLOBAL(char, b6), GLOBAL(char, b7), Table table, Scalars scalars) {
  const uint chunk = get_group_id(0);
  uint tensor = 0;
  while (chunk >= table.chunk_end[tensor]) tensor++;
  const uint first_chunk = tensor == 0 ? 0 : table.chunk_end[tensor - 1];
  const ulong begin = (ulong)(chunk - first_chunk) * CHUNK;
  const ulong end = min(begin + CHUNK, table.size[tensor]);

  __global char *address[LISTS];
#pragma unroll
  for (int list = 0; list < LISTS; list++) {
    const ulong packed = table.address[list][tensor];
    __global char *base;
    switch ((uint)(packed >> 56)) {
      case 0: base = b0_memory; break;
      case 1: base = b1_memory; break;
      case 2: base = b2_memory; break;
      case 3: base = b3_memory; break;
      case 4: base = b4_memory; break;
      case 5: base = b5_memory; break;
      case 6: base = b6_memory; break;
      default: base = b7_memory; break;
    }
    address[list] = base + (packed & 0xffffffffffffffUL);
  }
#define ARG(k) address[k]
  BROADCASTS
  ONCE
  for (ulong i = begin + get_local_id(0); i < end; i += get_local_size(0)) {
    LOADS
    EACH
    STORES
  }
}
