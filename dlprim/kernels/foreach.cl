// SPDX-License-Identifier: MIT
// One elementwise operation over many tensors. The host defines the table (lib/foreach.clh) and
//   SCALARS             their number at most
//   UNROLL              elements a work-item has in flight; 1: on CPUs, where a work-group is one work-item whose loop
//                       the compiler turns into vectors
//   POINTERS            p0.. from address[], those of lists with elements moved on by `begin`
//   BROADCASTS          values and statements of a tensor
//   VALUES, LOADS       arrays v0[UNROLL].., and v0[u].. from element i
//   EACH, STORES        x0.. of v0[u].., computed and stored to element i
//   PACKED              elements i to i + 3 of every list lie as one vector: PACK_LOADS all v0.. from there, KEEP x0.. in
//                       v0[u].., PACK_STORES all v0.. there
//   ROWS, COMPUTE..     EACH calls the functions of pointwise rows
#include "lib/foreach.clh"
#if PACKED
#define PACK 4
#include "lib/packs.clh"
#endif
#ifdef ROWS
#include "lib/activations.clh"
#include "lib/math.clh"
#endif

typedef struct {
  S value[SCALARS];
} Scalars;

#if UNROLL == 1
__attribute__((reqd_work_group_size(1, 1, 1)))
#endif
__kernel void foreach(BUFFERS Table table, Scalars scalars) {
  BEGIN_CHUNK
  const uint stride = get_local_size(0);
  POINTERS
  BROADCASTS
#if UNROLL == 1
#pragma clang loop vectorize(assume_safety)
  for (uint i = 0; i < elements; i++) {
    VALUES
    const int u = 0;
    LOADS
    EACH
    STORES
  }
#elif PACKED
  for (uint i = 4 * get_local_id(0); i + 4 <= elements; i += 4 * stride) {
    VALUES
    PACK_LOADS
#pragma unroll
    for (int u = 0; u < 4; u++) {
      EACH
      KEEP
    }
    PACK_STORES
  }
  for (uint i = elements / 4 * 4 + get_local_id(0); i < elements; i += stride) {
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
