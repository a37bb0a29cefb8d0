// SPDX-License-Identifier: MIT
#include "whole.hpp"

namespace dlprim::linalg {

namespace {

enum class Which : std::uint8_t { eigen_whole, tridiagonal_whole, svd_whole };

struct Key {
  DataType type;
  Which which;
};

Kernel& kernel_for(Queue& queue, DataType type, Which which) {
  static KernelCache<Key> cache;
  constexpr const char* names[] = {"eigen_whole", "tridiagonal_whole", "svd_whole"};
  return cache.get(queue.device(), Key{type, which}, [&] {
    const bool two = type == DataType::float64;
    return source(which == Which::svd_whole ? "svd_whole.cl" : "eigen_whole.cl", names[int(which)], type)
        .define("VECTOR", two ? "double16" : "float16")
        .define("EPSILON", two ? "1.2e-16" : "6e-8f")
        .define("TINY", two ? "1e-280" : "1e-28f")
        .define("SMALL", two ? "1e-140" : "1e-17f");
  });
}

// Work-items that share `count` matrices.
std::int64_t items_for(Queue& queue, std::int64_t count) {
  constexpr std::int64_t shares_of_unit = 8;
  return std::min(count, shares_of_unit * queue.device().info().compute_units);
}

std::int64_t padded(std::int64_t n) { return (n + 15) / 16 * 16; }

constexpr std::int64_t lines = 7;  // of eigen_whole.cl, beside matrices

struct Parameters {
  Strides a, vectors;
  cl_long count;
  cl_int n, want_vectors;
};

bool works_alone(const DeviceInfo& device) { return device.cpu && !settings.gpu_forms; }

constexpr std::int64_t most_reduced = 1024;  // beyond, one thread's share is too long for many cores

}  // namespace

bool eigen_is_whole(const DeviceInfo& device, DataType type, std::int64_t n, bool want_vectors) {
  constexpr std::int64_t most = 128;  // beyond, divide and conquer needs fewer operations for vectors
  return works_alone(device) && !is_complex(type) && n <= (want_vectors ? most : most_reduced);
}

void eigen_whole(Queue& queue, const TensorView& a, const TensorView& vectors, const TensorView& values,
                 const TensorView& info, bool want_vectors) {
  const std::int64_t batch = a.size(0), n = a.size(1), items = items_for(queue, batch);
  const Temporary scratch(queue, a.dtype, {items, lines + (want_vectors ? 2 : 1) * n, padded(n)});
  const Parameters p{strides_of(a), strides_of(vectors), batch, cl_int(n), want_vectors};
  launch(queue, kernel_for(queue, a.dtype, Which::eigen_whole), NDRange(std::size_t(items), 1), a.data, vectors.data,
         values.data, info.data, scratch.view().data, p);
}

bool tridiagonal_is_whole(const DeviceInfo& device, std::int64_t n) { return works_alone(device) && n <= most_reduced; }

void tridiagonal_whole(Queue& queue, const TensorView& a, const Tridiagonal& t) {
  const std::int64_t batch = a.size(0), n = a.size(1), items = items_for(queue, batch);
  const Temporary scratch(queue, a.dtype, {items, lines + n, padded(n)});
  const Parameters p{strides_of(a), {}, batch, cl_int(n), false};
  launch(queue, kernel_for(queue, a.dtype, Which::tridiagonal_whole), NDRange(std::size_t(items), 1), a.data,
         t.vectors.view().data, t.tau.view().data, t.diagonal.view().data, t.beside.view().data, scratch.view().data,
         p);
}

bool svd_is_whole(const DeviceInfo& device, const TensorView& a) {
  return works_alone(device) && !is_complex(a.dtype) && a.size(1) <= most_reduced;
}

void svd_whole(Queue& queue, const TensorView& a, const TensorView& u, const TensorView& s, const TensorView& v,
               const TensorView& info) {
  const std::int64_t batch = a.size(0), m = a.size(1), n = a.size(2), items = items_for(queue, batch);
  const bool want_vectors = u.defined();
  const std::int64_t left = want_vectors ? u.size(2) : n, wide = padded(n), tall = padded(m);
  const std::int64_t vectors = want_vectors ? left * tall + n * wide + m * padded(left) : 0;
  const Temporary scratch(queue, a.dtype, {items, 9 * wide + m * wide + n * tall + vectors});
  const struct {
    Strides a, u, v;
    cl_long count;
    cl_int m, n, left, want_vectors;
  } p{strides_of(a),
      want_vectors ? strides_of(u) : Strides{},
      want_vectors ? strides_of(v) : Strides{},
      batch,
      cl_int(m),
      cl_int(n),
      cl_int(left),
      want_vectors};
  launch(queue, kernel_for(queue, a.dtype, Which::svd_whole), NDRange(std::size_t(items), 1), a.data,
         want_vectors ? u.data : s.data, s.data, want_vectors ? v.data : s.data, info.data, scratch.view().data, p);
}

}  // namespace dlprim::linalg
