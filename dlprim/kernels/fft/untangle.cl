// SPDX-License-Identifier: MIT
// The transforms of lines of real numbers from those of their pairs (z), for lines that a work-group cannot hold.
// A work-item writes two numbers of a line, four where the other half of it is wanted (STORE_KIND 4, else 3).
#include "lib/fft.clh"
#include "lib/fft_lines.clh"

__kernel void fft_untangle(const fft_lines lines, GLOBAL(T, y_data), CONST_GLOBAL(T, z_data),
                           CONST_GLOBAL(T, turns_data)) {
  __global T *y = POINTER(T, y_data);
  __global const T *z = CONST_POINTER(T, z_data), *turns = CONST_POINTER(T, turns_data);
  const uint length = (uint)lines.inputs, pairs = length / 2 + 1;
  const index_t stride = (index_t)lines.out_stride;
  for (ulong number = get_global_id(1); number < lines.count; number += get_global_size(1)) {
    const uint k = (uint)get_global_id(0);
    if (k >= pairs) continue;
    fft_line line;
    find_line(&line, &lines, (index_t)number);
    const T a = z[line.in + (index_t)k], b = z[line.in + (index_t)(k == 0 ? 0 : length - k)];
    store_untangled(&lines, y, line, k, a, b, turns);
  }
}
