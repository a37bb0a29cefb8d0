// SPDX-License-Identifier: MIT
// Reads and writes at positions given by index tensors. The host defines
//   DIMS, INDICES, INDEX   loop dimensions, index tensors and their tag
//   UNIT                   type of the bytes moved as they are (reads, assignments), or
//   TO, FROM, BYTES        tags and size of the destination's elements, COMBINE(a, b) and CAST(v), for updates, or
//   POSITIONS              for where elements go instead of what they are
#include "lib/indexing.clh"
#include "lib/types.clh"
#include "lib/atomics.clh"

#ifdef DIMS
typedef struct {
  long size[INDICES], step[INDICES];  // of the addressed dimensions
  long ignore, origin;                // origin: of the addressed tensor's first element, for POSITIONS
  int dense[DIMS], base[DIMS];        // strides of the dense tensor and of the addressed one
  int index[INDICES][DIMS];
  Divider sizes[DIMS];
  uint count;
  int flags, code;  // WRAP, IGNORE
} Parameters;

#define WRAP 1
#define IGNORE 2
#define IGNORED (-2L)

// Positions of element i; the addressed one is negative where there is none: IGNORED, or -1 and reported.
inline void locate(uint i, const Parameters *p, __global const STORAGE(INDEX) *const *indices, long *dense,
                   long *addressed, __global int *status) {
  uint coordinate[DIMS];
#pragma unroll
  for (int d = 0; d < DIMS - 1; d++) i = divide_rest(i, p->sizes[d], &coordinate[d]);
  coordinate[DIMS - 1] = i;
  long from = 0, to = 0;
#pragma unroll
  for (int d = 0; d < DIMS; d++) {
    from += (long)coordinate[d] * p->dense[d];
    to += (long)coordinate[d] * p->base[d];
  }
  *dense = from;
#pragma unroll
  for (int k = 0; k < INDICES; k++) {
    long at = 0;
#pragma unroll
    for (int d = 0; d < DIMS; d++) at += (long)coordinate[d] * p->index[k][d];
    long index = indices[k][at];
    if (k == 0 && (p->flags & IGNORE) && index == p->ignore) {
      *addressed = IGNORED;
      return;
    }
    const long wrapped = (p->flags & WRAP) && index < 0 ? index + p->size[k] : index;
    if (wrapped < 0 || wrapped >= p->size[k]) {
      REPORT(status, p->code, index);
      *addressed = -1;
      return;
    }
    to += wrapped * p->step[k];
  }
  *addressed = to;
}

__kernel void read(GLOBAL(void, out), CONST_GLOBAL(void, source), GLOBAL(int, status), Parameters p, INDEX_PARAMETERS) {
#if defined(UNIT) || defined(POSITIONS)
  const uint i = get_global_id(0);
  if (i >= p.count) return;
  __global const STORAGE(INDEX) *indices[INDICES] = {INDEX_POINTERS};
  long dense, addressed;
  locate(i, &p, indices, &dense, &addressed, POINTER(int, status));
#ifdef POSITIONS
  POINTER(long, out)[dense] = addressed < 0 ? -1 : p.origin + addressed;
#else
  if (addressed == IGNORED) return;
  POINTER(UNIT, out)[dense] = addressed < 0 ? (UNIT)(0) : CONST_POINTER(UNIT, source)[addressed];
#endif
#endif
}

__kernel void write(GLOBAL(void, destination), CONST_GLOBAL(void, values), GLOBAL(int, status), Parameters p,
                    INDEX_PARAMETERS) {
  const uint i = get_global_id(0);
  if (i >= p.count) return;
  __global const STORAGE(INDEX) *indices[INDICES] = {INDEX_POINTERS};
  long dense, addressed;
  locate(i, &p, indices, &dense, &addressed, POINTER(int, status));
  if (addressed < 0) return;
#if defined(UNIT)
  POINTER(UNIT, destination)[addressed] = CONST_POINTER(UNIT, values)[dense];
#elif defined(TO)
  __global STORAGE(TO) *to = POINTER(STORAGE(TO), destination) + addressed;
  const VALUE(FROM) given = LOAD(FROM, CONST_POINTER(STORAGE(FROM), values), dense);
  const VALUE(TO) value = CAST(given);
#ifdef ADD_F32
  add_f32((__global float *)to, value);
#else
  UPDATE(TO, BYTES, to, value);
#endif
#endif
}
#endif  // DIMS

#ifdef ORDERED
// One work-item a run of equal positions; `order` sorts them. Negative positions are no places.
__kernel void ordered_write(GLOBAL(STORAGE(TO), destination), CONST_GLOBAL(STORAGE(TO), values),
                            CONST_GLOBAL(long, positions), CONST_GLOBAL(long, order), ulong count) {
  const ulong first = global_id();
  if (first >= count) return;
  __global const long *positions = CONST_POINTER(long, positions), *order = CONST_POINTER(long, order);
  const long position = positions[order[first]];
  if (position < 0 || (first > 0 && positions[order[first - 1]] == position)) return;
  __global STORAGE(TO) *to = POINTER(STORAGE(TO), destination) + position;
  __global const STORAGE(TO) *values = CONST_POINTER(STORAGE(TO), values);
  ulong i = first;
#ifdef ASSIGN
  while (i + 1 < count && positions[order[i + 1]] == position) i++;
  *to = values[order[i]];
#else
  ACC(TO) result = TO_ACC(DECODE(TO, *to));
  for (; i < count && positions[order[i]] == position; i++) {
    const ACC(TO) value = TO_ACC(DECODE(TO, values[order[i]]));
    result = COMBINE(result, value);
  }
  *to = ENCODE(TO, FROM_ACC(result));
#endif
}
#endif
