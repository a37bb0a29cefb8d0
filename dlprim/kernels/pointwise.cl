// SPDX-License-Identifier: MIT
// y = f(x, ...) for every element of an index space; see primitives/pointwise.cpp for the plan it runs.
//
// The host defines:
//   NAME, RANK, TENSORS, CONSTANTS, VECTOR   the kernel's name, dimensions, operands of each kind, elements a work-item
//                      loads at once; VECTOR 0: the form for CPUs
//   LANES              work-items of a group in that form that share rows, or 0
//   COMPUTE, RESULT      tags of the type computed in and of the type the expression gives
//   BODY                 statements assigning y0, y1, ... from x0, x1, ... and w0, w1, ...
//   FOR_INPUTS(M), FOR_OUTPUTS(M)   M(name, tag, number among tensors, access, word, share)
//   FOR_CONSTANTS(M)     M(name, number): scalars and inputs that are one value
//   CAST_<name>(v)       from an input's to the compute type, or from the result's to an output's type
// access: contiguous, broadcast or strided, on CPUs also reversed, along the fastest dimension. word: OpenCL type of VECTOR elements.
// share: elements in each 32 bits of a word, taken out and put in by shifts; 1: elements are addressed singly.
#include "lib/types.clh"
#include "lib/indexing.clh"
#define T VALUE(COMPUTE)
#include "lib/activations.clh"
#include "lib/math.clh"
#ifdef SPECIAL
#include "lib/special.clh"
#endif

typedef struct {
#if CONSTANTS > 0
  T constants[CONSTANTS];
#endif
  uint length;   // of a row, the fastest dimension
  uint rows;     // product of the other dimensions
#if VECTOR > 0
  uint items;      // work-items that have something to do
  Divider shares;  // work-items a row
#else
  uint share, row_share;  // elements of a row, and rows, that one work-item handles
#endif
#if RANK > 1
  Divider sizes[RANK - 1];
#endif
  int strides[TENSORS][RANK];
} Parameters;

#define AT_contiguous(i, stride) (i)
#define AT_broadcast(i, stride) 0
#define AT_reversed(i, stride) (-(long)(i))
#define AT_strided(i, stride) ((int)(i) * (stride))

// `restrict` holds although operands may be the same tensor: an element is read before it is written, and no other.
#define IN_PARAMETER(x, tag, n, access, word, share) __global const STORAGE(tag) *restrict x##_memory, ulong x##_offset,
#define OUT_PARAMETER(y, tag, n, access, word, share) __global STORAGE(tag) *restrict y##_memory, ulong y##_offset,
#define DECLARE_CONSTANT(x, n) const T x = p.constants[n];

#define IN_ROW(x, tag, n, access, word, share) \
  __global const STORAGE(tag) *x##_row = CONST_POINTER(STORAGE(tag), x) + offsets[n];
#define OUT_ROW(y, tag, n, access, word, share) __global STORAGE(tag) *y##_row = POINTER(STORAGE(tag), y) + offsets[n];

#define LOAD_ONE(x, tag, n, access, word, share) \
  const T x = CAST_##x(LOAD(tag, x##_row, AT_##access(i, p.strides[n][0])));
#define DECLARE_RESULT(y, tag, n, access, word, share) VALUE(RESULT) y;
#define STORE_ONE(y, tag, n, access, word, share) STORE(tag, y##_row, AT_##access(i, p.strides[n][0]), CAST_##y(y));

#define EACH_ONE                \
  {                             \
    FOR_INPUTS(LOAD_ONE)        \
    FOR_OUTPUTS(DECLARE_RESULT) \
    BODY                        \
    FOR_OUTPUTS(STORE_ONE)      \
  }

// Element offsets of row `row` in every tensor.
inline void row_offsets(const Parameters *p, uint row, int *offsets) {
#pragma unroll
  for (int n = 0; n < TENSORS; n++) offsets[n] = 0;
#if RANK > 1
#pragma unroll
  for (int d = 0; d < RANK - 1; d++) {
    uint at = row;
    if (d < RANK - 2) row = divide_rest(row, p->sizes[d], &at);
#pragma unroll
    for (int n = 0; n < TENSORS; n++) offsets[n] += (int)at * p->strides[n][d + 1];
  }
#endif
}

#if VECTOR > 1
#define FETCH_contiguous(x, tag, n, word) \
  x##_part.words = *(__global const word *)(x##_row + i);
#define FETCH_broadcast(x, tag, n, word) \
  x##_part.elements[0] = x##_row[0];
#define FETCH_strided(x, tag, n, word)                \
  _Pragma("unroll") for (int k = 0; k < VECTOR; k++)  \
    x##_part.elements[k] = x##_row[(int)(i + k) * p.strides[n][0]];
#define PUT_contiguous(y, tag, n, word) *(__global word *)(y##_row + i) = y##_part.words;
#define PUT_broadcast(y, tag, n, word) y##_row[0] = y##_part.elements[0];
#define PUT_strided(y, tag, n, word)                  \
  _Pragma("unroll") for (int k = 0; k < VECTOR; k++)  \
    y##_row[(int)(i + k) * p.strides[n][0]] = y##_part.elements[k];

#define PICK_contiguous(k) (k)
#define PICK_broadcast(k) 0
#define PICK_strided(k) (k)
#define PART(x, tag, n, access, word, share)                     \
  union {                                                        \
    STORAGE(tag) elements[VECTOR];                               \
    uint bits[(VECTOR * sizeof(STORAGE(tag)) + 3) / 4];          \
    word words;                                                  \
  } x##_part;
#define GET_1(tag, part, k) ((part).elements[k])
#define GET_2(tag, part, k) ((STORAGE(tag))((part).bits[(k) / 2] >> (k) % 2 * 16))
#define GET_4(tag, part, k) ((STORAGE(tag))((part).bits[(k) / 4] >> (k) % 4 * 8))
#define ADD_BITS(part, at, first, value) (part).bits[at] = ((first) ? 0 : (part).bits[at]) | (uint)(value)
#define SET_1(part, k, element) (part).elements[k] = (element)
#define SET_2(part, k, element) ADD_BITS(part, (k) / 2, (k) % 2 == 0, (ushort)(element)) << (k) % 2 * 16
#define SET_4(part, k, element) ADD_BITS(part, (k) / 4, (k) % 4 == 0, (uchar)(element)) << (k) % 4 * 8
#define FETCH(x, tag, n, access, word, share) FETCH_##access(x, tag, n, word)
#define PUT(y, tag, n, access, word, share) PUT_##access(y, tag, n, word)
#define LOAD_PART(x, tag, n, access, word, share) \
  const T x = CAST_##x(DECODE(tag, GET_##share(tag, x##_part, PICK_##access(k))));
#define STORE_PART(y, tag, n, access, word, share) SET_##share(y##_part, k, ENCODE(tag, CAST_##y(y)));
#endif

#if LANES
__attribute__((reqd_work_group_size(LANES, 1, 1)))
#endif
__kernel void NAME(FOR_OUTPUTS(OUT_PARAMETER) FOR_INPUTS(IN_PARAMETER) const Parameters p) {
  FOR_CONSTANTS(DECLARE_CONSTANT)
  int offsets[TENSORS];
#if VECTOR > 0
  uint row = get_global_id(0), share = row;
  if (row >= p.items) return;
#if RANK > 1
  row = divide_rest(row, p.shares, &share);
#endif
  uint i = share * VECTOR;
  row_offsets(&p, row, offsets);
  FOR_INPUTS(IN_ROW)
  FOR_OUTPUTS(OUT_ROW)
#if VECTOR == 1
  EACH_ONE
#else
  if (i + VECTOR <= p.length) {
    FOR_INPUTS(PART)
    FOR_OUTPUTS(PART)
    FOR_INPUTS(FETCH)
#pragma unroll
    for (int k = 0; k < VECTOR; k++) {
      FOR_INPUTS(LOAD_PART)
      FOR_OUTPUTS(DECLARE_RESULT)
      BODY
      FOR_OUTPUTS(STORE_PART)
    }
    FOR_OUTPUTS(PUT)
  } else {
    for (; i < p.length; i++) EACH_ONE
  }
#endif
#else
  // A CPU: one work-item runs along rows, in a loop that its compiler vectorizes, or LANES neighbours do together, each
  // at every LANES-th element. Their positions are 64 bits wide: those of 32 might wrap between neighbours, which keeps
  // a compiler from loading them as a vector.
  const uint begin = get_global_id(1) * p.share, end = min(begin + p.share, p.length);
  const uint first = get_group_id(0) * p.row_share, last = min(first + p.row_share, p.rows);
  for (uint row = first; row < last; row++) {
    row_offsets(&p, row, offsets);
    FOR_INPUTS(IN_ROW)
    FOR_OUTPUTS(OUT_ROW)
#if LANES
    size_t i = begin + get_local_id(0);
#ifdef SPECIAL  // long, and slow where it is there twice, too long to be inlined
    for (size_t base = begin; base < end; base += LANES, i += LANES)
      if (i < end) EACH_ONE
#else
    const size_t whole = end > begin ? begin + (end - begin) / LANES * LANES : begin;
    for (size_t base = begin; base < whole; base += LANES, i += LANES) EACH_ONE  // without masks
    if (i < end) EACH_ONE
#endif
#else
    for (size_t i = begin; i < end; i++) EACH_ONE
#endif
  }
#endif
}
