// SPDX-License-Identifier: MIT
// Right-looking blocked Cholesky (G. Golub, C. Van Loan, Matrix Computations, 4.2.6): a block on the diagonal in local
// memory, the panel below it by a triangular solve, the rest by products.
#include <dlprim/primitives/copy.hpp>
#include <dlprim/runtime/settings.hpp>

#include "cholesky_blocks.hpp"

namespace dlprim {

using namespace linalg;

namespace {

struct Key {
  DataType type;
  std::uint8_t side;
};

// Between columns in local memory.
std::int64_t pitch_of(const DeviceInfo& device, std::int64_t n) {
  return device.cpu && !settings.gpu_forms ? (n + 15) / 16 * 16 : n | 1;
}

std::size_t local_bytes(const DeviceInfo& device, DataType type, std::int64_t n) {
  return std::size_t(n * pitch_of(device, n)) * size_of(type);
}

// The largest n of `step`, 2 step ... whose matrix fits local memory.
std::int64_t fitting(Queue& queue, DataType type, std::int64_t step, std::int64_t most) {
  const DeviceInfo& device = queue.device().info();
  std::int64_t n = step;
  while (n + step <= most && local_bytes(device, type, n + step) <= device.local_memory) n += step;
  return n;
}

void factor_small(Queue& queue, const TensorView& a, const TensorView& info, std::int64_t start) {
  static KernelCache<Key> cache;
  const std::int64_t n = a.size(1);
  const DeviceInfo& device = queue.device().info();
  std::size_t side = device.cpu && !settings.gpu_forms ? 1 : n <= 32 ? 8 : 16;
  while (side * side > device.max_work_group) side /= 2;
  const Key key{a.dtype, std::uint8_t(side)};
  Kernel& kernel = cache.get(queue.device(), key, [&] {
    return source("cholesky.cl", "cholesky", a.dtype).define("SIDE", std::int64_t(side));
  });
  const struct {
    Strides a;
    cl_int n, start, pitch, unused;
  } p{strides_of(a), cl_int(n), cl_int(start), cl_int(pitch_of(device, n)), 0};
  launch(queue, kernel, NDRange(std::size_t(a.size(0)) * side, side, side, side), a.data, info.data, p,
         LocalMemory{local_bytes(device, a.dtype, n)});
}

// The lower triangle of a -= panel panel^H, in strips, of which each is computed from its diagonal down.
void update(Queue& queue, const TensorView& a, const TensorView& panel) {
  Temporary storage;
  const TensorView right = transposed(conjugated(queue, panel, storage));
  const std::int64_t n = a.size(1), k = panel.size(2), width = n <= 768 ? n : 512;
  for (std::int64_t j = 0; j < n; j += width) {
    const std::int64_t columns = std::min(width, n - j);
    multiply(queue, block(panel, j, 0, n - j, k), block(right, 0, j, k, columns), block(a, j, j, n - j, columns), -1,
             1);
  }
}

// Columns from row `start` on that are factored before the GEMM engine updates the rest with all of them. Blocks take
// three products where the engine takes one, but without it launches are fewer, and work-groups without work are many:
// all that is left, once a few for each compute unit have it.
std::int64_t columns_of_panel(const CholeskyBlocks& blocks, const DeviceInfo& device, const TensorView& a,
                              std::int64_t start) {
  constexpr std::int64_t groups_of_unit = 4, wide = 512;
  const std::int64_t rest = a.size(1) - start, side = (rest + blocks.width() - 1) / blocks.width();
  const bool few = a.size(0) * side * (side - 1) / 2 <= groups_of_unit * std::int64_t(device.compute_units);
  return few ? rest : std::min(rest, wide);
}

void factor_in_blocks(Queue& queue, const TensorView& a, const TensorView& info) {
  const std::int64_t n = a.size(1);
  CholeskyBlocks blocks(queue, a, info);
  for (std::int64_t j = 0, columns; j < n; j += columns) {
    columns = columns_of_panel(blocks, queue.device().info(), a, j);
    const std::int64_t rest = n - j - columns;
    blocks.columns(a, j, columns);
    if (rest > 0)
      update(queue, block(a, j + columns, j + columns, rest, rest), block(a, j + columns, j, rest, columns));
  }
}

}  // namespace

void cholesky(Queue& queue, const TensorView& a, const TensorView& info) {
  check_matrix("cholesky", a);
  const std::int64_t n = a.size(1);
  check(a.size(2) == n, "cholesky", "square matrices");
  check(info.dtype == DataType::int32 && info.is_contiguous() && info.numel() == a.size(0), "cholesky",
        "info of int32 [batch]");
  if (a.numel() == 0) return fill(queue, info, 0);
  if (n <= fitting(queue, a.dtype, 8, 128)) return factor_small(queue, a, info, 0);
  if (cholesky_in_blocks(queue, a)) return factor_in_blocks(queue, a, info);
  const std::int64_t width = fitting(queue, a.dtype, 16, 64);
  for (std::int64_t j = 0; j < n; j += width) {
    const std::int64_t columns = std::min(width, n - j), rest = n - j - columns;
    const TensorView corner = block(a, j, j, columns, columns);
    factor_small(queue, corner, info, j);
    if (rest == 0) break;
    const TensorView panel = block(a, j + columns, j, rest, columns);
    // panel = panel L^-H: the conjugate of L times panel^T is what it was.
    triangular_solve(queue, corner, transposed(panel), {.upper = false, .unit = false, .conjugate = true});
    update(queue, block(a, j + columns, j + columns, rest, rest), panel);
  }
}

}  // namespace dlprim
