// SPDX-License-Identifier: MIT
#include "whole.hpp"

#include "../narrow.hpp"

namespace dlprim::linalg {

namespace {

enum class Which : std::uint8_t { eigen, tridiagonal, svd, qr, reflect, lu, lu_others };

struct Key {
  DataType type;
  Which which;
  std::uint8_t scaled;  // elements are 1 at most, and small squares count as zero
};

Kernel& kernel_for(Queue& queue, DataType type, Which which, bool scaled = true) {
  static KernelCache<Key> cache;
  constexpr const char* files[] = {"eigen_whole.cl", "eigen_whole.cl", "svd_whole.cl", "qr_whole.cl",
                                   "qr_whole.cl",    "lu_lines.cl",    "lu_lines.cl"};
  constexpr const char* names[] = {"eigen_whole",   "tridiagonal_whole", "svd_whole", "qr_whole",
                                   "reflect_whole", "lu_lines",          "lu_others"};
  return cache.get(queue.device(), Key{type, which, scaled}, [&] {
    const bool two = type == DataType::float64;
    KernelSource result = source(files[int(which)], names[int(which)], type);
    return define_squares(result, type, scaled)
        .define("VECTOR", two ? "double16" : "float16")
        .define("EPSILON", two ? "1.2e-16" : "6e-8f")
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

constexpr std::int64_t most_reduced = 1024;  // beyond, one thread's share is too long for many cores

}  // namespace

bool is_whole(const DeviceInfo& device, DataType type) {
  return device.cpu && !settings.gpu_forms && !is_complex(type);
}

bool eigen_is_whole(const DeviceInfo& device, DataType type, std::int64_t n, bool want_vectors) {
  constexpr std::int64_t most = 128;  // beyond, divide and conquer needs fewer operations for vectors
  return is_whole(device, type) && n <= (want_vectors ? most : most_reduced);
}

void eigen_whole(Queue& queue, const TensorView& a, const TensorView& vectors, const TensorView& values,
                 const TensorView& info, bool want_vectors) {
  const std::int64_t batch = a.size(0), n = a.size(1), items = items_for(queue, batch);
  const Temporary scratch(queue, a.dtype, {items, lines + (want_vectors ? 2 : 1) * n, padded(n)});
  const Parameters p{strides_of(a), strides_of(vectors), batch, cl_int(n), want_vectors};
  launch(queue, kernel_for(queue, a.dtype, Which::eigen), NDRange(std::size_t(items), 1), a.data, vectors.data,
         values.data, info.data, scratch.view().data, p);
}

bool tridiagonal_is_whole(const DeviceInfo& device, DataType type, std::int64_t n) {
  return is_whole(device, type) && n <= most_reduced;
}

void tridiagonal_whole(Queue& queue, const TensorView& a, const Tridiagonal& t) {
  const std::int64_t batch = a.size(0), n = a.size(1), items = items_for(queue, batch);
  const Temporary scratch(queue, a.dtype, {items, lines + n, padded(n)});
  const Parameters p{strides_of(a), {}, batch, cl_int(n), false};
  launch(queue, kernel_for(queue, a.dtype, Which::tridiagonal), NDRange(std::size_t(items), 1), a.data,
         t.vectors.view().data, t.tau.view().data, t.diagonal.view().data, t.beside.view().data, scratch.view().data,
         p);
}

bool svd_is_whole(const DeviceInfo& device, DataType type, std::int64_t rows) {
  return is_whole(device, type) && rows <= most_reduced;
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
  launch(queue, kernel_for(queue, a.dtype, Which::svd), NDRange(std::size_t(items), 1), a.data,
         want_vectors ? u.data : s.data, s.data, want_vectors ? v.data : s.data, info.data, scratch.view().data, p);
}

namespace {

struct Reflections {
  Strides a, c;
  cl_long tau_batch, count;
  cl_int m, n, columns, chunk, adjoint, identity;
};

}  // namespace

void qr_whole(Queue& queue, const TensorView& a, BufferRef tau, std::int64_t tau_batch, bool scaled) {
  const std::int64_t batch = a.size(0), m = a.size(1), n = a.size(2), items = items_for(queue, batch);
  const Temporary scratch(queue, a.dtype, {items, n + 1, padded(m)});
  const Reflections p{strides_of(a), {}, tau_batch, batch, narrow("qr_factor", "rows", m),
                      cl_int(n),     0,  1,         false, false};
  launch(queue, kernel_for(queue, a.dtype, Which::qr, scaled), NDRange(std::size_t(items), 1), a.data, tau,
         scratch.view().data, p);
}

void reflect_whole(Queue& queue, const TensorView& a, const TensorView& tau, const TensorView& c, bool adjoint,
                   bool identity) {
  const std::int64_t batch = a.size(0), m = a.size(1), n = tau.size(1), columns = c.size(2);
  const std::int64_t chunk = std::min<std::int64_t>(columns, 64);
  const std::int64_t items = items_for(queue, batch * ((columns + chunk - 1) / chunk));
  const Temporary scratch(queue, a.dtype, {items, n + chunk, padded(m)});
  const Reflections p{
      strides_of(a), strides_of(c), tau.size(1), batch, cl_int(m), cl_int(n), narrow("reflect", "columns", columns),
      cl_int(chunk), adjoint,       identity};
  launch(queue, kernel_for(queue, a.dtype, Which::reflect), NDRange(std::size_t(items), 1), a.data, tau.data, c.data,
         scratch.view().data, p);
}

void lu_lines(Queue& queue, const TensorView& a, const TensorView& pivots, const TensorView& info, std::int64_t start,
              bool pivot) {
  constexpr std::int64_t block = 8;  // BLOCK of lu_lines.cl
  const std::int64_t batch = a.size(0), m = a.size(1), n = a.size(2), items = items_for(queue, batch);
  const Temporary scratch(queue, a.dtype, {items, n + block, padded(m)});
  const struct {
    Strides a;
    cl_long count, pivots_batch;
    cl_int m, n, start, pivot;
  } p{strides_of(a), batch, pivots.size(1), narrow("lu_factor", "rows", m), cl_int(n), cl_int(start), pivot};
  launch(queue, kernel_for(queue, a.dtype, Which::lu), NDRange(std::size_t(items), 1), a.data, pivots.data, info.data,
         scratch.view().data, p);
}

void lu_others(Queue& queue, const TensorView& a, const TensorView& pivots, std::int64_t start, std::int64_t width) {
  if (a.size(2) == width) return;
  constexpr std::int64_t chunk = 64;
  const struct {
    Strides a;
    cl_long count, pivots_batch, columns, chunk;
    cl_int m, n, start, unused;
  } p{strides_of(a), a.size(0), pivots.size(1), a.size(2), chunk, narrow("lu_factor", "rows", a.size(1)), cl_int(width),
      cl_int(start), 0};
  launch(queue, kernel_for(queue, a.dtype, Which::lu_others),
         NDRange(std::size_t(a.size(0) * ((a.size(2) - 1) / chunk + 1)), 1), a.data, pivots.data, p);
}

}  // namespace dlprim::linalg
