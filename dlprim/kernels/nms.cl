// SPDX-License-Identifier: MIT
// Greedy suppression of boxes that overlap a better one. Boxes (x1, y1, x2, y2) come sorted, the best first. `overlaps`
// marks, for rows of boxes, the later boxes that each of them would suppress, 32 in a word; `choose`, one work-group,
// walks through the rows in order. Defines: T tag, GROUP (of choose).
#include "lib/types.clh"
#pragma OPENCL FP_CONTRACT OFF  // so that boxes at the threshold are decided as on other devices
#define R ACC(T)

typedef struct {
  int first, rows, boxes, words;  // rows first ... first + rows - 1 of the boxes; words of a row
  float2 threshold;
} Rows;

// marks[i, w]: bit k is set where box 32 w + k comes after row i and their intersection over union is above the threshold.
__kernel void nms_overlaps(CONST_GLOBAL(STORAGE(T), boxes), GLOBAL(uint, marks), Rows p) {
  const int i = get_global_id(0), w = get_global_id(1), box = p.first + i;
  if (i >= p.rows || w >= p.words) return;
  __global const STORAGE(T) *boxes = CONST_POINTER(STORAGE(T), boxes);
  const R x1 = LOAD(T, boxes, 4L * box), y1 = LOAD(T, boxes, 4L * box + 1), x2 = LOAD(T, boxes, 4L * box + 2),
          y2 = LOAD(T, boxes, 4L * box + 3);
  const R area = (x2 - x1) * (y2 - y1), threshold = REAL_OF(R, p.threshold);
  uint bits = 0;
  for (int k = max(box + 1 - 32 * w, 0); k < min(p.boxes - 32 * w, 32); k++) {
    const long at = 4L * (32 * w + k);
    const R a1 = LOAD(T, boxes, at), b1 = LOAD(T, boxes, at + 1), a2 = LOAD(T, boxes, at + 2),
            b2 = LOAD(T, boxes, at + 3);
    const R width = fmax((R)0, fmin(x2, a2) - fmax(x1, a1)), height = fmax((R)0, fmin(y2, b2) - fmax(y1, b1));
    const R both = width * height;
    if (both / (area + (a2 - a1) * (b2 - b1) - both) > threshold) bits |= 1u << k;
  }
  POINTER(uint, marks)[(long)i * p.words + w] = bits;
}

// `removed` [words], zero at first, gathers the marks of what is kept. p.first is a multiple of 32.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void nms_choose(CONST_GLOBAL(uint, marks), GLOBAL(uint, removed), GLOBAL(uchar, keep), Rows p) {
  __global const uint *marks = CONST_POINTER(uint, marks);
  __global uint *removed = POINTER(uint, removed);
  __local uint diagonal[32], chosen;
  const int item = get_local_id(0);
  for (int base = 0; base < p.rows; base += 32) {
    const int word = (p.first + base) / 32, rows = min(p.rows - base, 32);
    for (int k = item; k < rows; k += GROUP) diagonal[k] = marks[(long)(base + k) * p.words + word];
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (item == 0) {
      uint gone = removed[word], kept = 0;
      for (int k = 0; k < rows; k++)
        if (!(gone >> k & 1u)) kept |= 1u << k, gone |= diagonal[k];
      chosen = kept;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const uint kept = chosen;
    for (int k = item; k < rows; k += GROUP) POINTER(uchar, keep)[p.first + base + k] = kept >> k & 1u;
    for (int w = word + 1 + item; w < p.words; w += GROUP) {
      uint gone = removed[w];
      for (int k = 0; k < rows; k++)
        if (kept >> k & 1u) gone |= marks[(long)(base + k) * p.words + w];
      removed[w] = gone;
    }
  }
}
