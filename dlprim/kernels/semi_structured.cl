// SPDX-License-Identifier: MIT
// Matrices that keep two of four neighbors in a row: the kept ones, and four bits for every four: the place of the first
// in the lower two, that of the second above. Words of these bits lie row after row, or in the order of CUTLASS.
// Defines: UNIT, tag of unsigned integers of the elements' size; T, tag of the elements; WORD, tag of the words;
// INTERLEAVED, 1 for CUTLASS' order; PAIRED, 1 where two units are an element; MASKED, 1 for what a mask keeps, 0 for what
// is not zero; SWAPPED, 1 where the mask is that of the transpose; ABSOLUTE.
#include "lib/types.clh"

#define U STORAGE(UNIT)
#define W STORAGE(WORD)
#define PATTERNS ((int)sizeof(W) * 2)  // of a word

typedef struct {
  long rows, columns;  // of the matrix, in units
  long row, col;  // its strides
  long mask_row, mask_col;
} Sizes;

inline long word_place(long row, long column, long rows, long width) {
#if INTERLEAVED
  const int group = sizeof(W) == 2 ? 32 : 16, step = sizeof(W) == 2 ? 4 : 2;
  const long moved = row / group * group + row % 8 * step + row % group / 8;
  const int up = moved % 2 == 0 && column % 2 == 1, down = moved % 2 == 1 && column % 2 == 0;
  const long to = column - up + down;
  return to / 2 * rows * 2 + (moved + up - down) * 2 + to % 2;
#else
  return row * width + column;
#endif
}

// Masks: a byte for two rows of four columns, the tiles of 4 x 4 of each block of 8 x 8 one after the other.
inline int is_kept(__global const uchar *masks, long row, long column, const Sizes p) {
  const long byte = row / 8 * p.mask_row + column / 8 * p.mask_col + (row % 8 / 4 * 2 + column % 8 / 4) * 2 + row % 4 / 2;
  return masks[byte] >> (row % 2 * 4 + column % 4) & 1;
}

__kernel void expand(CONST_GLOBAL(U, values), CONST_GLOBAL(W, words), GLOBAL(U, out), Sizes p) {
  const long four = global_id(), fours = p.columns / 4;
  if (four >= p.rows * fours) return;
  const long row = four / fours, column = four % fours;
  const W word = CONST_POINTER(W, words)[word_place(row, column / PATTERNS, p.rows, fours / PATTERNS)];
  const int pattern = word >> (column % PATTERNS * 4) & 15;
  const U first = CONST_POINTER(U, values)[2 * four], second = CONST_POINTER(U, values)[2 * four + 1];
  for (int i = 0; i < 4; i++)
    POINTER(U, out)[4 * four + i] = i == (pattern & 3) ? first : i == pattern >> 2 ? second : 0;
}

// A work-item a word. Of four it takes the two that are kept; of fewer others, of more the first.
__kernel void compress(CONST_GLOBAL(U, dense), CONST_GLOBAL(uchar, masks), GLOBAL(U, values), GLOBAL(W, words),
                       Sizes p) {
  const long place = global_id(), fours = p.columns / 4, width = fours / PATTERNS;
  if (place >= p.rows * width) return;
  const long row = place / width;
  W word = 0;
  for (int n = 0; n < PATTERNS; n++) {
    const long column = (place % width * PATTERNS + n) * 4;
    U x[4];
    int kept[4];
    for (int i = 0; i < 4; i++) {
      x[i] = CONST_POINTER(U, dense)[row * p.row + (column + i) * p.col];
#if MASKED
      const long r = SWAPPED ? column + i : row, c = SWAPPED ? row : column + i;
      kept[i] = is_kept(CONST_POINTER(uchar, masks), r, c, p);
      if (!kept[i]) x[i] = 0;
#else
      const int has_sign = !PAIRED || i % 2 == 1;
      kept[i] = x[i] != 0 && !(has_sign && x[i] == (U)NEGATIVE_ZERO);
#endif
    }
#if PAIRED
    kept[0] = kept[1] = kept[0] || kept[1], kept[2] = kept[3] = kept[2] || kept[3];
#endif
    const int both = kept[0] && kept[1], none = !kept[0] && !kept[1], other = !kept[0] && kept[1];
    const int first = other | none << 1, second = (both || none || kept[3]) | (other || !kept[1]) << 1;
    word |= (W)((W)(first | second << 2) << (n * 4));
    POINTER(U, values)[row * fours * 2 + column / 2] = x[first];
    POINTER(U, values)[row * fours * 2 + column / 2 + 1] = x[second];
  }
  POINTER(W, words)[word_place(row, place % width, p.rows, width)] = word;
}

// The mask of a tile of 4 x 4: the largest first, as long as neither its row nor its column has two. A work-item a tile.
__kernel void choose(CONST_GLOBAL(STORAGE(T), dense), GLOBAL(uchar, masks), Sizes p) {
  const long tile = global_id(), tiles = p.columns / 4;
  if (tile >= p.rows / 4 * tiles) return;
  const long row = tile / tiles * 4, column = tile % tiles * 4;
  float x[16];
  for (int i = 0; i < 16; i++) {
    x[i] = LOAD(T, CONST_POINTER(STORAGE(T), dense), (row + i / 4) * p.row + (column + i % 4) * p.col);
    if (ABSOLUTE) x[i] = fabs(x[i]);
  }
  uint seen = 0, kept = 0;
  for (int step = 0; step < 16; step++) {
    int best = -1;
    for (int i = 0; i < 16; i++)
      if (!(seen >> i & 1) && (best < 0 || x[i] > x[best])) best = i;
    seen |= 1u << best;
    const uint in_row = kept >> (best & 12) & 15, in_column = kept >> (best & 3) & 0x1111;
    if (popcount(in_row) < 2 && popcount(in_column) < 2) kept |= 1u << best;
  }
  __global uchar *mask = POINTER(uchar, masks) + row / 8 * p.mask_row + column / 8 * p.mask_col +
                         (row % 8 / 4 * 2 + column % 8 / 4) * 2;
  mask[0] = (uchar)kept, mask[1] = (uchar)(kept >> 8);
}

__kernel void apply(CONST_GLOBAL(U, dense), CONST_GLOBAL(uchar, masks), GLOBAL(U, out), Sizes p) {
  const long place = global_id();
  if (place >= p.rows * p.columns) return;
  const long row = place / p.columns, column = place % p.columns;
  const int kept = is_kept(CONST_POINTER(uchar, masks), row, column, p);
  POINTER(U, out)[place] = kept ? CONST_POINTER(U, dense)[row * p.row + column * p.col] : 0;
}
