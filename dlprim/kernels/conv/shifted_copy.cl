// SPDX-License-Identifier: MIT
// What conv/shifted.cl reads. The host also defines T and VEC.
#include "lib/types.clh"

// Writes planes of x: of image and channel, for residues of the stride, rows of `pitch` elements with the padding, and
// `behind` the last one more of it, for the padding left of a row is what there is right of the row above. May write up
// to 15 elements beyond, which belong to the plane.
typedef struct {
  long x_image, x_channel, x_row, x_size;  // x_size: elements that may be read from the first on
  long y_image, y_channel, y_phase, pitch, rows, behind;
  long height, width, padding_h, padding_w, step_h, step_w, phases_h, phases_w;
} Copy;

inline void copy_row(__global const T *x, long step, long first, long left, int lead, int count, int pitch,
                     __global T *y) {
  for (int i = 0; i < lead; i += 16) vstore16((VEC)(0), 0, y + i);
  __global T *to = y + lead;
  x += first;
  int i = 0;
  if (step == 1)
    for (; i < count && i + 16 <= left; i += 16) vstore16(vload16(0, x + i), 0, to + i);
  else if (step == 2)
    for (; i < count && 2 * i + 32 <= left; i += 16)
      vstore16((VEC)(vload16(0, x + 2 * i).even, vload16(0, x + 2 * i + 16).even), 0, to + i);
  for (; i < count; i++) to[i] = x[i * step];
  for (i = lead + count; i < pitch; i += 16) vstore16((VEC)(0), 0, y + i);
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void conv_shifted_copy(CONST_GLOBAL(T, x), GLOBAL(T, y),
                                                                              const Copy s) {
  const long from = get_group_id(1) * s.x_image + get_group_id(0) * s.x_channel;
  __global const T *X = CONST_POINTER(T, x) + from;
  __global T *Y = POINTER(T, y) + get_group_id(1) * s.y_image + get_group_id(0) * s.y_channel;
  for (int i = 0; i < s.phases_h; i++)
    for (int j = 0; j < s.phases_w; j++, Y += s.y_phase) {
      const long before = max(0L, s.padding_w - j + s.step_w - 1) / s.step_w;  // elements left of the image
      const int lead = (int)min(before, s.pitch);
      const long first = lead * s.step_w + j - s.padding_w;
      const long inside = first < s.width ? (s.width - first + s.step_w - 1) / s.step_w : 0;
      const int count = (int)min(inside, s.pitch - lead);
      for (int r = 0; r < s.rows; r++) {
        const long h = r * s.step_h + i - s.padding_h;
        const bool outside = h < 0 || h >= s.height;
        const long start = h * s.x_row + first;
        copy_row(X, s.step_w, start, s.x_size - from - start, outside ? (int)s.pitch : lead, outside ? 0 : count,
                 (int)s.pitch, Y + r * s.pitch);
      }
      for (int r = 0; r < s.behind; r += 16) vstore16((VEC)(0), 0, Y + s.rows * s.pitch + r);
    }
}
