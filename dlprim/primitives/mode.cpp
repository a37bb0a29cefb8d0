// SPDX-License-Identifier: MIT
#include <dlprim/primitives/sort.hpp>
#include <dlprim/runtime/launch.hpp>
#include <dlprim/runtime/memory.hpp>
#include <dlprim/runtime/settings.hpp>

#include <algorithm>
#include <bit>

#include "check.hpp"
#include "sort_order.hpp"

namespace dlprim {

namespace {

struct Key {
  std::uint8_t pick;
  DataType type;
  std::uint16_t group;
};

Kernel& kernel_of(Queue& queue, const Key& key) {
  static KernelCache<Key> cache;
  return cache.get(queue.device(), key, [&] {
    return KernelSource("mode.cl", key.pick ? "mode_pick" : "mode_runs")
        .define("T", tag(key.type))
        .define("GROUP", std::int64_t(key.group));
  });
}

void find_runs(Queue& queue, const TensorView& sorted, const BufferRef& order, const TensorView& values,
               const TensorView& places) {
  const DeviceInfo& info = queue.device().info();
  const std::int64_t rows = sorted.sizes[0], n = sorted.sizes[1];
  const bool cpu = (info.cpu && !settings.gpu_forms) || info.max_work_group < 256;
  const std::size_t group = cpu ? 1 : std::clamp<std::size_t>(std::bit_ceil(std::size_t(n)), 32, 256);
  // As many parts as fill the device, each long enough that its first runs, which are searched for, do not matter.
  const std::int64_t wanted = (cpu ? 4 : 8) * std::int64_t(info.compute_units) / rows, least = cpu ? 4096 : 8192;
  const std::int64_t parts = std::clamp<std::int64_t>(wanted, 1, n / least + 1), length = (n + parts - 1) / parts;
  const std::int64_t used = (n + length - 1) / length;
  Workspace found;
  if (used > 1) found = Workspace(queue, std::size_t(rows * used) * 16);
  const BufferRef of_parts = used > 1 ? found.data() : places.data;
  launch(queue, kernel_of(queue, {0, sorted.dtype, std::uint16_t(group)}),
         NDRange(std::size_t(rows * used) * group, group), sorted.data, order, values.data, places.data, of_parts,
         cl_ulong(n), cl_ulong(length), cl_uint(used));
  if (used > 1)
    launch(queue, kernel_of(queue, {1, sorted.dtype, 1}), NDRange(std::size_t(rows), 64), sorted.data, order,
           values.data, places.data, of_parts, cl_ulong(n), cl_uint(used), cl_ulong(rows));
}

}  // namespace

void select_mode(Queue& queue, const TensorView& keys, const TensorView& values, const TensorView& places) {
  DLPRIM_EXPECT(keys.is_contiguous() && keys.dims == 2 && keys.sizes[1] > 0 && !is_complex(keys.dtype), "mode",
                "contiguous real keys [rows, n], n > 0");
  DLPRIM_EXPECT(values.is_contiguous() && places.is_contiguous() && values.dtype == keys.dtype &&
                    places.dtype == DataType::int64 && values.numel() == keys.sizes[0] &&
                    places.numel() == keys.sizes[0],
                "mode", "contiguous values of the keys' dtype and int64 positions, [rows] each");
  if (keys.sizes[0] == 0) return;
  const SortProblem problem{keys.data, places.data, values.data, keys.dtype, keys.sizes[0], keys.sizes[1], false};
  if (!decline_mode_of_tiles(queue.device(), problem)) return run_mode_of_tiles(queue, problem);
  const std::size_t count = std::size_t(keys.numel());
  const Workspace sorted(queue, count * size_of(keys.dtype)), order(queue, count * sizeof(cl_long));
  const TensorView in_order(sorted.data(), keys.dtype, {keys.sizes[0], keys.sizes[1]});
  sort_order(queue, keys, {order.data(), DataType::int64, {keys.sizes[0], keys.sizes[1]}}, false, in_order);
  find_runs(queue, in_order, order.data(), values, places);
}

}  // namespace dlprim
