// SPDX-License-Identifier: MIT
#include <dlprim/primitives/sparse.hpp>
#include <dlprim/runtime/status.hpp>

#include <bit>

#include "linalg.hpp"

namespace dlprim {

using namespace linalg;

void sparse_triangular_solve(Queue& queue, const SparseRows& matrix, const TensorView& x, bool upper, bool unit) {
  const DataType type = x.dtype, index = matrix.starts.dtype;
  const bool types = (type == DataType::float32 || type == DataType::float64 || is_complex(type)) &&
                     matrix.values.dtype == type && (index == DataType::int64 || index == DataType::int32) &&
                     matrix.columns.dtype == index;
  const bool flat = matrix.starts.is_contiguous() && matrix.columns.is_contiguous() && matrix.values.is_contiguous();
  check(types && flat && x.dims == 2 && matrix.inner == x.size(0) && matrix.starts.numel() == x.size(0) + 1 &&
            matrix.columns.numel() == matrix.values.numel(),
        "sparse_triangular_solve",
        "a square matrix of rows with contiguous int64 or int32 indices, and right sides of as many rows, of one dtype "
        "of float32, float64 or complex numbers");
  if (x.numel() == 0) return;
  struct Key {
    DataType type, index;
    std::uint8_t upper, unit;
    std::uint16_t across, rows;
  };
  const bool cpu = queue.device().info().cpu;
  const std::size_t group = fitting_group(queue.device().info(), cpu ? 16 : 256);
  const auto across = std::min<std::size_t>(std::bit_ceil(std::size_t(x.size(1))), 4);
  const std::size_t rows = std::min<std::size_t>(group / across, 128);
  const Key key{type, index, upper, unit, std::uint16_t(across), std::uint16_t(rows)};
  static KernelCache<Key> cache;
  Kernel& kernel = cache.get(queue.device(), key, [&] {
    return source("sparse_solve.cl", "sparse_triangular_solve", type)
        .define("INDEX", tag(index))
        .define("ACROSS", std::int64_t(across))
        .define("ROWS", std::int64_t(rows))
        .define("UPPER", std::int64_t(upper))
        .define("UNIT", std::int64_t(unit));
  });
  QueueStatus& status = queue.status();
  const struct {
    cl_long n, entries, columns, row, col;
    cl_int code, unused;
  } p{x.size(0),
      matrix.columns.numel(),
      x.size(1),
      x.strides[0],
      x.strides[1],
      status.arm("sparse triangular solve: index %lld of the sparse matrix is out of range"),
      0};
  const std::size_t groups = (std::size_t(x.size(1)) + across - 1) / across;
  launch(queue, kernel, NDRange(groups * across * rows, across * rows), matrix.starts.data, matrix.columns.data,
         matrix.values.data, x.data, status.buffer(), p);
}

}  // namespace dlprim
