// SPDX-License-Identifier: MIT
// Reads and writes at positions given by index tensors. The host defines
//   DIMS, INDICES, INDEX   loop dimensions, index tensors and their tag
//   ELEMENTS               that a work-item reads
//   UNIT                   type of the bytes moved as they are (reads, assignments), or
//   TO, FROM, BYTES        tags and size of the destination's elements, COMBINE(a, b) and CAST(v), for updates, SUMS
//                          where these are sums, or
//   POSITIONS              for where elements go instead of what they are
//   LINES                  for whole lines a work-item; VECTOR of 16 elements where both tensors' are of one type;
//                          READS of them, SAME_INDEX where all elements of a line have one, UNIT_STRIDES where they are
//                          neighbours in both tensors
#include "lib/indexing.clh"
#include "lib/types.clh"
#include "lib/atomics.clh"

#ifdef DIMS
typedef struct {
  long size[INDICES], step[INDICES];  // of the addressed dimensions
  long ignore, origin;                // origin: of the addressed tensor's first element, for POSITIONS
  long part;                          // of the addresses, that a work-item writes to (LINES)
  int dense[DIMS], base[DIMS];        // strides of the dense tensor and of the addressed one
  int index[INDICES][DIMS];
  Divider sizes[DIMS];
  uint count;
  int flags, code;    // WRAP, IGNORE
  uint slice, share;  // elements of each line, and lines, of a work-item (LINES)
} Parameters;

#define WRAP 1
#define IGNORE 2
#define WRONG (-1L)
#define IGNORED (-2L)

// Where element i lies in the dense tensor, without its indices in the addressed one, and in each index tensor.
inline void locate(uint i, const Parameters *p, long *dense, long *base, long *at) {
  uint coordinate[DIMS];
#pragma unroll
  for (int d = 0; d < DIMS - 1; d++) i = divide_rest(i, p->sizes[d], &coordinate[d]);
  coordinate[DIMS - 1] = i;
  *dense = *base = 0;
#pragma unroll
  for (int d = 0; d < DIMS; d++) {
    *dense += (long)coordinate[d] * p->dense[d];
    *base += (long)coordinate[d] * p->base[d];
  }
#pragma unroll
  for (int k = 0; k < INDICES; k++) {
    at[k] = 0;
#pragma unroll
    for (int d = 0; d < DIMS; d++) at[k] += (long)coordinate[d] * p->index[k][d];
  }
}

// The addressed position, negative where there is none: IGNORED, or WRONG, with an index that is out of range.
inline long address(long base, const long *index, const Parameters *p, long *wrong) {
#pragma unroll
  for (int k = 0; k < INDICES; k++) {
    if (k == 0 && (p->flags & IGNORE) && index[k] == p->ignore) return IGNORED;
    const long wrapped = (p->flags & WRAP) && index[k] < 0 ? index[k] + p->size[k] : index[k];
    if (wrapped < 0 || wrapped >= p->size[k]) {
      *wrong = index[k];
      return WRONG;
    }
    base += wrapped * p->step[k];
  }
  return base;
}

// A work-item reads ELEMENTS elements, LINE apart: their indices are under way together, and then what these address.
#define LINE (ELEMENTS == 1 ? 1 : 32)
#define EACH _Pragma("unroll") for (int e = 0; e < ELEMENTS; e++)
__kernel void read(GLOBAL(void, out), CONST_GLOBAL(void, source), GLOBAL(int, status), Parameters p, INDEX_PARAMETERS) {
#if defined(UNIT) || defined(POSITIONS)
  const uint item = get_global_id(0), first = item / LINE * (LINE * ELEMENTS) + item % LINE;
  if (first >= p.count) return;
  __global const STORAGE(INDEX) *indices[INDICES] = {INDEX_POINTERS};
  long dense[ELEMENTS], addressed[ELEMENTS], index[ELEMENTS][INDICES];
  EACH {
    // Past the end, the first element's again.
    const uint i = first + e * LINE;
    long at[INDICES];
    locate(i < p.count ? i : first, &p, &dense[e], &addressed[e], at);
#pragma unroll
    for (int k = 0; k < INDICES; k++) index[e][k] = indices[k][at[k]];
  }
  EACH {
    long wrong;
    addressed[e] = address(addressed[e], index[e], &p, &wrong);
    if (addressed[e] == WRONG) REPORT(POINTER(int, status), p.code, wrong);
  }
#ifdef POSITIONS
  EACH POINTER(long, out)[dense[e]] = addressed[e] < 0 ? -1 : p.origin + addressed[e];
#else
  UNIT found[ELEMENTS];
  EACH found[e] = addressed[e] < 0 ? (UNIT)(0) : CONST_POINTER(UNIT, source)[addressed[e]];
  EACH if (addressed[e] != IGNORED) POINTER(UNIT, out)[dense[e]] = found[e];
#endif
#endif
}

__kernel void write(GLOBAL(void, destination), CONST_GLOBAL(void, values), GLOBAL(int, status), Parameters p,
                    INDEX_PARAMETERS) {
  const uint i = get_global_id(0);
  if (i >= p.count) return;
  __global const STORAGE(INDEX) *indices[INDICES] = {INDEX_POINTERS};
  long dense, addressed, at[INDICES], index[INDICES];
  locate(i, &p, &dense, &addressed, at);
#pragma unroll
  for (int k = 0; k < INDICES; k++) index[k] = indices[k][at[k]];
  long wrong;
  addressed = address(addressed, index, &p, &wrong);
  if (addressed == WRONG) REPORT(POINTER(int, status), p.code, wrong);
  if (addressed < 0) return;
#if defined(UNIT)
  POINTER(UNIT, destination)[addressed] = CONST_POINTER(UNIT, values)[dense];
#elif defined(TO)
  __global STORAGE(TO) *to = POINTER(STORAGE(TO), destination) + addressed;
  const VALUE(FROM) given = LOAD(FROM, CONST_POINTER(STORAGE(FROM), values), dense);
  const VALUE(TO) value = CAST(given);
#ifdef SUMS
  ADD(TO, BYTES, to, value);
#else
  UPDATE(TO, BYTES, to, value);
#endif
#endif
}

#ifdef LINES
#ifdef UNIT_STRIDES
#define ALONG(stride) 1
#else
#define ALONG(stride) (stride)
#endif
#ifdef UNIT
typedef UNIT TO_T;
typedef UNIT FROM_T;
#else
typedef STORAGE(TO) TO_T;
typedef STORAGE(FROM) FROM_T;
#endif

inline void put(__global TO_T *to, __global const FROM_T *from) {
#ifdef UNIT
  *to = *from;
#else
  const VALUE(FROM) given = LOAD(FROM, from, 0);
  *to = ENCODE(TO, COMBINE(DECODE(TO, *to), CAST(given)));
#endif
}

// Elements [begin, end) of a line whose index is one.
inline void put_line(__global TO_T *to, __global const FROM_T *from, size_t begin, const size_t end,
                     const long to_stride, const long from_stride) {
#if defined(VECTOR) && defined(UNIT_STRIDES)
  for (; begin + 16 <= end; begin += 16) {
    const VECTOR old = vload16(0, to + begin), given = vload16(0, from + begin);
    vstore16(COMBINE(old, given), 0, to + begin);
  }
#endif
#pragma clang loop vectorize(assume_safety)
  for (size_t i = begin; i < end; i++) put(to + (long)i * ALONG(to_stride), from + (long)i * ALONG(from_stride));
}

// Addresses of `count` elements of a line from element `first` on: those of address(), found without branches so that
// compilers make vectors of them. Returns whether any is WRONG.
#define BLOCK 64
inline bool find_places(long *places, const size_t count, long base, const long base_stride, const Parameters *p,
                        __global const STORAGE(INDEX) **indices, const long *at, const long index_stride) {
  const long wrap = p->flags & WRAP ? -1 : 0;
  const bool ignores = p->flags & IGNORE;
  int wrong = 0;
  for (size_t e = 0; e < count; e++) {
    long place = base + (long)e * base_stride;
    int outside = 0, ignored = 0;
#pragma unroll
    for (int k = 0; k < INDICES; k++) {
      const long index = indices[k][at[k] + (long)e * (INDICES == 1 ? index_stride : p->index[k][0])];
      const long wrapped = index + (index < 0 ? wrap & p->size[k] : 0);
      if (k == 0) ignored = ignores && index == p->ignore;
      outside |= wrapped < 0 || wrapped >= p->size[k];
      place += wrapped * p->step[k];
    }
    wrong |= outside && !ignored;
    places[e] = ignored ? IGNORED : outside ? WRONG : place;
  }
  return wrong;
}

// For CPUs. Of an update, a work-item combines what no other one writes to: a slice of every line, a share of the lines,
// or what leads to its part of the addresses.
__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void lines(GLOBAL(void, first), CONST_GLOBAL(void, second), GLOBAL(int, status), Parameters p,
                    INDEX_PARAMETERS) {
  __global const STORAGE(INDEX) *indices[INDICES] = {INDEX_POINTERS};
  __global TO_T *to = POINTER(TO_T, first);
  __global const FROM_T *from = CONST_POINTER(FROM_T, second);
  const size_t length = p.sizes[0].divisor;
  const size_t begin = get_global_id(0) * p.slice, end = min(begin + p.slice, length);
  const uint start = get_global_id(1) * p.share, stop = min(start + p.share, p.count / (uint)length);
  const long low = (long)get_global_id(2) * p.part;
  long wrong;
  bool failed = false;  // reported at the end: what may change memory keeps compilers from good loops
  for (uint line = start; line < stop; line++) {
    long dense, base, at[INDICES];
    locate(line * (uint)length, &p, &dense, &base, at);
#ifdef SAME_INDEX
    long index[INDICES];
    for (int k = 0; k < INDICES; k++) index[k] = indices[k][at[k]];
    const long addressed = address(base, index, &p, &wrong);
    failed = failed || addressed == WRONG;
#ifdef READS
    if (addressed == IGNORED) continue;
    if (addressed < 0)
      for (size_t i = begin; i < end; i++) to[dense + (long)i * p.dense[0]] = (TO_T)(0);
    else put_line(to + dense, from + addressed, begin, end, p.dense[0], p.base[0]);
#else
    if (addressed < low || addressed - low >= p.part) continue;
    put_line(to + addressed, from + dense, begin, end, p.base[0], p.dense[0]);
#endif
#else
    for (int k = 0; k < INDICES; k++) at[k] += (long)begin * p.index[k][0];
    for (size_t i = begin; i < end; i += BLOCK) {
      const size_t count = min(end - i, (size_t)BLOCK);
      const long first_place = base + (long)i * p.base[0], other = dense + (long)i * p.dense[0];
      long places[BLOCK];
      if (INDICES == 1 && p.index[0][0] == 1
              ? find_places(places, count, first_place, p.base[0], &p, indices, at, 1)
              : find_places(places, count, first_place, p.base[0], &p, indices, at, p.index[0][0])) {
        failed = true;
        for (size_t e = 0; e < count; e++)
          if (places[e] == WRONG) {
            long index[INDICES];
            for (int k = 0; k < INDICES; k++) index[k] = indices[k][at[k] + (long)e * p.index[k][0]];
            address(0, index, &p, &wrong);
          }
      }
      for (size_t e = 0; e < count; e++) {
        const long there = other + (long)e * p.dense[0];
#ifdef READS
        if (places[e] >= 0) put(to + there, from + places[e]);
        else if (places[e] == WRONG) to[there] = (TO_T)(0);
#else
        if (places[e] >= low && places[e] - low < p.part) put(to + places[e], from + there);
#endif
      }
      for (int k = 0; k < INDICES; k++) at[k] += (long)BLOCK * p.index[k][0];
    }
#endif
  }
  if (failed) REPORT(POINTER(int, status), p.code, wrong);
}
#endif  // LINES
#endif  // DIMS

#ifdef ORDERED
// A run of equal positions, and of the rows [count, inner] that go there ITEMS elements, `across` apart, which is how many
// work-items of a group lie along a row. `order` sorts the positions; negative ones are none. Elements of a row are `step`
// apart in the destination.
__kernel void ordered_write(GLOBAL(STORAGE(TO), destination), CONST_GLOBAL(STORAGE(TO), values),
                            CONST_GLOBAL(long, positions), CONST_GLOBAL(long, order), ulong count, ulong inner,
                            long step, uint across) {
  const ulong part = (ulong)ITEMS * across, parts = (inner + part - 1) / part, group = get_group_id(0);
  const ulong first = group / parts * (get_local_size(0) / across) + get_local_id(0) / across;
  const ulong element = group % parts * part + get_local_id(0) % across;
  if (first >= count || element >= inner) return;
  __global const long *positions = CONST_POINTER(long, positions), *order = CONST_POINTER(long, order);
  const long position = positions[order[first]];
  if (position < 0 || (first > 0 && positions[order[first - 1]] == position)) return;
  __global STORAGE(TO) *to = POINTER(STORAGE(TO), destination) + position;
  __global const STORAGE(TO) *values = CONST_POINTER(STORAGE(TO), values);
#define EACH_ITEM(at) \
  _Pragma("unroll") for (int e = 0; e < ITEMS; e++) for (ulong at = element + e * across; at < inner; at = inner)
  ulong i = first;
#ifdef ASSIGN
  while (i + 1 < count && positions[order[i + 1]] == position) i++;
  EACH_ITEM(at) to[(long)at * step] = values[order[i] * inner + at];
#else
  ACC(TO) result[ITEMS];
  EACH_ITEM(at) result[e] = TO_ACC(DECODE(TO, to[(long)at * step]));
  for (; i < count && positions[order[i]] == position; i++) {
    __global const STORAGE(TO) *row = values + order[i] * inner;
    EACH_ITEM(at) {
      const ACC(TO) value = TO_ACC(DECODE(TO, row[at]));
      result[e] = COMBINE(result[e], value);
    }
  }
  EACH_ITEM(at) to[(long)at * step] = ENCODE(TO, FROM_ACC(result[e]));
#endif
}
#endif
