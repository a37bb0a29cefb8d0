// SPDX-License-Identifier: MIT
// One elementwise operation over many tensors. The host defines
//   LISTS, TENSORS, SCALARS, TENSOR_SCALARS   sizes of the tables
//   CHUNK, UNROLL       elements a work-group handles, and those a work-item has in flight; 1: on CPUs, where a
//                       work-group is one work-item whose loop the compiler turns into vectors
//   INDEPENDENT         no work-item touches what another does
//   S                   type of scalars
//   BUFFERS             parameters b0.., each followed by a comma; BUFFER_CASES sets `base` to one of them by number
//   POINTERS            p0.. from address[], those of lists with elements moved on by `begin`
//   BROADCASTS          values and statements of a tensor
//   VALUES, LOADS       arrays v0[UNROLL].., and v0[u].. from element i
//   EACH, STORES        x0.. of v0[u].., computed and stored to element i
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

#if UNROLL == 1
__attribute__((reqd_work_group_size(1, 1, 1)))
#endif
__kernel void foreach(BUFFERS Table table, Scalars scalars) {
  const uint chunk = get_group_id(0), stride = get_local_size(0);
  uint tensor = 0, last = table.tensors - 1;
  while (tensor < last) {
    const uint middle = (tensor + last) / 2;
    if (chunk < table.chunk_end[middle]) last = middle;
    else tensor = middle + 1;
  }
  const uint first_chunk = tensor == 0 ? 0 : table.chunk_end[tensor - 1];
  const ulong begin = (ulong)(chunk - first_chunk) * CHUNK;
  const uint elements = (uint)min(table.size[tensor] - begin, (ulong)CHUNK);

  __global char *address[LISTS];
#pragma unroll
  for (int list = 0; list < LISTS; list++) {
    const ulong packed = table.address[list][tensor];
    __global char *base = 0;
    switch ((uint)(packed >> 56)) { BUFFER_CASES }
    address[list] = base + (packed & 0xffffffffffffffUL);
  }
  POINTERS
  BROADCASTS
#if UNROLL == 1
#if INDEPENDENT
#pragma clang loop vectorize(assume_safety)
#endif
  for (uint i = 0; i < elements; i++) {
    VALUES
    const int u = 0;
    LOADS
    EACH
    STORES
  }
#else
  for (uint first = get_local_id(0); first < elements; first += UNROLL * stride) {
    VALUES
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
      const uint i = min(first + u * stride, elements - 1);
      LOADS
    }
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
      const uint i = first + u * stride;
      if (i < elements) {
        EACH
        STORES
      }
    }
  }
#endif
}
