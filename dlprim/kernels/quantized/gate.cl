// SPDX-License-Identifier: MIT
// Channels of images times numbers of their own, all of bytes (primitives/byte_table.hpp), on CPUs. A work-group is one
// work-item, which takes `share` positions. The host also defines
//   X, G   uchar or char, of the image and what multiplies it
//   Y      the same of the result; LOWEST_BYTE of it (lib/saturate.clh)
#include "lib/saturate.clh"
#include "lib/types.clh"

typedef struct {
  ulong positions, share, of_image, channels;  // all positions, those of an image
  float x_zero, gate_zero, factor, y_zero;
} Parameters;

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void gate_bytes(CONST_GLOBAL(X, x), CONST_GLOBAL(G, gate),
                                                                        GLOBAL(Y, y), const Parameters p) {
  const ulong begin = get_group_id(0) * p.share, end = min(begin + p.share, p.positions);
  for (ulong i = begin; i < end; i++) {
    __global const X *from = CONST_POINTER(X, x) + i * p.channels;
    __global const G *by = CONST_POINTER(G, gate) + i / p.of_image * p.channels;
    __global Y *to = POINTER(Y, y) + i * p.channels;
    for (ulong c = 0; c < p.channels; c += 16) {
      const ulong at = min(c, p.channels - 16);  // the last may overlap
      const float16 a = convert_float16(vload16(0, from + at)) - p.x_zero;
      const float16 b = (convert_float16(vload16(0, by + at)) - p.gate_zero) * p.factor;
      vstore16(SATURATE(a * b, p.y_zero), 0, to + at);
    }
  }
}
