// SPDX-License-Identifier: MIT
// float32 as pairs of 16 bits for wgmma.cl: with a factor of each head, so that its largest finite element lies below
// 2^14, an element is the sum of two float16, exact to 2^-22 of itself and 2^-38 of the largest one.
// Of operands 0, 1 and 2 (queries, keys, values) get_group_id(1) is one; get_group_id(0) counts heads and, of each,
// CHUNKS shares of its rows. Defines:
//   LANES    work-items that share a row, of GROUP in a group   VECTOR   4 or 1 elements lie side by side, aligned
//   CHUNKS   see above
#include "attention/attention.clh"

#define UNROLL _Pragma("unroll")
#define HEAD (get_group_id(0) / CHUNKS)
#define CHUNK (get_group_id(0) % CHUNKS)
#define PART(width) (((width) + 63) / 64 * 64)
#define ROWS_AT_ONCE (GROUP / LANES)

typedef struct {
  __global const float *from;
  long to;  // of the operand's parts, in elements
  int rows, width, stride, heads;
} Operand;

// The head that this group works on, and how many the operand has.
inline Operand operand_of(const Params *p, CONST_GLOBAL(float, q), CONST_GLOBAL(float, k), CONST_GLOBAL(float, v)) {
  const int which = get_group_id(1), number = HEAD, all = p->batch * p->heads;
  const int heads = which ? p->heads / p->sharing : p->heads, batch = number / heads, head = number % heads;
  const Layout *layout = which == 0 ? &p->q : which == 1 ? &p->k : &p->v;
  __global const float *from = which == 0   ? CONST_POINTER(float, q)
                               : which == 1 ? CONST_POINTER(float, k)
                                            : CONST_POINTER(float, v);
  const long of_query = 2L * PART(p->width) * p->queries, of_key = 2L * PART(p->width) * p->keys;
  const long of_value = 2L * PART(p->value_width) * p->keys;
  const long all_keys = p->batch * (p->heads / p->sharing);
  Operand x;
  x.heads = p->batch * heads;
  x.rows = which ? p->keys : p->queries, x.width = which == 2 ? p->value_width : p->width, x.stride = layout->row;
  x.from = from + head_at(layout, batch, head);
  x.to = which == 0   ? number * of_query
         : which == 1 ? all * of_query + number * of_key
                      : all * of_query + all_keys * of_key + number * of_value;
  return x;
}
#define OPERAND_ARGUMENTS \
  const Params params, CONST_GLOBAL(float, q), CONST_GLOBAL(float, k), CONST_GLOBAL(float, v)
#define OPERAND operand_of(&params, q_memory, q_offset, k_memory, k_offset, v_memory, v_offset)
// The group's rows of `x`, those of a work-item.
#define EACH_ROW(x)                                                                    \
  const int share = (x.rows + CHUNKS - 1) / CHUNKS, begin = CHUNK * share;            \
  const int end = min(begin + share, x.rows), lane = get_local_id(0) % LANES;          \
  for (int row = begin + get_local_id(0) / LANES; row < end; row += ROWS_AT_ONCE)

// What lies side by side, as one word and one by one.
#if VECTOR == 4
typedef float4 Floats;
typedef ushort4 Halves;
#else
typedef float Floats;
typedef ushort Halves;
#endif
typedef union {
  Floats all;
  float each[VECTOR];
} Elements;
typedef union {
  Halves all;
  ushort each[VECTOR];
} Parts;
#define ELEMENTS_AT(x, row, column) {*(__global const Floats *)((x).from + (long)(row) * (x).stride + (column))}

// Bits of the largest finite magnitude of each share: order is that of the numbers.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void attention_largest(OPERAND_ARGUMENTS, GLOBAL(uint, found)) {
  const Operand x = OPERAND;
  if (HEAD >= x.heads) return;
  uint most = 0;
  EACH_ROW(x)
    for (int column = VECTOR * lane; column < x.width; column += VECTOR * LANES) {
      const Elements values = ELEMENTS_AT(x, row, column);
      UNROLL for (int n = 0; n < VECTOR; n++) {
        const uint bits = as_uint(values.each[n]) & 0x7fffffffu;
        most = max(most, bits < 0x7f800000u ? bits : 0);
      }
    }
  __local uint all;
  if (get_local_id(0) == 0) all = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  atomic_max(&all, most);
  barrier(CLK_LOCAL_MEM_FENCE);
  const long heads = params.batch * params.heads;
  if (get_local_id(0) == 0)
    POINTER(uint, found)[get_group_id(1) * heads * CHUNKS + get_group_id(0)] = all;
}

// Both parts of every element, 0 in columns beyond the width, and what results are multiplied by.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void attention_halves(OPERAND_ARGUMENTS, CONST_GLOBAL(uint, found), GLOBAL(ushort, parts), GLOBAL(float, scales)) {
  const Operand x = OPERAND;
  if (HEAD >= x.heads) return;
  const long place = get_group_id(1) * (long)(params.batch * params.heads) + HEAD;
  __global const uint *shares = CONST_POINTER(uint, found) + place * CHUNKS;
  uint most = 0;
  for (int i = 0; i < CHUNKS; i++) most = max(most, shares[i]);
  const int exponent = max((int)(most >> 23) - 127, -113);
  const float scale = as_float((uint)(127 + 13 - exponent) << 23);
  if (CHUNK == 0 && get_local_id(0) == 0)
    POINTER(float, scales)[place] = as_float((uint)(127 - 13 + exponent) << 23);
  const int part = PART(x.width);
  EACH_ROW(x) {
    __global ushort *to = POINTER(ushort, parts) + x.to + (long)row * 2 * part;
    for (int column = VECTOR * lane; column < part; column += VECTOR * LANES) {
      const bool inside = column < x.width;
      const Elements values = ELEMENTS_AT(x, row, inside ? column : 0);
      Parts upper, lower;
      UNROLL for (int n = 0; n < VECTOR; n++) {
        const float value = inside ? values.each[n] * scale : 0;
        upper.each[n] = encode_f16(value);
        lower.each[n] = isinf(value) ? 0 : encode_f16(value - decode_f16(upper.each[n]));
      }
      *(__global Halves *)(to + column) = upper.all;
      *(__global Halves *)(to + part + column) = lower.all;
    }
  }
}
