// SPDX-License-Identifier: MIT
#include <dlprim/primitives/histogram.hpp>
#include <dlprim/runtime/launch.hpp>
#include <dlprim/runtime/settings.hpp>

#include <algorithm>
#include <bit>

#include "check.hpp"

namespace dlprim {

namespace {

constexpr std::size_t work_group = 256;

// In local memory.
std::uint64_t held_bins(std::int64_t bins) { return std::bit_ceil(std::uint64_t(bins)); }

}  // namespace

bool can_count_bins(const Device& device, std::int64_t bins) {
  const DeviceInfo& info = device.info();
  const std::uint64_t most = std::min<std::uint64_t>(info.local_memory, 32 << 10) / sizeof(cl_uint);
  const bool gpu = !info.cpu || settings.gpu_forms;  // CPUs have no fast atomics
  return gpu && info.int64_atomics && bins > 0 && held_bins(bins) <= most;
}

void count_bins(Queue& queue, const TensorView& counts, const TensorView& numbers) {
  for (const TensorView* view : {&counts, &numbers})
    DLPRIM_EXPECT(view->dtype == DataType::int64 && view->dims == 1 && view->is_contiguous(), "count_bins",
                  "contiguous counts [bins] and numbers [n] of int64, got ", view->dims, " dims of ",
                  name(view->dtype));
  DLPRIM_EXPECT(can_count_bins(queue.device(), counts.size(0)), "count_bins", "fewer bins, got ", counts.size(0));
  const std::int64_t n = numbers.size(0), bins = counts.size(0);
  if (n == 0) return;
  const DeviceInfo& info = queue.device().info();
  static KernelCache<std::uint64_t> cache;
  Kernel& kernel = cache.get(queue.device(), held_bins(bins), [&] {
    return KernelSource("histogram.cl", "count_bins").define("BINS", std::int64_t(held_bins(bins)));
  });
  // Every work-group adds all its bins in the end, so that each should count many times as many elements.
  const std::size_t group = kernel.work_group(work_group);
  const std::int64_t least = std::max<std::int64_t>(4 * bins, 16 * std::int64_t(group));
  const std::int64_t groups = std::clamp<std::int64_t>(n / least, 1, 8 * std::int64_t(info.compute_units));
  launch(queue, kernel, NDRange(std::size_t(groups) * group, group), counts.data, numbers.data, cl_long(n),
         cl_long(bins));
}

}  // namespace dlprim
