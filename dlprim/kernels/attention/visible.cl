// SPDX-License-Identifier: MIT
// Which slices of keys a mask lets blocks of queries read, or the other way round with BY_KEYS: first what it says of tiles
// of TILE x TILE scores, then a list for each block (attention.clh). Masks that are the same for batches or heads are read
// once: there are `heads` different ones a batch. Defines besides attention.clh's, for lists: BLOCK, SLICE, BY_KEYS.
#include "attention/attention.clh"

#define TILE 64
#define LANES 64
#define NONE 0
#define SOME 1
#define ALL 2

#ifdef BIAS_TAG
__kernel __attribute__((reqd_work_group_size(LANES, 1, 1)))
void attention_mask_tiles(const Params params, CONST_GLOBAL(STORAGE(BIAS_TAG), bias), GLOBAL(uchar, tiles),
                          const int heads) {
  const Params *p = &params;
  const int rows = (p->queries + TILE - 1) / TILE, columns = (p->keys + TILE - 1) / TILE;
  const long tile = get_group_id(0), matrix = tile / columns / rows;
  const int batch = matrix / heads, head = matrix % heads;
  __global const STORAGE(BIAS_TAG) *mask = CONST_POINTER(STORAGE(BIAS_TAG), bias) + head_at(&p->bias, batch, head);
  __local int found[2];  // whether any score takes no part, and whether any does
  if (get_local_id(0) < 2) found[get_local_id(0)] = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  const int first = (int)(tile / columns % rows) * TILE, key = (int)(tile % columns) * TILE + (int)get_local_id(0);
  const int last = min(first + TILE, p->queries);
  bool without = false, with = false;
  if (key < p->keys)
    for (int query = first; query < last; query++) {
      const bool part = LOAD(BIAS_TAG, mask, (long)query * p->bias.row + (long)key * p->bias.column) != 0;
      without |= !part, with |= part;
    }
  if (without) found[0] = 1;  // by whom does not matter
  if (with) found[1] = 1;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (get_local_id(0) == 0) POINTER(uchar, tiles)[tile] = found[1] ? (found[0] ? SOME : ALL) : NONE;
}
#else
// A mask's tiles, rows x columns of them, and the queries and keys of one.
typedef struct {
  int rows, columns, queries, keys;
} Tiles;

// What the mask says of a block's scores in a slice.
inline int scores_of(__global const uchar *states, int block, int slice, const Tiles *t) {
  const int queries = BY_KEYS ? slice * SLICE : block * BLOCK, keys = BY_KEYS ? block * BLOCK : slice * SLICE;
  const int last_row = min((queries + (BY_KEYS ? SLICE : BLOCK) - 1) / t->queries, t->rows - 1);
  const int last_column = min((keys + (BY_KEYS ? BLOCK : SLICE) - 1) / t->keys, t->columns - 1);
  bool none = true, all = true;
  for (int row = queries / t->queries; row <= last_row; row++)
    for (int column = keys / t->keys; column <= last_column; column++) {
      const uchar state = states[(long)row * t->columns + column];
      none &= state == NONE, all &= state == ALL;
    }
  return none ? NONE : all ? ALL : SOME;
}

__kernel __attribute__((reqd_work_group_size(LANES, 1, 1)))
void attention_visible(const Params params, CONST_GLOBAL(uchar, states), GLOBAL(int, visible), const Tiles tiles) {
  const Params *p = &params;
  __local uchar found[LANES];
  const int lane = get_local_id(0), blocks = ((BY_KEYS ? p->keys : p->queries) + BLOCK - 1) / BLOCK;
  const int slices = ((BY_KEYS ? p->queries : p->keys) + SLICE - 1) / SLICE;
  const long matrix = get_group_id(0) / blocks, block = get_group_id(0) % blocks;
  __global const uchar *of = CONST_POINTER(uchar, states) + matrix * tiles.rows * tiles.columns;
  __global int *list = POINTER(int, visible) + (long)get_group_id(0) * p->visible.row;
  int count = 0;
  for (int first = 0; first < slices; first += LANES) {
    const int slice = first + lane, scores = slice < slices ? scores_of(of, block, slice, &tiles) : NONE;
    barrier(CLK_LOCAL_MEM_FENCE);
    found[lane] = scores != NONE;
    barrier(CLK_LOCAL_MEM_FENCE);
    int before = 0, all = 0;
    for (int i = 0; i < LANES; i++) before += i < lane ? found[i] : 0, all += found[i];
    if (scores != NONE) list[1 + count + before] = 2 * slice + (scores == ALL);
    count += all;
  }
  if (lane != 0) return;
  if (count == 0) list[++count] = 0;  // a block reads one slice at least
  list[0] = count;
  list[1 + count] = 2 * slices;
}
#endif
