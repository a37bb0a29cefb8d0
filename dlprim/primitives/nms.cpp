// SPDX-License-Identifier: MIT
#include <dlprim/primitives/nms.hpp>
#include <dlprim/runtime/launch.hpp>
#include <dlprim/runtime/memory.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

#include "narrow.hpp"
#include "two_floats.hpp"

namespace dlprim {

namespace {

// The struct of nms.cl.
struct Rows {
  cl_int first, rows, boxes, words;
  TwoFloats threshold;
};

struct Key {
  DataType type;
  std::uint8_t choose;
};

constexpr std::size_t most_marks = std::size_t(64) << 20;  // bytes of marks at a time

std::size_t group_of(const Queue& queue) { return fitting_group(queue.device().info(), 256); }

Kernel& kernel_for(Queue& queue, const Key& key) {
  static KernelCache<Key> cache;
  return cache.get(queue.device(), key, [&] {
    return KernelSource("nms.cl", key.choose ? "nms_choose" : "nms_overlaps")
        .define("T", tag(key.type))
        .define("GROUP", std::int64_t(group_of(queue)));
  });
}

// x > threshold for x of `type` (computed in float unless it is float64), whatever lies between two floats.
TwoFloats limit(double threshold, DataType type) {
  if (type == DataType::float64) return TwoFloats(threshold);
  const float nearest = float(threshold);
  return TwoFloats(nearest > threshold ? std::nextafter(nearest, -std::numeric_limits<float>::infinity()) : nearest);
}

}  // namespace

void non_max_suppression(Queue& queue, const TensorView& boxes, const TensorView& keep, double threshold) {
  if (!is_floating(boxes.dtype) || boxes.dims != 2 || boxes.sizes[1] != 4 || !boxes.is_contiguous() ||
      keep.dtype != DataType::boolean || keep.dims != 1 || keep.sizes[0] != boxes.sizes[0] || !keep.is_contiguous())
    throw ValidationError("[non_max_suppression] expected contiguous floating boxes [n, 4] and bool [n]");
  const std::int64_t n = narrow("non_max_suppression", "a number of boxes", boxes.sizes[0]), words = (n + 31) / 32;
  if (n == 0) return;
  const std::int64_t fitting = std::int64_t(most_marks / sizeof(cl_uint)) / words / 32 * 32;
  const std::int64_t step = std::min(std::max<std::int64_t>(fitting, 32), (n + 31) / 32 * 32);
  Workspace marks(queue, std::size_t(step * words) * sizeof(cl_uint));
  Workspace removed(queue, std::size_t(words) * sizeof(cl_uint));
  const cl_uint none = 0;
  queue.fill(removed.data(), &none, sizeof none, std::size_t(words) * sizeof none);
  const std::size_t group = group_of(queue);
  for (std::int64_t first = 0; first < n; first += step) {
    const Rows p{cl_int(first), cl_int(std::min(step, n - first)), cl_int(n), cl_int(words),
                 limit(threshold, boxes.dtype)};
    launch(queue, kernel_for(queue, {boxes.dtype, 0}), NDRange(std::size_t(p.rows), std::size_t(words), 64, 1),
           boxes.data, marks.data(), p);
    launch(queue, kernel_for(queue, {boxes.dtype, 1}), NDRange(group, group), marks.data(), removed.data(), keep.data,
           p);
  }
}

}  // namespace dlprim
