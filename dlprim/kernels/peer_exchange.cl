// SPDX-License-Identifier: MIT
// Moves parts between the memories of RANKS devices that reach each other: one kernel on each, all at once. A part goes
// in chunks from a rank's tensor to a slot in the receiver's window and from there to the receiver's tensor. Work-group g
// of a rank waits for the groups g of the others alone, on counts in its own window, so groups need not run at once.
//
// A group sends chunk c before it waits for the others' chunks c - 1. So when it sends chunk c, all have taken chunk c - 4
// from their slots: four slots suffice, and nobody needs to say that a slot is free.
//
// Defines: T: what is copied at once; RANKS; GROUP; SLOT: bytes. Windows are passed from the own one on, the next rank's
// behind it. Offsets within a window are those of primitives/peer_exchange.cpp.
//
// With TAG, a type, what arrives is reduced with the own part, rank by rank, in VALUE(TAG), and rounded once. OPERATION is
// then a number, or `operation`, the argument.
#include "lib/types.clh"

#define ABORTED 64
#define MISMATCH 128
#define CALLS 512
#define COUNTS 2048
#define ARRIVED 4096
#define SLOTS 16384

#define EACH_2(M) M(1)
#define EACH_3(M) EACH_2(M) M(2)
#define EACH_4(M) EACH_3(M) M(3)
#define EACH_5(M) EACH_4(M) M(4)
#define EACH_6(M) EACH_5(M) M(5)
#define EACH_7(M) EACH_6(M) M(6)
#define EACH_8(M) EACH_7(M) M(7)
// M(i) of the windows of all other ranks.
#define EACH(M) CONCAT(EACH_, RANKS)(M)
#define PARAMETER(i) , GLOBAL(uchar, window##i)
#define WINDOW(i) POINTER(uchar, window##i)
#define RANK(i) ((rank + (i)) % RANKS)

// A count as another device may have written it, with all that it wrote before; and the other way round.
#ifdef NV_PTX
inline uint seen(__global uchar *at) {
  uint value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
  return value;
}
inline void tell(__global uchar *at, uint value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}
#else
inline uint seen(__global uchar *at) {
  const uint value = *(volatile __global uint *)at;
  mem_fence(CLK_GLOBAL_MEM_FENCE);
  return value;
}
inline void tell(__global uchar *at, uint value) {
  mem_fence(CLK_GLOBAL_MEM_FENCE);
  *(volatile __global uint *)at = value;
}
#endif

typedef struct {
  ulong stride, part, total;  // bytes: part r begins at r * stride; where that is 0 all are the same one
} parts;

// Elements of a chunk of part `of`.
inline uint length(const parts p, uint of, ulong begin, uint chunk) {
  const ulong start = of * p.stride, left = p.total > start ? p.total - start : 0, end = min(left, p.part);
  return (begin < end ? (uint)min(end - begin, (ulong)chunk) : 0) / sizeof(T);
}

inline void copy(__global T *to, __global const T *from, uint count) {
  uint i = get_local_id(0);
  for (; i + 3 * GROUP < count; i += 4 * GROUP) {
    const T a = from[i], b = from[i + GROUP], c = from[i + 2 * GROUP], d = from[i + 3 * GROUP];
    to[i] = a, to[i + GROUP] = b, to[i + 2 * GROUP] = c, to[i + 3 * GROUP] = d;
  }
  for (; i < count; i += GROUP) to[i] = from[i];
}

// Where a window has a chunk that rank `by` sent.
inline __global T *slot(__global uchar *window, uint chunk, uint by) {
  return (__global T *)(window + SLOTS + (((ulong)get_group_id(0) * 4 + chunk % 4) * RANKS + by) * SLOT);
}

inline __global ulong *call_of(__global uchar *window, uint number, uint by) {
  return (__global ulong *)(window + CALLS + ((number & 1) * 16 + by) * 32);
}

inline __global uchar *arrived(__global uchar *window, uint by) {
  return window + ARRIVED + (get_group_id(0) * 16 + by) * 4;
}

// Whether rank `by` has sent `count` chunks, with the first of them what it takes part in; false once all is aborted.
inline int await(__global uchar *window, uint count, uint by, int first, uint number, ulong4 call) {
  while ((int)(seen(arrived(window, by)) - count) < 0)
    if (seen(window + ABORTED)) return 0;
  if (!first || get_group_id(0)) return 1;
  volatile __global ulong *other = call_of(window, number, by);
  if (other[0] == call.x && other[1] == call.y && other[2] == call.z) return 1;
  tell(window + MISMATCH, (1 + by) | (number & 1) << 8);
  while (!seen(window + ABORTED)) {}
  return 0;
}

#ifdef TAG
// As PeerOperation counts them.
#define AVERAGE 1
#define PRODUCT 2
#define MINIMUM 3
#define MAXIMUM 4

// NaN where one of both is, as torch.minimum and torch.maximum.
inline VALUE(TAG) combined(VALUE(TAG) a, VALUE(TAG) b, uint operation) {
  switch (operation) {
    case PRODUCT: return a * b;
    case MINIMUM: return a < b || a != a ? a : b;
    case MAXIMUM: return a > b || a != a ? a : b;
    default: return a + b;
  }
}

#define ITEMS (sizeof(T) / sizeof(STORAGE(TAG)))
#define AT_ONCE (RANKS > 4 ? 2 : 4)
typedef union {
  T word;
  STORAGE(TAG) items[ITEMS];
} packed;

// The words of all ranks, reduced in their order.
inline T reduced(const packed *words, uint operation) {
  packed result;
  _Pragma("unroll") for (uint item = 0; item < ITEMS; item++) {
    VALUE(TAG) value = DECODE(TAG, words[0].items[item]);
    _Pragma("unroll") for (uint r = 1; r < RANKS; r++)
      value = combined(value, DECODE(TAG, words[r].items[item]), operation);
    if (operation == AVERAGE) value /= RANKS;
    result.items[item] = ENCODE(TAG, value);
  }
  return result.word;
}

// A chunk of the own part and those in the window's slots; `to` may be where the own part is.
inline void reduce(__global T *to, __global const T *own, __global uchar *window, uint chunk, uint rank, uint count,
                   uint operation) {
  __global const T *from[RANKS];
  _Pragma("unroll") for (uint r = 0; r < RANKS; r++) from[r] = r == rank ? own : slot(window, chunk, r);
  for (uint i = get_local_id(0); i < count; i += AT_ONCE * GROUP) {
    packed words[AT_ONCE][RANKS];
    _Pragma("unroll") for (uint j = 0; j < AT_ONCE; j++)
      _Pragma("unroll") for (uint r = 0; r < RANKS; r++)
        if (i + j * GROUP < count) words[j][r].word = from[r][i + j * GROUP];
    _Pragma("unroll") for (uint j = 0; j < AT_ONCE; j++)
      if (i + j * GROUP < count) to[i + j * GROUP] = reduced(words[j], operation);
  }
}
#endif

// `senders`: by rank, whose parts are received, and with `own`, whether this rank's part goes to its own tensor. `number`
// counts calls; `call` says what they are, alike on all ranks.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void peer_exchange(
    CONST_GLOBAL(T, from), GLOBAL(T, to), GLOBAL(uchar, window0) EACH(PARAMETER), const parts given, const parts taken,
    uint chunk, uint steps, uint senders, uint own, uint rank, uint operation, uint number, ulong4 call) {
  __local int ended;
  __global const T *source = CONST_POINTER(T, from);
  __global T *target = POINTER(T, to);
  __global uchar *mine = WINDOW(0);
  const uint lane = get_local_id(0), group = get_group_id(0);
  __global uint *count = (__global uint *)(mine + COUNTS) + group;
  const uint before = *count;
  if (lane == 0) ended = 0;
  int stop = 0;
  for (uint step = 0; step <= steps; step++) {
    const ulong begin = ((ulong)step * get_num_groups(0) + group) * chunk;
    const ulong former = begin - (ulong)get_num_groups(0) * chunk;
#define SEND(i)                                                                                     \
  copy(slot(WINDOW(i), before + step, rank), source + (RANK(i) * given.stride + begin) / sizeof(T), \
       length(given, RANK(i), begin, chunk));                                                       \
  if (step == 0 && group == 0 && lane == 0) {                                                       \
    __global ulong *what = call_of(WINDOW(i), number, rank);                                        \
    what[0] = call.x, what[1] = call.y, what[2] = call.z;                                           \
  }
#define SAY(i) if (lane == i) tell(arrived(WINDOW(i), rank), before + step + 1);
#define RECEIVE(i)                                                                                       \
  if (senders >> RANK(i) & 1)                                                                            \
    copy(target + (RANK(i) * taken.stride + former) / sizeof(T), slot(mine, before + step - 1, RANK(i)), \
         length(taken, RANK(i), former, chunk));
    if (step < steps && !stop) {
      EACH(SEND)
      if (own)
        copy(target + (rank * taken.stride + begin) / sizeof(T), source + (rank * given.stride + begin) / sizeof(T),
             length(given, rank, begin, chunk));
    }
    barrier(CLK_GLOBAL_MEM_FENCE | CLK_LOCAL_MEM_FENCE);
    if (step < steps && !stop) {
      EACH(SAY)
    }
    barrier(CLK_LOCAL_MEM_FENCE);  // where work-items run one after the other, none waits before all have spoken
    if (step > 0 && !stop && lane > 0 && lane < RANKS &&
        !await(mine, before + step, RANK(lane), step == 1, number, call))
      ended = 1;
    barrier(CLK_GLOBAL_MEM_FENCE | CLK_LOCAL_MEM_FENCE);
    stop = ended;
    if (step > 0 && !stop) {
#ifdef TAG
      reduce(target + former / sizeof(T), source + (rank * given.stride + former) / sizeof(T), mine, before + step - 1,
             rank, length(taken, 0, former, chunk), OPERATION);
#else
      EACH(RECEIVE)
#endif
    }
  }
  if (lane == 0) *count = before + steps;
}
