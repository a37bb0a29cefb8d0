// SPDX-License-Identifier: MIT
// Padding by reflection or replication, sliding windows, and their transposes as sums over what an element became. The
// host defines T, the tag of elements; REFLECT for reflection.
#include "lib/each_line.clh"
#include "lib/types.clh"

typedef struct {
  long in[3], out[3], before[3];  // z, y, x
  ulong count;
} Padding;

// Coordinate of the input behind coordinate `at` of the padded one.
inline long inner(long at, long before, long size) {
  at -= before;
#ifdef REFLECT
  at = at < 0 ? -at : at;
  at = at >= size ? 2 * (size - 1) - at : at;
#endif
  return clamp(at, 0L, size - 1);
}

#ifdef FORWARD
__kernel void pad(GLOBAL(STORAGE(T), out), CONST_GLOBAL(STORAGE(T), in), Padding p) {
  EACH_LINE(line, p.count, p.out[2]) {
    const ulong plane = line / (ulong)p.out[1], volume = plane / (ulong)p.out[0];
    const long y = inner((long)(line % (ulong)p.out[1]), p.before[1], p.in[1]);
    const long z = inner((long)(plane % (ulong)p.out[0]), p.before[0], p.in[0]);
    __global const STORAGE(T) *from =
        CONST_POINTER(STORAGE(T), in) + (((long)volume * p.in[0] + z) * p.in[1] + y) * p.in[2];
    __global STORAGE(T) *to = POINTER(STORAGE(T), out) + line * (ulong)p.out[2];
#ifdef CPU_DEVICE
    const long left = clamp(p.before[2], 0L, p.out[2]);
    const long right = clamp(p.before[2] + p.in[2], left, p.out[2]);
    for (long x = 0; x < left; x++) to[x] = from[inner(x, p.before[2], p.in[2])];
#pragma clang loop vectorize(assume_safety)
    for (long x = left; x < right; x++) to[x] = from[x - p.before[2]];
    for (long x = right; x < p.out[2]; x++) to[x] = from[inner(x, p.before[2], p.in[2])];
#else
    EACH_OF_LINE(x, p.out[2])
    to[x] = from[inner(x, p.before[2], p.in[2])];
#endif
  }
}
#endif

// The k-th range of padded coordinates made from coordinate `at`.
inline void outer(int k, long at, long before, long size, long out, long *begin, long *end) {
#ifdef REFLECT
  const long place = k == 0 ? at + before : k == 1 ? before - at : before + 2 * (size - 1) - at;
  const bool exists = (k == 0 || (k == 1 && at > 0) || (k == 2 && at < size - 1)) && place >= 0 && place < out;
  *begin = place;
  *end = exists ? place + 1 : place;
#else
  *begin = at == 0 ? 0 : max(at + before, 0L);
  *end = at == size - 1 ? out : min(at + before + 1, out);
#endif
}

#ifdef BACKWARD
#ifdef REFLECT
#define RANGES 3
#else
#define RANGES 1
#endif
// What became of element (z, y, x), summed.
inline ACC(T) gradient_of(__global const STORAGE(T) *grad, const Padding *p, long z, long y, long x) {
  ACC(T) sum = 0;
  long z0, z1, y0, y1, x0, x1;
  for (int a = 0; a < RANGES; a++) {
    outer(a, z, p->before[0], p->in[0], p->out[0], &z0, &z1);
    for (; z0 < z1; z0++)
      for (int b = 0; b < RANGES; b++) {
        outer(b, y, p->before[1], p->in[1], p->out[1], &y0, &y1);
        for (; y0 < y1; y0++)
          for (int c = 0; c < RANGES; c++) {
            outer(c, x, p->before[2], p->in[2], p->out[2], &x0, &x1);
            for (; x0 < x1; x0++) sum += LOAD(T, grad, (z0 * p->out[1] + y0) * p->out[2] + x0);
          }
      }
  }
  return sum;
}

#ifdef CPU_DEVICE
#define PIECE 256
// Elements [left, right) of a line, each of which became one of its line alone: neighbours are added to neighbours.
inline void gradients_between(__global const STORAGE(T) *grad, __global STORAGE(T) *to, const Padding *p, long z, long y,
                              long left, long right) {
  for (long begin = left; begin < right; begin += PIECE) {
    const int length = (int)min((long)PIECE, right - begin);
    ACC(T) sums[PIECE];
    for (int i = 0; i < PIECE; i++) sums[i] = 0;
    long z0, z1, y0, y1;
    for (int a = 0; a < RANGES; a++) {
      outer(a, z, p->before[0], p->in[0], p->out[0], &z0, &z1);
      for (; z0 < z1; z0++)
        for (int b = 0; b < RANGES; b++) {
          outer(b, y, p->before[1], p->in[1], p->out[1], &y0, &y1);
          for (; y0 < y1; y0++) {
            const long from = (z0 * p->out[1] + y0) * p->out[2] + begin + p->before[2];
            for (int i = 0; i < length; i++) sums[i] += LOAD(T, grad, from + i);
          }
        }
    }
    for (int i = 0; i < length; i++) STORE(T, to, begin + i, sums[i]);
  }
}
#endif

__kernel void pad_backward(GLOBAL(STORAGE(T), grad_in), CONST_GLOBAL(STORAGE(T), grad_out), Padding p) {
  EACH_LINE(line, p.count, p.in[2]) {
    const ulong plane = line / (ulong)p.in[1], volume = plane / (ulong)p.in[0];
    const long y = (long)(line % (ulong)p.in[1]), z = (long)(plane % (ulong)p.in[0]);
    __global const STORAGE(T) *grad = CONST_POINTER(STORAGE(T), grad_out) + volume * p.out[0] * p.out[1] * p.out[2];
    __global STORAGE(T) *to = POINTER(STORAGE(T), grad_in) + line * (ulong)p.in[2];
#ifdef CPU_DEVICE
    const long before = p.before[2], size = p.in[2], out = p.out[2];
#ifdef REFLECT
    const long first = max(before, 0L) + 1, end = min(size - 1, before + 2 * size - 1 - out);
#else
    const long first = 1, end = size - 1;
#endif
    const long left = clamp(max(first, -before), 0L, size), right = clamp(min(end, out - before), left, size);
    for (long x = 0; x < left; x++) STORE(T, to, x, gradient_of(grad, &p, z, y, x));
    gradients_between(grad, to, &p, z, y, left, right);
    for (long x = right; x < size; x++) STORE(T, to, x, gradient_of(grad, &p, z, y, x));
#else
    EACH_OF_LINE(x, p.in[2])
    STORE(T, to, x, gradient_of(grad, &p, z, y, x));
#endif
  }
}
#endif

typedef struct {
  long size[2], windows[2], kernel_size[2], stride[2], padding[2], dilation[2];  // y, x
  ulong count;
} Windows;

#ifdef UNFOLD
__kernel void unfold(GLOBAL(STORAGE(T), columns), CONST_GLOBAL(STORAGE(T), image), Windows w) {
  EACH_LINE(line, w.count, w.windows[1]) {
    ulong rest = line;
    const long wy = (long)(rest % (ulong)w.windows[0]);
    rest /= (ulong)w.windows[0];
    const long kx = (long)(rest % (ulong)w.kernel_size[1]);
    rest /= (ulong)w.kernel_size[1];
    const long ky = (long)(rest % (ulong)w.kernel_size[0]);
    rest /= (ulong)w.kernel_size[0];
    const long y = wy * w.stride[0] + ky * w.dilation[0] - w.padding[0], left = kx * w.dilation[1] - w.padding[1];
    const bool inside = y >= 0 && y < w.size[0];
    __global const STORAGE(T) *from = CONST_POINTER(STORAGE(T), image) + ((long)rest * w.size[0] + y) * w.size[1];
    __global STORAGE(T) *to = POINTER(STORAGE(T), columns) + line * (ulong)w.windows[1];
    EACH_OF_LINE(wx, w.windows[1]) {
      const long x = wx * w.stride[1] + left;
      to[wx] = inside && x >= 0 && x < w.size[1] ? from[x] : (STORAGE(T))0;
    }
  }
}
#endif

#ifdef FOLD
#define PIECE 256
__kernel void fold(GLOBAL(STORAGE(T), image), CONST_GLOBAL(STORAGE(T), columns), Windows w) {
  const long window_count = w.windows[0] * w.windows[1];
  EACH_LINE(line, w.count, w.size[1]) {
    const ulong batch = line / (ulong)w.size[0];
    const long y = (long)(line % (ulong)w.size[0]) + w.padding[0];
    __global const STORAGE(T) *columns =
        CONST_POINTER(STORAGE(T), columns) + batch * w.kernel_size[0] * w.kernel_size[1] * window_count;
    __global STORAGE(T) *to = POINTER(STORAGE(T), image) + line * (ulong)w.size[1];
#ifdef CPU_DEVICE
    // Window by window, so that neighbours are added to neighbours.
    for (long begin = 0; begin < w.size[1]; begin += PIECE) {
      const long length = min((long)PIECE, w.size[1] - begin);
      ACC(T) sums[PIECE];
      for (int i = 0; i < PIECE; i++) sums[i] = 0;
      for (long ky = 0; ky < w.kernel_size[0]; ky++) {
        const long top = y - ky * w.dilation[0], wy = top / w.stride[0];
        if (top < 0 || top % w.stride[0] != 0 || wy >= w.windows[0]) continue;
        for (long kx = 0; kx < w.kernel_size[1]; kx++) {
          // Window wx reaches element wx * stride + left of this piece.
          const long left = kx * w.dilation[1] - w.padding[1] - begin, stride = w.stride[1];
          const long first = left < 0 ? (-left + stride - 1) / stride : 0;
          const long end = left < length ? min(w.windows[1], (length - left + stride - 1) / stride) : 0;
          __global const STORAGE(T) *from =
              columns + (ky * w.kernel_size[1] + kx) * window_count + wy * w.windows[1];
          if (stride == 1)
            for (long wx = first; wx < end; wx++) sums[wx + left] += LOAD(T, from, wx);
          else
            for (long wx = first; wx < end; wx++) sums[wx * stride + left] += LOAD(T, from, wx);
        }
      }
      for (int i = 0; i < (int)length; i++) STORE(T, to, begin + i, sums[i]);
    }
#else
    EACH_OF_LINE(at, w.size[1])
    const long x = at + w.padding[1];
    ACC(T) sum = 0;
    for (long ky = 0; ky < w.kernel_size[0]; ky++) {
      const long top = y - ky * w.dilation[0], wy = top / w.stride[0];
      if (top < 0 || top % w.stride[0] != 0 || wy >= w.windows[0]) continue;
      for (long kx = 0; kx < w.kernel_size[1]; kx++) {
        const long left = x - kx * w.dilation[1], wx = left / w.stride[1];
        if (left < 0 || left % w.stride[1] != 0 || wx >= w.windows[1]) continue;
        sum += LOAD(T, columns, (ky * w.kernel_size[1] + kx) * window_count + wy * w.windows[1] + wx);
      }
    }
    STORE(T, to, at, sum);
#endif
  }
}
#endif
