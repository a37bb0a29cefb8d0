// SPDX-License-Identifier: MIT
#include "cholesky_blocks.hpp"

#include "../narrow.hpp"

namespace dlprim::linalg {

namespace {

constexpr std::int64_t side = 16;

struct Key {
  DataType type;
  std::uint8_t step, each;
};

// Local memory: two blocks, each row followed by 4 elements.
std::size_t local_bytes(DataType type, std::int64_t each) {
  return std::size_t(2 * side * each * (side * each + 4)) * size_of(type);
}

// Rows of a work-item's square in a block; 0 where local memory does not hold the smaller blocks.
std::int64_t each_of(const DeviceInfo& device, DataType type) {
  for (std::int64_t each : {4, 2})
    if (local_bytes(type, each) <= std::min<std::size_t>(device.local_memory, 48 << 10)) return each;
  return 0;
}

// Columns between barriers: a work-item has a triangle of so many in registers, of which Intel's have fewer.
std::int64_t step_of(const DeviceInfo& device, DataType type) {
  return size_of(type) > 8 || device.vendor == Vendor::intel ? 4 : 8;
}

Kernel& kernel_for(Queue& queue, const TensorView& a, bool step) {
  static KernelCache<Key> cache;
  const DeviceInfo& device = queue.device().info();
  const Key key{a.dtype, step, std::uint8_t(each_of(device, a.dtype))};
  return cache.get(queue.device(), key, [&] {
    return source("cholesky_blocks.cl", step ? "cholesky_step" : "cholesky_first", a.dtype)
        .define("SIDE", side)
        .define("EACH", std::int64_t(key.each))
        .define("STEP", step_of(device, a.dtype));
  });
}

}  // namespace

bool cholesky_in_blocks(Queue& queue, const TensorView& a) {
  const DeviceInfo& device = queue.device().info();
  constexpr std::int64_t most_matrices = 65535;  // of NVIDIA's launches, along their third dimension
  return !device.cpu && a.size(0) <= most_matrices && device.max_work_group >= side * side && each_of(device, a.dtype);
}

void CholeskyBlocks::columns(const TensorView& a, std::int64_t from, std::int64_t count) {
  struct {
    Strides a;
    cl_int n, start, last, unused;
  } p{strides_of(a), narrow("cholesky", "rows", a.size(1)), cl_int(from), 0, 0};
  auto run = [&](bool step, std::int64_t x, std::int64_t y) {
    launch(queue_, kernel_for(queue_, a, step),
           NDRange(std::size_t(x * side * side), std::size_t(y), std::size_t(a.size(0)), side * side, 1, 1), a.data,
           work_.view().data, info_.data, p);
  };
  const auto blocks_after = [&](std::int64_t row, std::int64_t end) { return (end - row - 1) / width(); };
  run(false, blocks_after(from, a.size(1)) + 1, 1);
  for (std::int64_t j = from; j < from + count; j += width()) {
    const std::int64_t below = blocks_after(j, a.size(1)), right = blocks_after(j, from + count);
    p.start = cl_int(j), p.last = right == 0;
    if (below > 0) run(true, below, std::max<std::int64_t>(right, 1));
  }
}

CholeskyBlocks::CholeskyBlocks(Queue& queue, const TensorView& a, const TensorView& info)
    : queue_(queue), info_(info), width_(side * each_of(queue.device().info(), a.dtype)) {
  const std::int64_t blocks = (a.size(1) + width_ - 1) / width_;
  work_ = Temporary(queue, a.dtype, {a.size(0), 2, blocks, width_, width_});
}

}  // namespace dlprim::linalg
