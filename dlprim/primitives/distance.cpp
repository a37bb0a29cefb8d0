// SPDX-License-Identifier: MIT
#include <dlprim/primitives/distance.hpp>
#include <dlprim/runtime/launch.hpp>
#include <dlprim/runtime/settings.hpp>

#include <algorithm>
#include <cmath>

#include "two_floats.hpp"

namespace dlprim {

namespace {

constexpr std::size_t work_group = 256;

enum class Form : std::uint8_t { all, all_backward, pairs, pairs_backward };

Kernel& kernel_for(Queue& queue, Form form, DataType type, double p, std::int64_t largest) {
  struct Key {
    Form form;
    std::uint8_t norm, wide;
    DataType type;
  };
  constexpr const char* names[] = {"distances", "distances_backward", "pair_distances", "pair_distances_backward"};
  const int norm = p == 0 ? 0 : p == 1 ? 1 : p == 2 ? 2 : std::isinf(p) ? 3 : 4;
  const Key key{form, std::uint8_t(norm), std::uint8_t(largest > settings.index_limit), type};
  static KernelCache<Key> cache;
  return cache.get(queue.device(), key, [&] {
    KernelSource source("distance.cl", names[int(form)]);
    return source.define("T", tag(type)).define("NORM", norm).define("INDEX", key.wide ? "ulong" : "uint");
  });
}

std::int64_t largest_of(const TensorView& a, const TensorView& b, const TensorView& out) {
  return std::max({a.numel(), b.numel(), out.numel()});
}

void check(const TensorView& a, const TensorView& b, const TensorView& out, double p) {
  const bool fits = a.dims == 3 && b.dims == 3 && out.dims == 3 && a.is_contiguous() && b.is_contiguous() &&
                    out.is_contiguous() && a.dtype == b.dtype && a.dtype == out.dtype && is_floating(a.dtype) &&
                    a.sizes[2] == b.sizes[2] && out.sizes[1] == a.sizes[1] && out.sizes[2] == b.sizes[1];
  if (!fits || p < 0)
    throw ValidationError("[distances] expected contiguous [batch, rows, columns], [batch, others, columns] and "
                          "[batch, rows, others] of one floating dtype, and p >= 0");
}

void check_pairs(const TensorView& a, const TensorView& out, double p) {
  const bool fits = a.dims == 2 && out.dims == 1 && a.is_contiguous() && out.is_contiguous() && a.dtype == out.dtype &&
                    is_floating(a.dtype) && out.sizes[0] == a.sizes[0] * (a.sizes[0] - 1) / 2;
  if (!fits || p < 0)
    throw ValidationError("[pair_distances] expected contiguous [n, columns] and [n (n - 1) / 2] of one floating "
                          "dtype, and p >= 0");
}

// The kernels compute eight times a pair's number.
std::int64_t largest_of_pairs(const TensorView& a, const TensorView& out) {
  return std::max(a.numel(), 8 * out.numel());
}

}  // namespace

void distances(Queue& queue, const TensorView& out, const TensorView& a, const TensorView& b, double p) {
  check(a, b, out, p);
  const cl_ulong count = cl_ulong(out.numel());
  launch(queue, kernel_for(queue, Form::all, a.dtype, p, largest_of(a, b, out)), NDRange(count, work_group), out.data,
         a.data, b.data, count, cl_ulong(a.sizes[1]), cl_ulong(b.sizes[1]), cl_ulong(a.sizes[2]), TwoFloats(p));
}

void distances_backward(Queue& queue, const TensorView& grad_a, const TensorView& grad, const TensorView& a,
                        const TensorView& b, const TensorView& out, double p) {
  check(a, b, out, p);
  const cl_ulong count = cl_ulong(a.numel());
  launch(queue, kernel_for(queue, Form::all_backward, a.dtype, p, largest_of(a, b, out)), NDRange(count, work_group),
         grad_a.data, grad.data, a.data, b.data, out.data, count, cl_ulong(a.sizes[1]), cl_ulong(b.sizes[1]),
         cl_ulong(a.sizes[2]), TwoFloats(p));
}

void pair_distances(Queue& queue, const TensorView& out, const TensorView& a, double p) {
  check_pairs(a, out, p);
  const cl_ulong count = cl_ulong(out.numel());
  launch(queue, kernel_for(queue, Form::pairs, a.dtype, p, largest_of_pairs(a, out)), NDRange(count, work_group),
         out.data, a.data, count, cl_ulong(a.sizes[0]), cl_ulong(a.sizes[1]), TwoFloats(p));
}

void pair_distances_backward(Queue& queue, const TensorView& grad_a, const TensorView& grad, const TensorView& a,
                             const TensorView& out, double p) {
  check_pairs(a, out, p);
  const cl_ulong count = cl_ulong(a.numel());
  launch(queue, kernel_for(queue, Form::pairs_backward, a.dtype, p, largest_of_pairs(a, out)),
         NDRange(count, work_group), grad_a.data, grad.data, a.data, out.data, count, cl_ulong(a.sizes[0]),
         cl_ulong(a.sizes[1]), TwoFloats(p));
}

}  // namespace dlprim
