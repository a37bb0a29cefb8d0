// SPDX-License-Identifier: MIT
// Right-looking blocked LU with partial pivoting (G. Golub, C. Van Loan, Matrix Computations, 3.6): a panel by one
// work-group, its exchanges and a triangular solve in the other columns, a product. On CPUs small ones by one work-item.
#include <dlprim/primitives/copy.hpp>

#include <bit>

#include "../narrow.hpp"
#include "panel.hpp"
#include "whole.hpp"

namespace dlprim {

using namespace linalg;

namespace {

struct Key {
  DataType type;
  std::uint8_t kernel;
  PanelShape shape;
  std::uint8_t row_fast = 0, unused = 0;
};

enum Which : std::uint8_t { panel, exchange, order };

constexpr std::int64_t exchanged_columns = 8;  // of a work-group

Kernel& kernel_for(Queue& queue, DataType type, Which which, const PanelShape& shape, bool row_fast = false) {
  static KernelCache<Key> cache;
  constexpr const char* names[] = {"lu_panel", "exchange_rows", "pivots_to_order"};
  return cache.get(queue.device(), Key{type, which, shape, row_fast}, [&] {
    const DeviceInfo& device = queue.device().info();
    const bool nvidia = device.nv_inline_ptx && shape.group >= 32;
    KernelSource result = source(which == panel ? "lu.cl" : "exchange.cl", names[which], type);
    return define(result, shape)
        .define("WARP", nvidia ? 32 : std::int64_t(1) << std::bit_width(unsigned(shape.group)) / 2)
        .define("COLUMNS", exchanged_columns)
        .define("BLOCK",
                device.vendor == Vendor::intel ? shape.width : std::min<int>(shape.width, 8))  // or spills there
        .define("ROW_FAST", std::int64_t(row_fast));
  });
}

void factor_panel(Queue& queue, const TensorView& a, const TensorView& pivots, const TensorView& info,
                  const TensorView& moves, const PanelShape& shape, std::int64_t start, bool pivot) {
  const struct {
    Strides a;
    cl_long pivots_batch;
    cl_int m, n, start, pivot;
  } p{strides_of(a), pivots.size(1), narrow("lu_factor", "rows", a.size(1)), cl_int(a.size(2)), cl_int(start), pivot};
  launch(queue, kernel_for(queue, a.dtype, panel, shape), NDRange(std::size_t(a.size(0)) * shape.group, shape.group),
         a.data, pivots.data, info.data, moves.data, p);
}

// `a`: all columns of the rows from the panel on; those of the panel itself are left out.
void exchange_others(Queue& queue, const TensorView& a, const TensorView& moves, std::int64_t start, std::int64_t width,
                     std::uint16_t most) {
  const std::int64_t columns = a.size(2);
  if (columns == width) return;
  const PanelShape shape{std::uint16_t(fitting_group(queue.device().info(), 256)), 0, most};
  const struct {
    Strides a;
    cl_long columns, chunks, skip_from, skip;
    cl_int n, unused;
  } p{strides_of(a), columns, (columns - width + exchanged_columns - 1) / exchanged_columns, start, width,
      cl_int(width), 0};
  launch(queue, kernel_for(queue, a.dtype, exchange, shape, a.strides[1] <= a.strides[2]),
         NDRange(std::size_t(p.chunks * a.size(0)) * shape.group, shape.group), a.data, moves.data, p);
}

// Whether a work-item factors a matrix alone.
bool is_small(const DeviceInfo& device, const TensorView& a) {
  constexpr std::int64_t most = 256;
  return device.cpu && !settings.gpu_forms && std::max(a.size(1), a.size(2)) <= most &&
         std::min(a.strides[1], a.strides[2]) == 1;
}

void factor_whole(Queue& queue, const TensorView& a, const TensorView& pivots, const TensorView& info, bool pivot) {
  const bool row_fast = a.strides[1] == 1;
  static KernelCache<Key> cache;
  Kernel& kernel = cache.get(queue.device(), Key{a.dtype, 0, {}, row_fast}, [&] {
    return source("lu_whole.cl", "lu_whole", a.dtype).define("ROW_FAST", std::int64_t(row_fast));
  });
  const struct {
    Strides a;
    cl_long count;
    cl_int m, n, pivot, unused;
  } p{strides_of(a), a.size(0), cl_int(a.size(1)), cl_int(a.size(2)), pivot, 0};
  constexpr std::int64_t shares_of_unit = 8;
  const std::int64_t items = std::min(a.size(0), shares_of_unit * queue.device().info().compute_units);
  launch(queue, kernel, NDRange(std::size_t(items), 1), a.data, pivots.data, info.data, p);
}

// Whether columns in vectors pay: they are loaded and stored, and have no remainders.
bool in_lines(const DeviceInfo& device, const TensorView& a) {
  constexpr std::int64_t least = 64;
  return is_whole(device, a.dtype) && a.strides[1] == 1 && std::max(a.size(1), a.size(2)) >= least;
}

// Small matrices, and panels of larger ones, by work-items.
void factor_in_lines(Queue& queue, const TensorView& a, const TensorView& pivots, const TensorView& info, bool pivot) {
  constexpr std::int64_t most = 256, most_width = 32;
  const std::int64_t m = a.size(1), n = a.size(2), steps = std::min(m, n);
  if (std::max(m, n) <= most) return lu_lines(queue, a, pivots, info, 0, pivot);
  for (std::int64_t j = 0, width; j < steps; j += width) {
    width = std::min(most_width, steps - j);
    const std::int64_t after = j + width, rows = m - after, columns = n - after;
    lu_lines(queue, block(a, j, j, m - j, width), pivots, info, j, pivot);
    lu_others(queue, block(a, j, 0, m - j, n), pivots, j, width);
    if (columns > 0)
      multiply(queue, block(a, after, j, rows, width), block(a, j, after, width, columns),
               block(a, after, after, rows, columns), -1, 1);
  }
}

}  // namespace

void lu_factor(Queue& queue, const TensorView& a, const TensorView& pivots, const TensorView& info, bool pivot) {
  check_matrix("lu_factor", a);
  const std::int64_t batch = a.size(0), m = a.size(1), n = a.size(2), steps = std::min(m, n);
  check(pivots.dtype == DataType::int32 && pivots.is_contiguous() && pivots.dims == 2 && pivots.size(0) == batch &&
            pivots.size(1) == steps && info.dtype == DataType::int32 && info.is_contiguous() && info.numel() == batch,
        "lu_factor", "pivots of int32 [batch, min(m, n)] and info of int32 [batch], contiguous");
  if (a.numel() == 0) return fill(queue, info, 0);
  if (in_lines(queue.device().info(), a)) return factor_in_lines(queue, a, pivots, info, pivot);
  if (is_small(queue.device().info(), a)) return factor_whole(queue, a, pivots, info, pivot);
  const PanelShape whole = panel_shape(queue.device().info(), a.dtype, m, steps, 512);
  const Temporary moves(queue, DataType::int32, {batch, 2 * 32});
  for (std::int64_t j = 0, width; j < steps; j += width) {
    const PanelShape shape =
        panel_shape(queue.device().info(), a.dtype, m - j, std::min<std::int64_t>(steps, whole.width), 512);
    width = std::min<std::int64_t>(shape.width, steps - j);
    const std::int64_t after = j + width, rows = m - after, columns = n - after;
    factor_panel(queue, block(a, j, j, m - j, width), pivots, info, moves, shape, j, pivot);
    exchange_others(queue, block(a, j, 0, m - j, n), moves, j, width, shape.width);
    if (columns == 0) continue;
    const TensorView right = block(a, j, after, width, columns);
    multiply(queue, block(a, after, j, rows, width), right, block(a, after, after, rows, columns), -1, 1);
  }
}

void pivots_to_order(Queue& queue, const TensorView& pivots, const TensorView& into) {
  check(pivots.dtype == DataType::int32 && into.dtype == DataType::int32 && pivots.dims == 2 && into.dims == 2 &&
            pivots.size(0) == into.size(0) && pivots.size(1) <= into.size(1) && pivots.is_contiguous() &&
            into.is_contiguous(),
        "pivots_to_order", "pivots [batch, k] and an order [batch, n] of int32, k <= n, contiguous");
  if (into.numel() == 0) return;
  const DeviceInfo& device = queue.device().info();
  const std::size_t bytes = std::size_t(pivots.size(1) + into.size(1)) * sizeof(cl_int);
  const bool fits = bytes <= device.local_memory / 2;
  const struct {
    cl_int n, steps, in_local, unused;
  } p{narrow("pivots_to_order", "rows", into.size(1)), cl_int(pivots.size(1)), fits, 0};
  const PanelShape shape{std::uint16_t(fitting_group(device, 64)), 0, 1};
  launch(queue, kernel_for(queue, DataType::float32, order, shape),
         NDRange(std::size_t(into.size(0)) * shape.group, shape.group), pivots.data, into.data, p,
         LocalMemory{fits ? bytes : 16});
}

}  // namespace dlprim
