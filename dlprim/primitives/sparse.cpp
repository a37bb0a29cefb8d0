// SPDX-License-Identifier: MIT
#include <dlprim/primitives/sparse.hpp>
#include <dlprim/runtime/launch.hpp>
#include <dlprim/runtime/status.hpp>

#include <bit>

#include "two_floats.hpp"

namespace dlprim {

namespace {

constexpr std::int64_t long_row = 512;  // entries

struct Number {
  TwoFloats re, im;
  explicit Number(std::complex<double> value) : re(value.real()), im(value.imag()) {}
};

/// How work-items are laid over a result.
struct Layout {
  DataType type, index;
  std::uint8_t vector, across, along, sampled;
  std::uint16_t group;
};

bool is_index(DataType type) { return type == DataType::int64 || type == DataType::int32; }

bool is_value(DataType type) { return is_floating(type) || is_complex(type); }

// Whether rows of the matrix along `dim` can be read four elements at a time.
bool by_fours(const TensorView& x, int dim) {
  return !is_complex(x.dtype) && x.strides[dim] == 1 && x.sizes[dim] % 4 == 0 && x.strides[1 - dim] % 4 == 0 &&
         x.data.offset % (4 * size_of(x.dtype)) == 0;
}

std::uint8_t power_of_two(std::int64_t wish, std::int64_t most) {
  return std::uint8_t(std::bit_ceil(std::uint64_t(std::clamp<std::int64_t>(wish, 1, most))));
}

std::uint16_t group_of(const DeviceInfo& device, std::size_t bytes_each) {
  std::size_t group = fitting_group(device, device.cpu ? 64 : 256);
  while (group > 16 && group * bytes_each > device.local_memory / 2) group /= 2;
  return std::uint16_t(group);
}

Kernel& kernel_for(Queue& queue, const Layout& layout) {
  static KernelCache<Layout> cache;
  return cache.get(queue.device(), layout, [&] {
    KernelSource source("sparse.cl", layout.sampled ? "sampled_product" : "sparse_product");
    source.define(layout.sampled ? "SAMPLED" : "PRODUCT")
        .define("T", tag(layout.type))
        .define("INDEX", tag(layout.index));
    source.define("VEC", layout.vector).define("ACROSS", layout.across).define("ALONG", layout.along);
    source.define("GROUP", layout.group).define("LONG_ROW", long_row);
    return is_complex(layout.type) ? source.define("COMPLEX") : source;
  });
}

void check_product(const SparseRows& matrix, const TensorView& dense, const TensorView& base, const TensorView& out) {
  const DataType type = matrix.values.dtype, index = matrix.starts.dtype;
  const bool types = is_value(type) && is_index(index) && matrix.columns.dtype == index && dense.dtype == type &&
                     out.dtype == type && (!base.defined() || base.dtype == type);
  const bool sizes =
      matrix.starts.dims == 1 && matrix.starts.sizes[0] > 0 && dense.dims == 2 && out.dims == 2 &&
      matrix.columns.numel() == matrix.values.numel() && dense.sizes[0] == matrix.inner &&
      out.sizes[0] == matrix.starts.sizes[0] - 1 && out.sizes[1] == dense.sizes[1] &&
      (!base.defined() || (base.dims == 2 && base.sizes[0] == out.sizes[0] && base.sizes[1] == out.sizes[1]));
  const bool flat = matrix.starts.is_contiguous() && matrix.columns.is_contiguous() && matrix.values.is_contiguous();
  if (!types || !sizes || !flat)
    throw ValidationError(
        "[sparse_product] expected a matrix of rows with contiguous int64 or int32 indices and values, "
        "and matrices of matching sizes and of the values' floating or complex dtype");
}

}  // namespace

void sparse_product(Queue& queue, const SparseRows& matrix, const TensorView& dense, const TensorView& base,
                    const TensorView& out, std::complex<double> alpha, std::complex<double> beta) {
  check_product(matrix, dense, base, out);
  const std::int64_t rows = out.sizes[0], width = out.sizes[1], entries = matrix.columns.numel();
  if (rows == 0 || width == 0) return;
  const DeviceInfo& device = queue.device().info();
  Layout layout{out.dtype, matrix.starts.dtype, 1, 1, 1, 0, 1};
  layout.vector = by_fours(dense, 1) ? 4 : 1;
  layout.group = group_of(device, layout.vector * 2 * size_of(accumulate_type(out.dtype)));
  const std::int64_t most = std::min<std::int64_t>(layout.group, 32);
  layout.across = power_of_two((width + layout.vector - 1) / layout.vector, most);
  const std::int64_t team = std::min<std::int64_t>(layout.group, 16);
  layout.along = power_of_two(entries / rows / 4, std::max<std::int64_t>(1, team / layout.across));
  QueueStatus& status = queue.status();
  const int code = status.arm("sparse matrix product: index %lld of the sparse matrix is out of range");
  const bool reads = base.defined() && beta != 0.0;
  const TensorView& old = reads ? base : out;
  const Number a(alpha), b(reads ? beta : 0.0);
  const std::size_t teams = layout.group / (layout.across * layout.along);
  const std::size_t groups = (std::size_t(rows) + teams - 1) / teams;
  const std::size_t tile = std::size_t(layout.across) * layout.vector;
  launch(queue, kernel_for(queue, layout),
         NDRange(groups * layout.group, (std::size_t(width) + tile - 1) / tile, layout.group, 1), matrix.starts.data,
         matrix.columns.data, matrix.values.data, dense.data, old.data, out.data, status.buffer(), cl_int(code),
         cl_long(rows), cl_long(matrix.inner), cl_long(width), cl_long(entries), cl_long(dense.strides[0]),
         cl_long(dense.strides[1]), cl_long(old.strides[0]), cl_long(old.strides[1]), cl_long(out.strides[0]),
         cl_long(out.strides[1]), a.re, a.im, b.re, b.im);
}

void sampled_product(Queue& queue, const TensorView& rows, const TensorView& columns, const TensorView& left,
                     const TensorView& right, const TensorView& base, const TensorView& out, std::complex<double> alpha,
                     std::complex<double> beta) {
  const std::int64_t count = out.numel(), inner = left.dims == 2 ? left.sizes[1] : 0;
  const bool types = is_value(out.dtype) && is_index(rows.dtype) && rows.dtype == columns.dtype &&
                     left.dtype == out.dtype && right.dtype == out.dtype &&
                     (!base.defined() || base.dtype == out.dtype);
  const bool sizes = left.dims == 2 && right.dims == 2 && right.sizes[0] == inner && rows.numel() == count &&
                     columns.numel() == count && (!base.defined() || base.numel() == count);
  if (!types || !sizes || !rows.is_contiguous() || !columns.is_contiguous() || !out.is_contiguous())
    throw ValidationError("[sampled_product] expected contiguous int64 or int32 rows and columns of each entry, and "
                          "matrices [m, inner] and [inner, n] of the result's floating or complex dtype");
  if (count == 0) return;
  Layout layout{out.dtype, rows.dtype, 1, 1, 1, 1, 1};
  layout.vector = inner > 0 && by_fours(left, 1) && by_fours(right, 0) ? 4 : 1;
  layout.group = group_of(queue.device().info(), layout.vector * 2 * size_of(accumulate_type(out.dtype)));
  layout.along = power_of_two((inner / layout.vector + 1) / 2, std::min<std::int64_t>(layout.group, 32));
  QueueStatus& status = queue.status();
  const int code = status.arm("sampled matrix product: index %lld of the sparse matrix is out of range");
  const bool reads = base.defined() && beta != 0.0;
  const Number a(alpha), b(reads ? beta : 0.0);
  const std::size_t teams = layout.group / layout.along, groups = (std::size_t(count) + teams - 1) / teams;
  launch(queue, kernel_for(queue, layout), NDRange(groups * layout.group, layout.group), rows.data, columns.data,
         left.data, right.data, reads ? base.data : out.data, out.data, status.buffer(), cl_int(code), cl_long(count),
         cl_long(left.sizes[0]), cl_long(right.sizes[1]), cl_long(inner), cl_long(left.strides[0]),
         cl_long(left.strides[1]), cl_long(right.strides[0]), cl_long(right.strides[1]), a.re, a.im, b.re, b.im);
}

}  // namespace dlprim
