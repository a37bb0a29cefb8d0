// SPDX-License-Identifier: MIT
// Binary search in sorted rows. Defines: T, OUT (tags of the elements and the results), FLOATING, RIGHT: positions
// behind equal elements, SORTER: the order in which a row is to be read, WIDE: rows of 2^31 elements and more, and
// GROUP > 0 for search_held: work-groups keep every `stride`-th element of their row, HELD of them at most, in local
// memory.
#include "lib/less.clh"
#include "lib/types.clh"

#ifdef WIDE
typedef ulong index;
#else
typedef uint index;
#endif

// Whether the place of `value` lies behind an element.
#ifdef RIGHT
#define IS_BEFORE(element, value) (!LESS(value, element))
#else
#define IS_BEFORE(element, value) LESS(element, value)
#endif

#ifdef SORTER
#define ELEMENT(i) LOAD(T, sorted, clamp(sorter[i], 0L, (long)n - 1))
#else
#define ELEMENT(i) LOAD(T, sorted, i)
#endif

// Narrows `begin` down to the first of `count` positions from it on, of which the last may lie behind the elements. All
// work-items take the same steps, and read no further than `last`.
#define NARROW(begin, count, element_at, last, value)                                    \
  do {                                                                                   \
    index left = (count);                                                                \
    while (left > 1) {                                                                   \
      const index half_way = left / 2, next = (begin) + half_way;                        \
      (begin) = IS_BEFORE(element_at(min(next - 1, last)), value) ? next : (begin);      \
      left -= half_way;                                                                  \
    }                                                                                    \
    if (left > 0) (begin) += IS_BEFORE(element_at(min((begin), last)), value) ? 1 : 0;   \
  } while (0)

#if GROUP == 0

__kernel void search_sorted(GLOBAL(STORAGE(OUT), out), CONST_GLOBAL(STORAGE(T), sorted),
                            CONST_GLOBAL(STORAGE(T), values), CONST_GLOBAL(long, sorter), ulong length, ulong per_row,
                            ulong count, int one_row) {
  const ulong i = global_id();
  if (i >= count) return;
  const index n = (index)length;
  const ulong row = one_row ? 0 : i / per_row;
  __global const STORAGE(T) *sorted = CONST_POINTER(STORAGE(T), sorted) + row * length;
#ifdef SORTER
  __global const long *sorter = CONST_POINTER(long, sorter) + row * length;
#endif
  const VALUE(T) value = LOAD(T, CONST_POINTER(STORAGE(T), values), i);
  index begin = 0;
  NARROW(begin, n, ELEMENT, n - 1, value);
  STORE(OUT, POINTER(STORAGE(OUT), out), i, begin);
}

#else

#define AHEAD 4  // values of a work-item, whose searches do not wait for one another
#define EACH_VALUE _Pragma("unroll") for (uint a = 0; a < AHEAD; a++)

// parts: work-groups of a row, which has per_row values.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void search_held(GLOBAL(STORAGE(OUT), out), CONST_GLOBAL(STORAGE(T), sorted), CONST_GLOBAL(STORAGE(T), values),
                 CONST_GLOBAL(long, sorter), ulong length, ulong per_row, uint parts, uint spacing) {
  __local VALUE(T) held[HELD];
  const index n = (index)length, stride = spacing;
  const ulong row = get_group_id(0) / parts, part = get_group_id(0) % parts;
  const uint item = get_local_id(0), kept = (uint)((n - 1) / stride + 1);
  __global const STORAGE(T) *sorted = CONST_POINTER(STORAGE(T), sorted) + row * length;
  __global const STORAGE(T) *values = CONST_POINTER(STORAGE(T), values) + row * per_row;
  __global STORAGE(OUT) *out = POINTER(STORAGE(OUT), out) + row * per_row;
#ifdef SORTER
  __global const long *sorter = CONST_POINTER(long, sorter) + row * length;
#endif
  // The last element of every block of `stride`.
  for (uint i = item; i < kept; i += GROUP) held[i] = ELEMENT(min((i + 1) * stride, n) - 1);
  barrier(CLK_LOCAL_MEM_FENCE);
  for (ulong first = part * (GROUP * AHEAD) + item; first < per_row; first += (ulong)parts * (GROUP * AHEAD)) {
    VALUE(T) value[AHEAD];
    uint block[AHEAD];
    EACH_VALUE value[a] = LOAD(T, values, min(first + a * GROUP, per_row - 1));
    EACH_VALUE block[a] = 0;
    uint left = kept;
    while (left > 1) {
      const uint half_way = left / 2;
      EACH_VALUE block[a] += IS_BEFORE(held[block[a] + half_way - 1], value[a]) ? half_way : 0;
      left -= half_way;
    }
    EACH_VALUE block[a] += IS_BEFORE(held[block[a]], value[a]) ? 1 : 0;
    index begin[AHEAD];
    EACH_VALUE begin[a] = block[a] * stride;
    if (stride > 1) {  // the block's last element does not come before the position; behind all blocks, all elements do
      index rest = stride - 1;
      while (rest > 1) {
        const index half_way = rest / 2;
        EACH_VALUE begin[a] += IS_BEFORE(ELEMENT(min(begin[a] + half_way - 1, n - 1)), value[a]) ? half_way : 0;
        rest -= half_way;
      }
      EACH_VALUE begin[a] += IS_BEFORE(ELEMENT(min(begin[a], n - 1)), value[a]) ? 1 : 0;
    }
    EACH_VALUE if (first + a * GROUP < per_row) STORE(OUT, out, first + a * GROUP, min(begin[a], n));
  }
}

#endif
