// SPDX-License-Identifier: MIT
#include <dlprim/primitives/histogram.hpp>
#include <dlprim/runtime/launch.hpp>
#include <dlprim/runtime/settings.hpp>

#include <algorithm>
#include <bit>
#include <limits>

#include "check.hpp"

namespace dlprim {

namespace {

constexpr std::size_t work_group = 256;

// In local memory.
std::uint64_t held_bins(std::int64_t bins) { return std::bit_ceil(std::uint64_t(bins)); }

// Whether groups are of one work-item.
bool counts_alone(const DeviceInfo& info) { return info.cpu && !settings.gpu_forms; }

enum Form : std::uint8_t { of_values = 1, alone = 2 };

struct Key {
  std::uint16_t held;
  std::uint8_t form;  // sum of Form
  DataType type;
};

Kernel& kernel_of(Queue& queue, const Key& key) {
  static KernelCache<Key> cache;
  return cache.get(queue.device(), key, [&] {
    KernelSource source("histogram.cl", key.form & of_values ? "count_values" : "count_bins");
    if (key.form & of_values) source.define("T", tag(key.type)).define("FLOATING", is_floating(key.type));
    // 16 KB, and as many copies as a warp has work-items at most.
    const std::uint64_t counters = std::min<std::uint64_t>(queue.device().info().local_memory / 8, 4096);
    const std::int64_t most = key.form & alone ? 4 : 32;
    const std::int64_t copies = std::clamp<std::int64_t>(std::int64_t(counters / key.held), 1, most);
    source.define("BINS", std::int64_t(key.held)).define("COPIES", copies);
    return source.define("ALONE", (key.form & alone) != 0);
  });
}

Key key_of(Queue& queue, std::int64_t bins, std::uint8_t form, DataType type) {
  return {std::uint16_t(held_bins(bins)), std::uint8_t(form | (counts_alone(queue.device().info()) ? alone : 0)), type};
}

// Every work-group adds all its bins in the end, so that each should count many times as many elements.
NDRange range_of(Queue& queue, Kernel& kernel, std::int64_t n, std::int64_t bins) {
  const DeviceInfo& info = queue.device().info();
  const std::size_t group = counts_alone(info) ? 1 : kernel.work_group(work_group);
  const std::int64_t least = std::max<std::int64_t>(4 * bins, group == 1 ? 4096 : 16 * std::int64_t(group));
  const std::int64_t most = 8 * std::int64_t(info.compute_units);
  return NDRange(std::size_t(std::clamp<std::int64_t>(n / least, 1, most)) * group, group);
}

}  // namespace

bool can_count_bins(const Device& device, std::int64_t bins) {
  const DeviceInfo& info = device.info();
  const std::uint64_t most = std::min<std::uint64_t>(info.local_memory, 32 << 10) / sizeof(cl_uint);
  return info.int64_atomics && bins > 0 && held_bins(bins) <= most;
}

void count_bins(Queue& queue, const TensorView& counts, const TensorView& numbers) {
  for (const TensorView* view : {&counts, &numbers})
    DLPRIM_EXPECT(view->dtype == DataType::int64 && view->dims == 1 && view->is_contiguous(), "count_bins",
                  "contiguous counts [bins] and numbers [n] of int64, got ", view->dims, " dims of ",
                  name(view->dtype));
  DLPRIM_EXPECT(can_count_bins(queue.device(), counts.size(0)), "count_bins", "fewer bins, got ", counts.size(0));
  const std::int64_t n = numbers.size(0), bins = counts.size(0);
  if (n == 0) return;
  Kernel& kernel = kernel_of(queue, key_of(queue, bins, 0, numbers.dtype));
  launch(queue, kernel, range_of(queue, kernel, n, bins), counts.data, numbers.data, cl_long(n), cl_long(bins));
}

void count_values(Queue& queue, const TensorView& counts, const TensorView& values, double low, double high) {
  DLPRIM_EXPECT(counts.dtype == DataType::int64 && counts.dims == 1 && counts.is_contiguous() &&
                    can_count_bins(queue.device(), counts.size(0)),
                "count_values", "contiguous int64 counts of few bins, got ", counts.numel());
  DLPRIM_EXPECT(values.dims == 1 && values.is_contiguous() && !is_complex(values.dtype) && low < high, "count_values",
                "contiguous real values [n], and bounds, got ", low, " and ", high);
  const std::int64_t n = values.size(0), bins = counts.size(0);
  if (n == 0) return;
  Kernel& kernel = kernel_of(queue, key_of(queue, bins, of_values, values.dtype));
  const NDRange range = range_of(queue, kernel, n, bins);
  auto run = [&](auto lowest, auto highest) {
    launch(queue, kernel, range, counts.data, values.data, cl_long(n), cl_uint(bins), lowest, highest);
  };
  if (values.dtype == DataType::float64) run(cl_double(low), cl_double(high));  // all of their bits
  else if (is_floating(values.dtype)) run(cl_float(low), cl_float(high));
  else {
    const auto whole = [](double bound) {
      return bound >= 0x1p63 ? std::numeric_limits<cl_long>::max() : cl_long(std::max(bound, -0x1p63));
    };
    run(whole(low), whole(high));
  }
}

}  // namespace dlprim
