// SPDX-License-Identifier: MIT
// Reductions of every form. The host defines the accumulator (lib/reduction.clh), the form (ReduceForm) and
//   OPERANDS   kernel parameters of inputs and outputs     POINTERS   their pointers
//   LOADS      x0, x1.. from offsets at(0), at(1)..         STEP       adds them to p->..
//   HELD, HOLD, TAKE   arrays [AHEAD][VECTOR], loads into them at [ahead][v], and x0, x1.. from there; with PACKED
//                      one load fills [ahead][0 .. VECTOR)
//   FINISH     outputs from p->.. at offsets out(0)..       TO_PARTIALS, FROM_PARTIALS   stages of a split reduction
//   BLOCK_STEP   where defined, adds ITEMS elements of x0 at once
#include "lib/reduction.clh"

#ifdef CPU_DEVICE
#define EACH_RESULT _Pragma("nounroll")  // builds faster
#else
#define EACH_RESULT _Pragma("unroll")
#endif
#if LINES
#define COUNT width  // of the accumulators that a tile has use for
#elif defined(BLOCK_STEP) && !COLUMNS
#define COUNT 1
#else
#define COUNT VECTOR
#endif

// The kept element that accumulator v of a work-item stands for; packed, they are neighbours, loaded as one.
#if PACKED && COLUMNS
#define KEPT_ITEM(v) (item * VECTOR + (v))
#define KEPT_STEP 1
#else
#define KEPT_ITEM(v) ((v) * KEPT_ITEMS + item)
#define KEPT_STEP KEPT_ITEMS
#endif
#if COLUMNS && ALIGNED
#define at(k) (kept_offsets[k] + offsets[k] + v * KEPT_STEP * STRIDE(plan, 0, k))
#else
#define at(k) (kept_offsets[k] + offsets[k])
#endif
#define ADD(accumulator, position)  \
  do {                              \
    acc_t *p = &(accumulator);      \
    const IDX index = (position);   \
    LOADS                           \
    STEP                            \
  } while (0)

#if LINES
#define TILE ((IDX)plan->width)
#elif COLUMNS
#define TILE (KEPT_ITEMS * VECTOR)
#else
#define TILE KEPT_ITEMS
#endif
// Elements after which running accumulators are folded, so that long sums keep their low bits.
#define BLOCK ((IDX)REDUCE_ITEMS * (COLUMNS ? 512 : 256 * VECTOR))

// Offsets of the inputs at the start of a segment of the innermost reduced dim.
inline void segment_offsets(const reduce_plan *plan, IDX segment, IDX *start) {
#pragma unroll
  for (int k = 0; k < INPUTS; k++) start[k] = 0;
#if NESTED
  add_offsets(plan, segment, KEPT_DIMS + 1, KEPT_DIMS + REDUCED_DIMS, 0, INPUTS, start);
#endif
}

// Offsets of the input elements `r` of a segment that starts at `base` with `start`.
inline void element_offsets(const reduce_plan *plan, IDX r, IDX base, const IDX *start, IDX *offsets) {
#pragma unroll
  for (int k = 0; k < INPUTS; k++) offsets[k] = 0;
#if NESTED
  add_offsets(plan, r - base, KEPT_DIMS, KEPT_DIMS + 1, 0, INPUTS, offsets);
#pragma unroll
  for (int k = 0; k < INPUTS; k++) offsets[k] += start[k];
#else
  add_offsets(plan, r, KEPT_DIMS, KEPT_DIMS + REDUCED_DIMS, 0, INPUTS, offsets);
#endif
}

// Element `item` of a tile: its linear index, and offsets of the operands [from, to). False for elements of another
// tile: those past the end of a flat tile (moved to the last element), or before an aligned one that was moved to fit.
inline bool kept_element(const reduce_plan *plan, IDX tile, uint item, const int from, const int to, IDX *o,
                         IDX *offsets) {
#pragma unroll
  for (int k = from; k < to; k++) offsets[k - from] = 0;
#if ALIGNED
  const IDX outer = KEPT_DIMS == 1 ? 0 : tile / plan->inner_tiles;
  const IDX wanted = (tile - outer * plan->inner_tiles) * TILE, inner = plan->dims[0].size;
  const IDX i = (LINES ? wanted : min(wanted, inner - TILE)) + item;
  if (KEPT_DIMS > 1) add_offsets(plan, outer, 1, KEPT_DIMS, from, to, offsets);
  add_offsets(plan, i, 0, 1, from, to, offsets);
  *o = outer * inner + i;
  return i >= wanted;
#else
  const IDX wanted = tile * TILE + item;
  *o = min(wanted, (IDX)plan->kept - 1);
  add_offsets(plan, *o, 0, KEPT_DIMS, from, to, offsets);
  return wanted < (IDX)plan->kept;
#endif
}

// Adds the elements [base, stop) of a segment to running[]: AHEAD rows at once (0 on CPUs), all loads before the sums.
#define EACH_HELD _Pragma("unroll") for (uint ahead = 0; ahead < AHEAD; ahead++)
#define EACH_ACCUMULATOR _Pragma("unroll") for (uint v = 0; v < VECTOR; v++)
#if PACKED
#define EACH_HOLD for (uint v = 0; v < 1; v++)
#else
#define EACH_HOLD EACH_ACCUMULATOR
#endif
#define ADD_HELD(position)              \
  do {                                  \
    acc_t *p = &running[v];             \
    const IDX index = (position);       \
    TAKE                                \
    STEP                                \
  } while (0)

#ifdef BLOCK_STEP
#define ITEM held_x0[ahead][v]
#if COLUMNS
#define ITEMS AHEAD
#define EACH_ITEM EACH_HELD
#define ADD_ALL_HELD(position)      \
  EACH_ACCUMULATOR {                \
    acc_t *p = &running[v];         \
    BLOCK_STEP                      \
  }
#else
#define ITEMS (AHEAD * VECTOR)
#define EACH_ITEM EACH_HELD EACH_ACCUMULATOR
#define ADD_ALL_HELD(position)      \
  {                                 \
    acc_t *p = &running[0];         \
    BLOCK_STEP                      \
  }
#endif
#else
#define ADD_ALL_HELD(position) EACH_HELD EACH_ACCUMULATOR ADD_HELD(position);
#endif

#if LINES
// Rows that meet an accumulator while it is in a register.
#define ROWS 4
#define ADD_ROW(n)                                       \
  do {                                                   \
    const IDX *offsets = row_offsets[n], index = r + n;  \
    LOADS                                                \
    STEP                                                 \
  } while (0)
#define ACCUMULATE                                                                                     \
  IDX r = base, row_offsets[ROWS][INPUTS];                                                             \
  for (; r + ROWS <= stop; r += ROWS) {                                                                \
    for (uint n = 0; n < ROWS; n++) element_offsets(plan, r + n, base, start, row_offsets[n]);         \
    for (size_t v = 0; v < width; v++) {                                                               \
      acc_t *p = &running[v];                                                                          \
      ADD_ROW(0);                                                                                      \
      ADD_ROW(1);                                                                                      \
      ADD_ROW(2);                                                                                      \
      ADD_ROW(3);                                                                                      \
    }                                                                                                  \
  }                                                                                                    \
  for (; r < stop; r++) {                                                                              \
    element_offsets(plan, r, base, start, offsets);                                                    \
    for (size_t v = 0; v < width; v++) ADD(running[v], r);                                             \
  }
#elif COLUMNS
#if ALIGNED
#define COLUMN_OFFSETS
#else
#define COLUMN_OFFSETS const IDX *kept_offsets = column_offsets[v];
#endif
#define ROW(ahead) (r + (ahead) * REDUCE_ITEMS)
#if AHEAD
#define ACCUMULATE_AHEAD                                            \
  for (; ROW(AHEAD - 1) < stop; r += AHEAD * REDUCE_ITEMS) {        \
    HELD                                                            \
    EACH_HELD {                                                     \
      element_offsets(plan, ROW(ahead), base, start, offsets);      \
      EACH_HOLD {                                                   \
        COLUMN_OFFSETS                                              \
        HOLD                                                        \
      }                                                             \
    }                                                               \
    ADD_ALL_HELD(ROW(ahead))                                        \
  }
#else
#define ACCUMULATE_AHEAD
#endif
#define ACCUMULATE                                            \
  IDX r = base + lane;                                        \
  ACCUMULATE_AHEAD                                            \
  for (; r < stop; r += REDUCE_ITEMS) {                       \
    element_offsets(plan, r, base, start, offsets);           \
    EACH_ACCUMULATOR {                                        \
      COLUMN_OFFSETS                                          \
      ADD(running[v], r);                                     \
    }                                                         \
  }
#else
// Element v of a work-item's share `ahead` of what the group takes at once.
#if PACKED
#define ELEMENT(ahead, v) (r + ((ahead) * REDUCE_ITEMS + lane) * VECTOR + (v))
#else
#define ELEMENT(ahead, v) (r + ((ahead) * VECTOR + (v)) * REDUCE_ITEMS + lane)
#endif
#if AHEAD
#define SHARES AHEAD
#define ADD_VECTOR                                                         \
  HELD                                                                     \
  EACH_HELD EACH_HOLD {                                                    \
    element_offsets(plan, ELEMENT(ahead, v), base, start, offsets);        \
    HOLD                                                                   \
  }                                                                        \
  ADD_ALL_HELD(ELEMENT(ahead, v))
#else
#define SHARES 1
#define ADD_VECTOR                                                         \
  EACH_ACCUMULATOR {                                                       \
    element_offsets(plan, ELEMENT(0, v), base, start, offsets);            \
    ADD(running[v], ELEMENT(0, v));                                        \
  }
#endif
#define TAKEN (SHARES * VECTOR * REDUCE_ITEMS)
#define ACCUMULATE                                                                    \
  IDX r = base;                                                                       \
  for (; r + TAKEN <= stop; r += TAKEN) { ADD_VECTOR }                                \
  for (r += lane; r < stop; r += REDUCE_ITEMS) {                                      \
    element_offsets(plan, r, base, start, offsets);                                   \
    ADD(running[0], r);                                                               \
  }
#endif

__kernel __attribute__((reqd_work_group_size(KEPT_ITEMS * REDUCE_ITEMS, 1, 1)))
void reduce(const reduce_plan plan_value, const scalar_list scalars, OPERANDS) {
  const reduce_plan *plan = &plan_value;
  POINTERS
#if REDUCE_ITEMS > 1
  __local acc_t scratch[KEPT_ITEMS * REDUCE_ITEMS];
#endif
#if defined(CPU_DEVICE) && KEPT_ITEMS == 1  // a remainder would hide that work-items take neighbours
  const size_t item = 0, lane = get_local_id(0);
#elif defined(CPU_DEVICE) && REDUCE_ITEMS == 1
  const size_t item = get_local_id(0), lane = 0;
#elif COLUMNS
  const uint item = get_local_id(0) % KEPT_ITEMS, lane = get_local_id(0) / KEPT_ITEMS;
#else
  const uint item = get_local_id(0) / REDUCE_ITEMS, lane = get_local_id(0) % REDUCE_ITEMS;
#endif
  const IDX begin = (IDX)get_group_id(1) * (IDX)plan->chunk;
  const IDX end = min(begin + (IDX)plan->chunk, (IDX)plan->reduced);
  const IDX segment = NESTED ? (IDX)plan->dims[KEPT_DIMS].size : BLOCK;
  for (uint pass = 0; pass < plan->passes; pass++) {
    const IDX tile = (IDX)get_group_id(0) * plan->passes + pass;
    if (tile >= plan->tiles) break;
    IDX o;
#if COLUMNS && !ALIGNED
    IDX column_offsets[VECTOR][INPUTS];
#pragma unroll
    for (uint v = 0; v < VECTOR; v++)
      kept_element(plan, tile, KEPT_ITEM(v), 0, INPUTS, &o, column_offsets[v]);
#else
    IDX kept_offsets[INPUTS];
    kept_element(plan, tile, KEPT_ITEM(0), 0, INPUTS, &o, kept_offsets);
#endif
    acc_t total[VECTOR], running[VECTOR];
#if LINES
    const size_t width = min(plan->width, (uint)(plan->dims[0].size - tile % plan->inner_tiles * plan->width));
#endif
    clear_accumulators(total, COUNT);
    clear_accumulators(running, COUNT);
    IDX folded = begin;
    for (IDX base = begin; base < end; base += segment) {
      const IDX stop = min(base + segment, end);
      IDX start[INPUTS], offsets[INPUTS];
      segment_offsets(plan, base / segment, start);
      ACCUMULATE
      if (stop - folded >= BLOCK || stop == end) {
        folded = stop;
        fold_accumulators(total, running, COUNT);
      }
    }
#if !COLUMNS
#pragma unroll
    for (uint others = COUNT / 2; others > 0; others /= 2) {
#pragma unroll
      for (uint v = 0; v < others; v++) combine(&total[v], total[v + others]);
    }
#endif
#if LINES
    IDX first[OUTPUTS], out[OUTPUTS];
    kept_element(plan, tile, 0, INPUTS, INPUTS + OUTPUTS, &o, first);
    for (size_t v = 0; v < width; v++) {
      const acc_t *p = &total[v];
      for (int k = 0; k < OUTPUTS; k++) out[k] = first[k] + v * STRIDE(plan, 0, INPUTS + k);
#if TO_PARTIALS
      partials[(IDX)get_group_id(1) * (IDX)plan->kept + o + v] = *p;
#else
      const ulong n = plan->count;
      FINISH
#endif
    }
#else
    EACH_RESULT for (uint v = 0; v < (COLUMNS ? VECTOR : 1); v++) {
      acc_t *p = &total[v];
#if REDUCE_ITEMS > 1
      merge_group(scratch, p, lane, item);
#endif
      IDX out[OUTPUTS];
      const bool valid = kept_element(plan, tile, KEPT_ITEM(v), INPUTS, INPUTS + OUTPUTS, &o, out);
      if (lane == 0 && valid) {
#if TO_PARTIALS
        partials[(IDX)get_group_id(1) * (IDX)plan->kept + o] = *p;
#else
        const ulong n = plan->count;
        FINISH
#endif
      }
    }
#endif  // LINES
  }
}
