// SPDX-License-Identifier: MIT
// Reads and writes at positions given by index tensors. The host defines
//   DIMS, INDICES, INDEX   loop dimensions, index tensors and their tag
//   UNIT                   type of the bytes moved as they are (reads, assignments), or
//   TO, FROM, BYTES        tags and size of the destination's elements, COMBINE(a, b) and CAST(v), for updates
#include "lib/indexing.clh"
#include "lib/types.clh"
#include "lib/atomics.clh"

#ifdef DIMS
typedef struct {
  long size[INDICES], step[INDICES];  // of the addressed dimensions
  long ignore;
  int dense[DIMS], base[DIMS];        // strides of the dense tensor and of the addressed one
  int index[INDICES][DIMS];
  Divider sizes[DIMS];
  uint count;
  int wrap, code;
} Parameters;

// Positions of element i; the addressed one is -1 where there is nothing to do.
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
  bool valid = true;
#pragma unroll
  for (int k = 0; k < INDICES; k++) {
    long at = 0;
#pragma unroll
    for (int d = 0; d < DIMS; d++) at += (long)coordinate[d] * p->index[k][d];
    long index = indices[k][at];
    if (k == 0 && index == p->ignore) {
      valid = false;
      break;
    }
    const long wrapped = p->wrap && index < 0 ? index + p->size[k] : index;
    if (wrapped < 0 || wrapped >= p->size[k]) {
      REPORT(status, p->code, index);
      valid = false;
      break;
    }
    to += wrapped * p->step[k];
  }
  *dense = from;
  *addressed = valid ? to : -1;
}

__kernel void read(GLOBAL(void, out), CONST_GLOBAL(void, source), GLOBAL(int, status), Parameters p, INDEX_PARAMETERS) {
#ifdef UNIT
  const uint i = get_global_id(0);
  if (i >= p.count) return;
  __global const STORAGE(INDEX) *indices[INDICES] = {INDEX_POINTERS};
  long dense, addressed;
  locate(i, &p, indices, &dense, &addressed, POINTER(int, status));
  if (addressed >= 0) POINTER(UNIT, out)[dense] = CONST_POINTER(UNIT, source)[addressed];
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
#ifdef UNIT
  POINTER(UNIT, destination)[addressed] = CONST_POINTER(UNIT, values)[dense];
#else
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
// One work-item a run of equal rows.
__kernel void ordered_write(GLOBAL(STORAGE(TO), destination), CONST_GLOBAL(STORAGE(FROM), values),
                            CONST_GLOBAL(long, rows), CONST_GLOBAL(long, order), ulong count) {
  const ulong first = global_id();
  if (first >= count) return;
  __global const long *rows = CONST_POINTER(long, rows), *order = CONST_POINTER(long, order);
  const long row = rows[first];
  if (first > 0 && rows[first - 1] == row) return;
  __global STORAGE(TO) *to = POINTER(STORAGE(TO), destination) + row;
  __global const STORAGE(FROM) *values = CONST_POINTER(STORAGE(FROM), values);
  ulong i = first;
#ifdef ASSIGN
  while (i + 1 < count && rows[i + 1] == row) i++;
  *to = values[order[i]];
#else
  ACC(TO) sum = TO_ACC(DECODE(TO, *to));
  for (; i < count && rows[i] == row; i++) {
    const VALUE(FROM) given = LOAD(FROM, values, order[i]);
    sum += TO_ACC(CAST(given));
  }
  *to = ENCODE(TO, FROM_ACC(sum));
#endif
}
#endif
