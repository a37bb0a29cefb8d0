// SPDX-License-Identifier: MIT
// Short rows on CPUs, each by a work-item (kernels/sort_short.cl).
#include <dlprim/runtime/launch.hpp>
#include <dlprim/runtime/settings.hpp>

#include <algorithm>

#include "sort_order.hpp"

namespace dlprim {

namespace {

constexpr std::int64_t most = 256;  // elements of a row, whose square is the work

struct Key {
  DataType type;
  std::uint8_t descending, order, sorted;
  std::uint16_t group;
};

Kernel& kernel_of(Queue& queue, const Key& key) {
  static KernelCache<Key> cache;
  return cache.get(queue.device(), key, [&] {
    KernelSource source("sort_short.cl", "sort_short");
    define_sort_keys(source, key.type, key.descending);
    source.define("MOST", most).define("ORDER", key.order).define("SORTED", key.sorted);
    return source.define("GROUP", key.group);
  });
}

}  // namespace

const char* decline_short(const Device& device, const SortProblem& p, bool forced) {
  if (is_complex(p.type)) return "complex keys";
  if (p.n > most) return "long rows";
  if (forced) return nullptr;
  return device.info().cpu && !settings.gpu_forms ? nullptr : "not a CPU";
}

void run_short(Queue& queue, const SortProblem& p) {
  const std::size_t group = std::min<std::size_t>(64, queue.device().info().max_work_group);
  const bool order = p.order.memory, sorted = p.sorted.memory;
  const std::size_t groups = (std::size_t(p.segments) + group - 1) / group;
  launch(queue, kernel_of(queue, {p.type, p.descending, order, sorted, std::uint16_t(group)}),
         NDRange(groups * group, group), p.keys, order ? p.order : p.sorted, sorted ? p.sorted : p.order,
         cl_ulong(p.segments), cl_uint(p.n));
}

}  // namespace dlprim
