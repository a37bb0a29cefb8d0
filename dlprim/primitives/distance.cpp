// SPDX-License-Identifier: MIT
#include <dlprim/primitives/distance.hpp>
#include <dlprim/runtime/launch.hpp>

#include <cmath>

#include "two_floats.hpp"

namespace dlprim {

namespace {

constexpr std::size_t work_group = 256;

Kernel& kernel_for(Queue& queue, bool backward, DataType type, double p) {
  struct Key {
    std::uint8_t backward, norm;
    DataType type;
  };
  const int norm = p == 0 ? 0 : p == 1 ? 1 : p == 2 ? 2 : std::isinf(p) ? 3 : 4;
  static KernelCache<Key> cache;
  return cache.get(queue.device(), Key{backward, std::uint8_t(norm), type}, [&] {
    KernelSource source("distance.cl", backward ? "distances_backward" : "distances");
    return source.define("T", tag(type)).define("NORM", norm);
  });
}

void check(const TensorView& a, const TensorView& b, const TensorView& out, double p) {
  const bool fits = a.dims == 3 && b.dims == 3 && out.dims == 3 && a.is_contiguous() && b.is_contiguous() &&
                    out.is_contiguous() && a.dtype == b.dtype && a.dtype == out.dtype && is_floating(a.dtype) &&
                    a.sizes[2] == b.sizes[2] && out.sizes[1] == a.sizes[1] && out.sizes[2] == b.sizes[1];
  if (!fits || p < 0)
    throw ValidationError("[distances] expected contiguous [batch, rows, columns], [batch, others, columns] and "
                          "[batch, rows, others] of one floating dtype, and p >= 0");
}

}  // namespace

void distances(Queue& queue, const TensorView& out, const TensorView& a, const TensorView& b, double p) {
  check(a, b, out, p);
  const cl_ulong count = cl_ulong(out.numel());
  launch(queue, kernel_for(queue, false, a.dtype, p), NDRange(count, work_group), out.data, a.data, b.data, count,
         cl_ulong(a.sizes[1]), cl_ulong(b.sizes[1]), cl_ulong(a.sizes[2]), TwoFloats(p));
}

void distances_backward(Queue& queue, const TensorView& grad_a, const TensorView& grad, const TensorView& a,
                        const TensorView& b, const TensorView& out, double p) {
  check(a, b, out, p);
  const cl_ulong count = cl_ulong(a.numel());
  launch(queue, kernel_for(queue, true, a.dtype, p), NDRange(count, work_group), grad_a.data, grad.data, a.data, b.data,
         out.data, count, cl_ulong(a.sizes[1]), cl_ulong(b.sizes[1]), cl_ulong(a.sizes[2]), TwoFloats(p));
}

}  // namespace dlprim
