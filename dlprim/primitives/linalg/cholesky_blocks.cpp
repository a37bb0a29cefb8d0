// SPDX-License-Identifier: MIT
#include "cholesky_blocks.hpp"

#include "../narrow.hpp"

namespace dlprim::linalg {

namespace {

constexpr std::int64_t side = 16;

struct Key {
  DataType type;
  std::uint8_t which, row_fast;
};

enum Which : std::uint8_t { first, panel, update };

// Rows of a work-item's square in a block, and columns of a product's slice: 10 KiB of local memory.
std::int64_t each(DataType type) { return is_complex(type) ? 2 : 4; }
std::int64_t depth(DataType type) { return 64 / std::int64_t(size_of(type)); }

Kernel& kernel_for(Queue& queue, const TensorView& a, Which which) {
  static KernelCache<Key> cache;
  constexpr const char* names[] = {"cholesky_first", "cholesky_panel", "cholesky_update"};
  const Key key{a.dtype, which, a.strides[1] <= a.strides[2]};
  return cache.get(queue.device(), key, [&] {
    return source("cholesky_blocks.cl", names[which], a.dtype)
        .define("SIDE", side)
        .define("EACH", each(a.dtype))
        .define("DEPTH", depth(a.dtype))
        .define("ROW_FAST", std::int64_t(key.row_fast));
  });
}

}  // namespace

bool cholesky_in_blocks(Queue& queue, const TensorView& a) {
  const DeviceInfo& device = queue.device().info();
  constexpr std::int64_t most_matrices = 65535;  // of NVIDIA's launches, along their third dimension
  const std::int64_t block = side * each(a.dtype);
  const auto bytes = std::size_t(2 * depth(a.dtype) * (block + 4) + 4 * block) * size_of(a.dtype);
  return !device.cpu && a.size(0) <= most_matrices && device.max_work_group >= side * side &&
         bytes <= device.local_memory && std::max(a.strides[1], a.strides[2]) * block < (std::int64_t(1) << 31);
}

void CholeskyBlocks::columns(const TensorView& a, std::int64_t from, std::int64_t count) {
  struct {
    Strides a;
    cl_int n, start;
  } p{strides_of(a), narrow("cholesky", "rows", a.size(1)), cl_int(from)};
  const std::int64_t batch = a.size(0);
  auto run = [&](Which which, std::int64_t x, std::int64_t y, std::int64_t z) {
    launch(queue_, kernel_for(queue_, a, which),
           NDRange(std::size_t(x * side), std::size_t(y * side), std::size_t(z), side, side, 1), a.data,
           inverse_.view().data, info_.data, p);
  };
  run(first, batch, 1, 1);
  for (std::int64_t j = from; j < from + count; j += width()) {
    const std::int64_t rest = (a.size(1) - j - 1) / width(), right = (from + count - j - 1) / width();
    p.start = cl_int(j);
    if (rest > 0) run(panel, rest, batch, 1);
    if (right > 0) run(update, rest, right, batch);
  }
}

CholeskyBlocks::CholeskyBlocks(Queue& queue, const TensorView& a, const TensorView& info)
    : queue_(queue), info_(info), width_(side * each(a.dtype)) {
  inverse_ = Temporary(queue, a.dtype, {a.size(0), width_, width_});
}

}  // namespace dlprim::linalg
