// SPDX-License-Identifier: MIT
// Defines: T tag of the output; REAL tag to compute in (f32 or f64); for `generate` also
//   DRAW    raw, unit, open or normal: what `x` holds    PER_DRAW  numbers from one Philox call (4, or 2 of 64 bits)
//   BITS    significant bits of unit numbers             SAMPLE    expression of x, a, b (and p for EACH)
//   PARAMETER type of a and b                            P         tag of the per-element parameter p, if there is one
#include "lib/types.clh"
#include "lib/philox.clh"

#define R VALUE(REAL)
#if PER_DRAW == 4
typedef uint word;
#else
typedef ulong word;
#endif

inline void draw_words(word *w, ulong seed, ulong offset, ulong item) {
  const uint4 r = philox_draw(seed, offset, item, 0);
#if PER_DRAW == 4
  w[0] = r.x, w[1] = r.y, w[2] = r.z, w[3] = r.w;
#else
  w[0] = join_u64(r.x, r.y), w[1] = join_u64(r.z, r.w);
#endif
}

#define raw 0
#define unit 1
#define open 2
#define normal 3
#ifdef SAMPLE
// Work-item i computes elements i, i + items, i + 2 items, ...: neighbours write neighbours.
__kernel void generate(GLOBAL(STORAGE(T), out),
#ifdef P
                       CONST_GLOBAL(STORAGE(P), parameter),
#endif
                       ulong count, ulong items, ulong seed, ulong offset, PARAMETER a, PARAMETER b) {
  const ulong item = global_id();
  if (item >= items) return;
  __global STORAGE(T) *out = POINTER(STORAGE(T), out);
#ifdef P
  __global const STORAGE(P) *parameter = CONST_POINTER(STORAGE(P), parameter);
#endif
  word w[PER_DRAW];
  draw_words(w, seed, offset, item);
#if DRAW == raw
  typedef word drawn;
  word *values = w;
#else
  typedef R drawn;
  R values[PER_DRAW];
#pragma unroll
  for (int k = 0; k < PER_DRAW; k++) {
#if DRAW == unit
    values[k] = CONCAT(unit_, REAL)(w[k], BITS);
#elif DRAW == open
    values[k] = CONCAT(open_unit_, REAL)(w[k]);
#else
    if (k % 2 == 0) {
      const CONCAT(pair_, REAL) pair =
          CONCAT(normal_pair_, REAL)(CONCAT(open_unit_, REAL)(w[k]), CONCAT(unit_, REAL)(w[k + 1], BITS));
      values[k] = pair.x, values[k + 1] = pair.y;
    }
#endif
  }
#endif
#pragma unroll
  for (int k = 0; k < PER_DRAW; k++) {
    const ulong i = item + k * items;
    if (i < count) {
      const drawn x = values[k];
#ifdef P
      const VALUE(P) p = LOAD(P, parameter, i);
#endif
      STORE(T, out, i, (VALUE(T))(SAMPLE));
    }
  }
}
#endif

#ifdef DROPOUT
typedef union {
  uint2 words;
  uint4 quads;
  STORAGE(T) at[4];
} Four;

// Whether four neighbours from `p` on can be moved at once.
#define WHOLE(p, bytes) (((size_t)(p) & ((bytes) - 1)) == 0)
#define FOUR_BYTES (4 * sizeof(STORAGE(T)))

// Work-item i computes elements 4 i to 4 i + 3.
__kernel void dropout(CONST_GLOBAL(STORAGE(T), in), GLOBAL(STORAGE(T), out), GLOBAL(uchar, mask), ulong count,
                      ulong items, ulong seed, ulong offset, float keep, R scale) {
  const ulong item = global_id();
  if (item >= items) return;
  __global const STORAGE(T) *in = CONST_POINTER(STORAGE(T), in) + 4 * item;
  __global STORAGE(T) *out = POINTER(STORAGE(T), out) + 4 * item;
  __global uchar *mask = POINTER(uchar, mask) + 4 * item;
  const int elements = (int)min(count - 4 * item, (ulong)4);
  const bool whole = FOUR_BYTES <= 16 && elements == 4 && WHOLE(in, FOUR_BYTES) && WHOLE(out, FOUR_BYTES) && WHOLE(mask, 4);
  Four four;
  if (!whole)
    for (int k = 0; k < elements; k++) four.at[k] = in[k];
  else if (FOUR_BYTES == 8) four.words = *(__global const uint2 *)in;
  else four.quads = *(__global const uint4 *)in;
  uint w[4];
  draw_words(w, seed, offset, item);
  uchar kept[4];
#pragma unroll
  for (int k = 0; k < 4; k++) {
    kept[k] = unit_f32(w[k], 24) < keep;
    four.at[k] = ENCODE(T, (VALUE(T))(kept[k] ? DECODE(T, four.at[k]) * scale : 0));
  }
  if (whole) {
    *(__global uchar4 *)mask = (uchar4)(kept[0], kept[1], kept[2], kept[3]);
    if (FOUR_BYTES == 8) *(__global uint2 *)out = four.words;
    else *(__global uint4 *)out = four.quads;
  } else {
    for (int k = 0; k < elements; k++) mask[k] = kept[k], out[k] = four.at[k];
  }
}
#endif

#ifdef PERMUTATION
// A keyed bijection of [0, 2^bits) by Feistel rounds over two halves, walked until it falls below count:
// R. Mitchell, D. Stokes, E. Frank, G. Holmes, "Bandwidth-optimal random shuffling for GPUs", TOPC 2022.
// WIDE: of values of that type, NARROW: of halves of them.
#define BIJECTION(name, WIDE, NARROW, to_narrow, to_wide)                                                       \
  inline NARROW CONCAT(name, _mix)(NARROW half_word, uint key) {                                                \
    NARROW x = (half_word ^ key) * 0x9E3779B1u;                                                                 \
    x = (x ^ x >> 15) * 0x85EBCA77u;                                                                            \
    x = (x ^ x >> 13) * 0xC2B2AE3Du;                                                                            \
    return x ^ x >> 16;                                                                                         \
  }                                                                                                             \
  inline WIDE name(WIDE value, const uint4 *keys, int low_bits, uint low_mask, uint high_mask) {                \
    NARROW low = to_narrow(value) & low_mask, high = to_narrow(value >> low_bits);                              \
    _Pragma("unroll") for (int k = 0; k < 4; k++) {                                                             \
      high = (high ^ CONCAT(name, _mix)(low, keys[k].x)) & high_mask;                                           \
      low = (low ^ CONCAT(name, _mix)(high, keys[k].y)) & low_mask;                                             \
      high = (high ^ CONCAT(name, _mix)(low, keys[k].z)) & high_mask;                                           \
      low = (low ^ CONCAT(name, _mix)(high, keys[k].w)) & low_mask;                                             \
    }                                                                                                           \
    return to_wide(high) << low_bits | to_wide(low);                                                            \
  }
BIJECTION(permuted, ulong, uint, (uint), (ulong))

#define KEYS                                                                                                    \
  const int low_bits = bits / 2, high_bits = bits - low_bits;                                                   \
  const uint low_mask = (uint)((1ul << low_bits) - 1), high_mask = (uint)((1ul << high_bits) - 1);              \
  uint4 keys[4];                                                                                                \
  for (int k = 0; k < 4; k++) keys[k] = philox_draw(seed, offset, k, 0);

#ifdef CPU_DEVICE
BIJECTION(permuted_16, uint16, uint16, , )

#define HELD 256

// Keys once for many values. Where 31 bits hold them they are vectors: those to be walked on are gathered, so that there
// are many at a time, which do not wait for each other.
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void permutation(GLOBAL(STORAGE(T), out), ulong count, int bits,
                                                                         ulong seed, ulong offset) {
  KEYS
  __global STORAGE(T) *out = POINTER(STORAGE(T), out);
  const ulong share = (count - 1) / get_num_groups(0) + 1, first = get_group_id(0) * share, end = min(first + share, count);
  for (ulong i = first; i < end && bits > 31; i++) {
    ulong value = i;
    do value = permuted(value, keys, low_bits, low_mask, high_mask);
    while (value >= count);
    STORE(T, out, i, (VALUE(T))value);
  }
  uint values[HELD];
  uchar places[HELD];
  for (ulong i = first; i < end && bits <= 31; i += HELD) {
    int held = (int)min((ulong)HELD, end - i);
    for (int k = 0; k < HELD; k++) values[k] = (uint)i + k, places[k] = (uchar)k;
    while (held > 0) {
      for (int c = 0; c < (held + 15) / 16; c++)
        vstore16(permuted_16(vload16(c, values), keys, low_bits, low_mask, high_mask), c, values);
      int kept = 0;
      for (int k = 0; k < held; k++) {
        const uint value = values[k];
        const uchar place = places[k];
        STORE(T, out, i + place, (VALUE(T))value);
        values[kept] = value, places[kept] = place;
        kept += value >= (uint)count;
      }
      held = kept;
    }
  }
}
#else
__kernel void permutation(GLOBAL(STORAGE(T), out), ulong count, int bits, ulong seed, ulong offset) {
  const ulong i = global_id();
  if (i >= count) return;
  KEYS
  ulong value = i;
  do value = permuted(value, keys, low_bits, low_mask, high_mask);
  while (value >= count);
  STORE(T, POINTER(STORAGE(T), out), i, (VALUE(T))value);
}
#endif
#endif

#ifdef CATEGORICAL
// Inverts a cumulative distribution for every sample by bisection: the first category whose sum exceeds u * total.
__kernel void categorical(CONST_GLOBAL(STORAGE(T), cumulative), GLOBAL(long, out), long rows, long categories,
                          long samples, ulong seed, ulong offset) {
  const long i = (long)global_id();
  if (i >= rows * samples) return;
  __global const STORAGE(T) *sums = CONST_POINTER(STORAGE(T), cumulative) + i / samples * categories;
  const uint4 r = philox_draw(seed, offset, i, 0);
  const R total = LOAD(T, sums, categories - 1);
  const R wanted = CONCAT(unit_, REAL)(
#if PER_DRAW == 4
      r.x, 24
#else
      join_u64(r.x, r.y), 53
#endif
      ) * total;
  long low = 0, high = categories - 1;
  while (low < high) {
    const long middle = (low + high) / 2;
    if (LOAD(T, sums, middle) > wanted) high = middle;
    else low = middle + 1;
  }
  // Rounding may lead past the last category of positive probability; step back to it.
  while (low > 0 && LOAD(T, sums, low) == LOAD(T, sums, low - 1)) low--;
  POINTER(long, out)[i] = low;
}
#endif
