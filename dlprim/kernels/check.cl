// SPDX-License-Identifier: MIT
// Reports `code` when an element is not within [low, high]; so is what is no number. Defines: T tag of the elements.
#include "lib/types.clh"
#define V VALUE(T)

__kernel void check_range(CONST_GLOBAL(STORAGE(T), x), GLOBAL(int, status), int code, ulong count, float low,
                          float high) {
  __global const STORAGE(T) *x = CONST_POINTER(STORAGE(T), x);
  bool good = true;
  for (ulong i = get_global_id(0); i < count; i += get_global_size(0)) {
    const V v = LOAD(T, x, i);
    good &= v >= (V)low && v <= (V)high;
  }
  if (!good) REPORT(POINTER(int, status), code, 0);
}
