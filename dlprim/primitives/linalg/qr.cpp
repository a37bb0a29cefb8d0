// SPDX-License-Identifier: MIT
// Blocked Householder QR (G. Golub, C. Van Loan, Matrix Computations, 5.2.3): a panel by one work-group, its reflections
// applied to the rest as products with 1 - V F V^H.
#include "../narrow.hpp"
#include "panel.hpp"
#include "whole.hpp"

namespace dlprim {

using namespace linalg;

namespace {

struct PanelKey {
  DataType type;
  std::uint8_t scaled;
  PanelShape shape;
};

// A panel shape whose sums fit local memory.
PanelShape shape_for(Queue& queue, DataType type, std::int64_t rows, std::int64_t columns) {
  const DeviceInfo& device = queue.device().info();
  for (std::size_t group = 256;; group /= 2) {
    PanelShape shape = panel_shape(device, type, rows, columns, group);
    auto bytes = [&] { return (shape.width * (std::size_t(shape.group) + 8) + shape.group) * size_of(type); };
    while (shape.width > 8 && bytes() > device.local_memory) shape.width /= 2;
    if (bytes() <= device.local_memory || group == 16) return shape;
  }
}

void factor_panel(Queue& queue, const TensorView& a, BufferRef tau, std::int64_t tau_batch, const PanelShape& shape,
                  bool scaled) {
  static KernelCache<PanelKey> cache;
  Kernel& kernel = cache.get(queue.device(), PanelKey{a.dtype, scaled, shape}, [&] {
    KernelSource result = source("qr.cl", "qr_panel", a.dtype);
    define_squares(result, a.dtype, scaled);
    return define(result, shape).define("SEGMENTS", std::int64_t(std::max(1, shape.group / shape.width)));
  });
  const struct {
    Strides a;
    cl_long tau_batch;
    cl_int m, n;
  } p{strides_of(a), tau_batch, narrow("qr_factor", "rows", a.size(1)), cl_int(a.size(2))};
  launch(queue, kernel, NDRange(std::size_t(a.size(0)) * shape.group, shape.group), a.data, tau, p);
}

BufferRef from(const TensorView& tau, std::int64_t start) {
  BufferRef data = tau.data;
  data.offset += std::size_t(start) * size_of(tau.dtype);
  return data;
}

struct ReflectorKey {
  DataType type;
  std::uint8_t width, conjugate, adjoint;
};

// The most reflections applied at once.
std::int64_t block_width(Queue& queue, DataType type) {
  const DeviceInfo& device = queue.device().info();
  return size_of(type) > 8 || device.max_work_group < 32 ? std::int64_t(fitting_group(device, 16)) : 32;
}

// F of the reflections in `v` [B, m, n], whose conjugate is `left`, or F^H.
Temporary reflector(Queue& queue, const TensorView& v, const TensorView& left, BufferRef tau, std::int64_t tau_batch,
                    bool adjoint, bool conjugate) {
  static KernelCache<ReflectorKey> cache;
  const std::int64_t n = v.size(2);
  const ReflectorKey key{v.dtype, std::uint8_t(block_width(queue, v.dtype)), conjugate, adjoint};
  Kernel& kernel = cache.get(queue.device(), key, [&] {
    return source("reflector.cl", "reflector", v.dtype)
        .define("WIDTH", std::int64_t(key.width))
        .define("CONJUGATE", std::int64_t(conjugate))
        .define("ADJOINT", std::int64_t(adjoint));
  });
  const Temporary gram(queue, v.dtype, {v.size(0), n, n});
  Temporary result(queue, v.dtype, {v.size(0), n, n});
  multiply(queue, transposed(left), v, gram);
  const struct {
    cl_long tau_batch;
    cl_int n, unused;
  } p{tau_batch, cl_int(n), 0};
  launch(queue, kernel, NDRange(std::size_t(v.size(0)) * key.width, key.width), gram.view().data, tau,
         result.view().data, p);
  return result;
}

// c = Q c or Q^H c for the reflections of one panel.
void apply(Queue& queue, const TensorView& panel, BufferRef tau, std::int64_t tau_batch, const TensorView& c,
           bool adjoint, bool conjugate) {
  const std::int64_t batch = panel.size(0), m = panel.size(1), n = panel.size(2);
  const Temporary v(queue, panel.dtype, {batch, m, n});
  copy_part(queue, v, panel, MatrixPart::unit_lower, conjugate);
  Temporary storage;
  const TensorView left = conjugated(queue, v, storage);
  const Temporary f = reflector(queue, v, left, tau, tau_batch, adjoint, conjugate);
  const Temporary vf(queue, panel.dtype, {batch, m, n}), products(queue, panel.dtype, {batch, n, c.size(2)});
  multiply(queue, v, f, vf);
  multiply(queue, transposed(left), c, products);
  multiply(queue, vf, products, c, -1, 1);
}

// Whether work-items apply all reflections alone.
bool reflect_is_whole(Queue& queue, const TensorView& a) {
  constexpr std::int64_t most_rows = 256;
  return is_whole(queue.device().info(), a.dtype) && a.size(1) <= most_rows;
}

void check_tau(const char* op, const TensorView& a, const TensorView& tau) {
  check_matrix(op, a);
  check(tau.dims == 2 && tau.dtype == a.dtype && tau.is_contiguous() && tau.size(0) == a.size(0) &&
            tau.size(1) <= std::min(a.size(1), a.size(2)),
        op, "factors [batch, k] of the matrices' dtype, contiguous, for no more than min(rows, columns) reflections");
}

}  // namespace

void qr_factor(Queue& queue, const TensorView& a, const TensorView& tau, bool scaled) {
  check_tau("qr_factor", a, tau);
  const std::int64_t m = a.size(1), n = a.size(2), steps = std::min(m, n);
  check(tau.size(1) == steps, "qr_factor", "min(rows, columns) factors");
  if (a.numel() == 0) return;
  constexpr std::int64_t most_whole = 128;
  const bool alone = is_whole(queue.device().info(), a.dtype);
  const std::int64_t most = block_width(queue, a.dtype);
  if (alone && (n <= most || std::max(m, n) <= most_whole)) return qr_whole(queue, a, tau.data, steps, scaled);
  for (std::int64_t j = 0, width; j < steps; j += width) {
    const PanelShape shape = shape_for(queue, a.dtype, m - j, steps);
    width = std::min({alone ? most : std::int64_t(shape.width), steps - j, most});
    const TensorView panel = block(a, j, j, m - j, width);
    if (alone) qr_whole(queue, panel, from(tau, j), steps, scaled);
    else factor_panel(queue, panel, from(tau, j), steps, shape, scaled);
    const std::int64_t rest = n - j - width;
    if (rest > 0) apply(queue, panel, from(tau, j), steps, block(a, j, j + width, m - j, rest), true, false);
  }
}

void reflect(Queue& queue, const TensorView& a, const TensorView& tau, const TensorView& c, bool adjoint,
             bool conjugate) {
  check_tau("reflect", a, tau);
  check(c.dims == 3 && c.dtype == a.dtype && c.size(0) == a.size(0) && c.size(1) == a.size(1), "reflect",
        "matrices of as many rows as the reflections have");
  const std::int64_t count = tau.size(1), width = block_width(queue, a.dtype), m = a.size(1);
  if (c.numel() == 0 || count == 0) return;
  if (reflect_is_whole(queue, a)) return reflect_whole(queue, a, tau, c, adjoint, false);
  const std::int64_t panels = (count + width - 1) / width;
  for (std::int64_t i = 0; i < panels; i++) {  // Q = H_1 ... H_r: of Q c the last come first
    const std::int64_t j = (adjoint ? i : panels - 1 - i) * width;
    apply(queue, block(a, j, j, m - j, std::min(width, count - j)), from(tau, j), count,
          block(c, j, 0, m - j, c.size(2)), adjoint, conjugate);
  }
}

void orthogonal_factor(Queue& queue, const TensorView& a, const TensorView& tau, const TensorView& q) {
  check_tau("orthogonal_factor", a, tau);
  check(
      q.dims == 3 && q.dtype == a.dtype && q.size(0) == a.size(0) && q.size(1) == a.size(1) && q.size(2) >= tau.size(1),
      "orthogonal_factor", "matrices of as many rows as the reflections have and at least as many columns as those");
  copy_part(queue, q, {}, MatrixPart::identity);
  const std::int64_t count = tau.size(1), width = block_width(queue, a.dtype), m = a.size(1);
  if (q.numel() == 0 || count == 0) return;
  if (reflect_is_whole(queue, a)) return reflect_whole(queue, a, tau, q, false, true);
  for (std::int64_t j = (count - 1) / width * width; j >= 0; j -= width)  // columns before j are still the identity's
    apply(queue, block(a, j, j, m - j, std::min(width, count - j)), from(tau, j), count,
          block(q, j, j, m - j, q.size(2) - j), false, false);
}

}  // namespace dlprim
