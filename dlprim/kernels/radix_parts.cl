// SPDX-License-Identifier: MIT
// Stable radix sort for CPUs, a byte a pass: each of the work-items of a segment takes a part of it, counts its digits,
// and moves its elements to where the sums of all counts say. A pass in which all elements of a segment have the same
// digit moves nothing, so that small numbers of wide types take few passes.
// Defines: those of lib/sort_keys.clh.
#include "lib/sort_keys.clh"

#define DIGITS 256
#define DIGIT(x, i) ((uint)(key_of(LOAD(T, x, i)) >> shift) & (DIGITS - 1))

// states[pass, segment]: where the elements are after it: 0 as given, 1 and 2 in the first and second position.
#define STATE_AFTER(pass, segments) ((pass) < 0 ? 0 : POINTER(uchar, states)[(ulong)(pass) * (segments) + segment])
#define ELEMENTS(state) \
  ((state) == 0 ? CONST_POINTER(STORAGE(T), keys) : (state) == 1 ? POINTER(STORAGE(T), first) : POINTER(STORAGE(T), second))
#define POSITIONS(state) ((state) == 1 ? POINTER(uint, first_positions) : POINTER(uint, second_positions))

#define BUFFERS                                                                                                   \
  CONST_GLOBAL(STORAGE(T), keys), GLOBAL(STORAGE(T), first), GLOBAL(STORAGE(T), second), GLOBAL(uint, first_positions), \
      GLOBAL(uint, second_positions), GLOBAL(uchar, states), GLOBAL(uint, counts)

#define BEGIN_PART                                                                     \
  const uint segments = get_global_size(0) / parts, segment = get_global_id(0) / parts; \
  const uint part = get_global_id(0) % parts, length = (n + parts - 1) / parts;         \
  const uint begin = min(part * length, n), end = min(begin + length, n);               \
  const ulong base = (ulong)segment * n;

// counts[segment, part, digit]
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void parts_count(BUFFERS, uint n, uint parts, int pass, uint shift) {
  BEGIN_PART
  const int state = STATE_AFTER(pass - 1, segments);
  __global const STORAGE(T) *x = ELEMENTS(state) + base;
  uint own[DIGITS];
  for (int d = 0; d < DIGITS; d++) own[d] = 0;
  for (uint i = begin; i < end; i++) own[DIGIT(x, i)]++;
  __global uint *counts = POINTER(uint, counts) + (ulong)get_global_id(0) * DIGITS;
  for (int d = 0; d < DIGITS; d++) counts[d] = own[d];
}

// Counts become the place of each part's first element of a digit. A work-item takes a segment.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void parts_sum(BUFFERS, uint n, uint parts, int pass) {
  const uint segments = get_global_size(0), segment = get_global_id(0);
  __global uint *counts = POINTER(uint, counts) + (ulong)segment * parts * DIGITS;
  const int state = STATE_AFTER(pass - 1, segments);
  uint sum = 0, largest = 0;
  for (uint d = 0; d < DIGITS; d++) {
    const uint before = sum;
    for (uint part = 0; part < parts; part++) {
      const uint count = counts[part * DIGITS + d];
      counts[part * DIGITS + d] = sum;
      sum += count;
    }
    largest = max(largest, sum - before);
  }
  POINTER(uchar, states)[(ulong)pass * segments + segment] = largest == n ? state : state == 1 ? 2 : 1;
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void parts_move(BUFFERS, uint n, uint parts, int pass, uint shift) {
  BEGIN_PART
  const int state = STATE_AFTER(pass - 1, segments), next = STATE_AFTER(pass, segments);
  if (state == next) return;
  __global const STORAGE(T) *x = ELEMENTS(state) + base;
  __global const uint *positions = POSITIONS(state) + base;
  __global STORAGE(T) *to = (next == 1 ? POINTER(STORAGE(T), first) : POINTER(STORAGE(T), second)) + base;
  __global uint *to_positions = POSITIONS(next) + base;
  __global const uint *counts = POINTER(uint, counts) + (ulong)get_global_id(0) * DIGITS;
  uint places[DIGITS];
  for (int d = 0; d < DIGITS; d++) places[d] = counts[d];
  for (uint i = begin; i < end; i++) {
    const uint place = places[DIGIT(x, i)]++;
    to[place] = x[i];
    to_positions[place] = state == 0 ? i : positions[i];
  }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void parts_finish(BUFFERS, GLOBAL(long, order), GLOBAL(STORAGE(T), sorted), uint n, uint parts, int passes) {
  BEGIN_PART
  const int state = STATE_AFTER(passes - 1, segments);
  __global const STORAGE(T) *x = ELEMENTS(state) + base;
  __global const uint *positions = POSITIONS(state) + base;
  __global long *order = POINTER(long, order) + base;
  if (state == 0)
    for (uint i = begin; i < end; i++) order[i] = i;
  else
    for (uint i = begin; i < end; i++) order[i] = positions[i];
#if SORTED
  __global STORAGE(T) *sorted = POINTER(STORAGE(T), sorted) + base;
  for (uint i = begin; i < end; i++) sorted[i] = x[i];
#endif
}
