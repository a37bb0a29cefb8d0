// SPDX-License-Identifier: MIT
// Numbering the elements that are not zero: chunks are counted, the counts summed by a scan, and each chunk emits its
// elements: it lists them in local memory, so that neighbours write neighbours.
// The host defines T (tag of the mask), GROUP, ITEMS (a chunk has GROUP * ITEMS elements; 16), BYTES (the mask has
// elements of one byte and begins at a multiple of 16), and for emit one of
//   COORDINATES with DIMS, SELECT, SCATTER (both with UNIT), RANKS (less p.limit), PLACED (the same at source's places)
#include "lib/types.clh"
#include "lib/warp.clh"

#define CHUNK (GROUP * ITEMS)
#define MARKED(s) IS_SET(DECODE(T, s))
#define MASK CONST_POINTER(STORAGE(T), mask)
// The top bit of each byte that is not zero.
#define SET_BYTES(v) (((((v) & 0x7f7f7f7fu) + 0x7f7f7f7fu) | (v)) & 0x80808080u)

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void count_chunks(CONST_GLOBAL(STORAGE(T), mask), GLOBAL(long, ends), ulong n) {
  __local uint scratch[GROUP];
  const ulong begin = (ulong)get_group_id(0) * CHUNK;
  const uint item = get_local_id(0), elements = (uint)min(n - begin, (ulong)CHUNK);
  uint count = 0;
#if BYTES
  if (elements == CHUNK) {
    const uint4 v = ((__global const uint4 *)(MASK + begin))[item], set = SET_BYTES(v);
    count = popcount(set.x) + popcount(set.y) + popcount(set.z) + popcount(set.w);
  } else
#endif
    for (uint i = item; i < elements; i += GROUP) count += MARKED(MASK[begin + i]);
  const uint sum = scan_group(count, scratch);
  if (item == GROUP - 1) POINTER(long, ends)[get_group_id(0)] = sum;
}

#if defined(COORDINATES) || defined(SELECT) || defined(SCATTER) || defined(RANKS) || defined(PLACED)
typedef struct {
  long row_stride, column_stride;  // of the coordinates
  ulong n;
  long limit;
  int code, unused;
#ifdef COORDINATES
  long sizes[DIMS];  // of the mask, slowest first
#endif
} Parameters;

// Bit i: whether element `ITEMS * item + i` of the chunk is marked. `marks`: CHUNK bytes.
inline uint marks_of(__global const STORAGE(T) *mask, uint elements, __local uchar *marks) {
  const uint item = get_local_id(0);
  uint bits = 0;
#if BYTES
  if (elements == CHUNK) {
    const uint4 v = ((__global const uint4 *)mask)[item], set = SET_BYTES(v) >> 7;
    const uint4 four = (set | set >> 7 | set >> 14 | set >> 21) & 15u;
    return four.x | four.y << 4 | four.z << 8 | four.w << 12;
  }
#endif
  for (uint i = item; i < CHUNK; i += GROUP) marks[i] = i < elements && MARKED(mask[i]);
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint i = 0; i < ITEMS; i++) bits |= (uint)marks[ITEMS * item + i] << i;
  barrier(CLK_LOCAL_MEM_FENCE);
  return bits;
}

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void emit(CONST_GLOBAL(STORAGE(T), mask), CONST_GLOBAL(long, ends), GLOBAL(void, out), CONST_GLOBAL(void, source),
          GLOBAL(int, status), Parameters p) {
  __local uint scratch[GROUP], total;
  __local ushort list[CHUNK];  // elements of the chunk that are marked, or ranks in the chunk
  const ulong chunk = get_group_id(0), begin = chunk * CHUNK;
  const long before = chunk ? CONST_POINTER(long, ends)[chunk - 1] : 0;
  const uint item = get_local_id(0), elements = (uint)min(p.n - begin, (ulong)CHUNK);
  const uint bits = marks_of(MASK + begin, elements, (__local uchar *)list), own = popcount(bits);
  uint rank = scan_group(own, scratch);
  if (item == GROUP - 1) total = rank;
  rank -= own;
#if defined(RANKS) || defined(PLACED)
  for (uint i = 0; i < ITEMS; i++) list[ITEMS * item + i] = rank += bits >> i & 1;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint i = item; i < elements; i += GROUP) {
#ifdef PLACED
    const ulong place = CONST_POINTER(long, source)[begin + i];
#else
    const ulong place = begin + i;
#endif
    POINTER(long, out)[place] = before + list[i] - p.limit;
  }
#else
  for (uint i = 0; i < ITEMS; i++)
    if (bits >> i & 1) list[rank++] = ITEMS * item + i;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint j = item; j < total; j += GROUP) {
    const long place = before + j;
    const ulong i = begin + list[j];
#ifdef SCATTER
    if (place < p.limit) POINTER(UNIT, out)[i] = CONST_POINTER(UNIT, source)[place];
    else REPORT(POINTER(int, status), p.code, place);
#else
    if (place >= p.limit) break;
#ifdef SELECT
    POINTER(UNIT, out)[place] = CONST_POINTER(UNIT, source)[i];
#else
    ulong rest = i;
    for (int d = DIMS - 1; d >= 0; d--) {
      POINTER(long, out)[place * p.row_stride + d * p.column_stride] = (long)(rest % (ulong)p.sizes[d]);
      rest /= (ulong)p.sizes[d];
    }
#endif
#endif
  }
#endif
}
#endif
