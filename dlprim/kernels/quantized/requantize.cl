// SPDX-License-Identifier: MIT
// Bytes of numbers on CPUs, in vectors: rint(x0 / scale) + zero, or rint(x0 * f0 + x1 * f1 + offset) + zero, within the
// limits of the type. A work-group is one work-item, which takes `share` rows of `row` elements. The host also defines
//   X0, X1   tags of the inputs, f32, u8 or i8; INPUTS  1 or 2
//   REPEATED    x1 is one row
//   IN_MEMORY   scale and zero point are elements of buffers
//   Y        char or uchar; LOWEST_BYTE of it (lib/saturate.clh)
#include "lib/saturate.clh"
#include "lib/types.clh"

#define READ(x, i) convert_float16(vload16(0, (x) + (i)))

typedef struct {
  ulong count, row, share;  // count: of rows; the last row ends at `size`
  ulong size;
  float scale, factor0, factor1, offset, zero;
} Parameters;

inline CONCAT(Y, 16) bytes_of(float16 a, float16 b, const Parameters *p) {
#if INPUTS == 1
  const float16 real = a / p->scale;
#else
  const float16 real = fma(a, p->factor0, fma(b, p->factor1, p->offset));
#endif
  return SATURATE(real, p->zero);
}

inline void run(__global const STORAGE(X0) *a, __global const STORAGE(X1) *b, __global Y *to, ulong count,
                const Parameters *p) {
  ulong i = 0;
  for (; i + 16 <= count; i += 16) vstore16(bytes_of(READ(a, i), READ(b, i), p), 0, to + i);
  if (i == count) return;
  float first[16] = {0}, second[16] = {0};
  Y each[16];
  for (ulong k = 0; k < count - i; k++) first[k] = a[i + k], second[k] = b[i + k];
  vstore16(bytes_of(vload16(0, first), vload16(0, second), p), 0, each);
  for (ulong k = 0; k < count - i; k++) to[i + k] = each[k];
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void requantize(CONST_GLOBAL(STORAGE(X0), x0),
                                                                        CONST_GLOBAL(STORAGE(X1), x1), GLOBAL(Y, y),
                                                                        CONST_GLOBAL(float, scale),
                                                                        CONST_GLOBAL(Y, zero), const Parameters given) {
  Parameters p = given;
#if IN_MEMORY
  p.scale = CONST_POINTER(float, scale)[0], p.zero = CONST_POINTER(Y, zero)[0];
#endif
  __global const STORAGE(X0) *a = CONST_POINTER(STORAGE(X0), x0);
  __global const STORAGE(X1) *b = CONST_POINTER(STORAGE(X1), x1);
  __global Y *to = POINTER(Y, y);
  const ulong begin = get_group_id(0) * p.share, end = min(begin + p.share, p.count);
  for (ulong r = begin; r < end; r++) {
    const ulong first = r * p.row;
    run(a + first, REPEATED ? b : b + first, to + first, min(p.row, p.size - first), &p);
  }
}
