// SPDX-License-Identifier: MIT
#include <dlprim/primitives/index.hpp>
#include <dlprim/runtime/environment.hpp>
#include <dlprim/runtime/launch.hpp>
#include <dlprim/runtime/memory.hpp>
#include <dlprim/runtime/settings.hpp>

#include <string_view>

#include "../tuning/store.hpp"
#include "sort_order.hpp"

namespace dlprim {

namespace {

constexpr int largest_heap = 256;

// For CPUs.
void select_by_heap(Queue& queue, const TensorView& keys, const TensorView& places, bool descending) {
  struct Select {
    DataType type;
    bool descending;
  };
  static KernelCache<Select> cache;
  Kernel& kernel = cache.get(queue.device(), {keys.dtype, descending}, [&] {
    KernelSource source("heap_select.cl", "heap_select");
    define_sort_keys(source, keys.dtype, descending);
    return source.define("MOST", largest_heap);
  });
  launch(queue, kernel, NDRange(std::size_t(keys.sizes[0]), 1), keys.data, places.data, cl_ulong(keys.sizes[1]),
         cl_ulong(places.sizes[1]));
}

// Parts of a row that work-groups select from at the same time, where rows alone do not fill a GPU; 1: none.
std::int64_t parts_of_row(const DeviceInfo& info, std::int64_t rows, std::int64_t n, std::int64_t k) {
  constexpr std::int64_t shortest = 8192;
  if (info.cpu && !settings.gpu_forms) return 1;
  const std::int64_t wanted = 4 * std::int64_t(info.compute_units) / rows;
  std::int64_t parts = std::min(wanted, n / std::max(16 * k, shortest));
  const auto last = [&] { return n - (parts - 1) * ((n + parts - 1) / parts); };
  while (parts > 1 && last() < k) parts--;  // of a part, too, k are selected
  return std::max<std::int64_t>(parts, 1);
}

struct Select {
  DataType type;
  bool descending;
  std::uint16_t group;
};

// places[row, part * k + i] of each part's selection.
void select_of_parts(Queue& queue, const TensorView& keys, BufferRef places, std::int64_t parts, std::int64_t k,
                     bool descending, std::size_t group) {
  static KernelCache<Select> cache;
  Kernel& kernel = cache.get(queue.device(), {keys.dtype, descending, std::uint16_t(group)}, [&] {
    KernelSource source("radix_select.cl", "radix_select");
    define_sort_keys(source, keys.dtype, descending);
    return source.define("GROUP", group);
  });
  const std::int64_t n = keys.sizes[1];
  launch(queue, kernel, NDRange(std::size_t(keys.sizes[0] * parts) * group, group), keys.data, places, cl_ulong(n),
         cl_ulong((n + parts - 1) / parts), cl_ulong(k));
}

}  // namespace

bool select_places(Queue& queue, const TensorView& keys, const TensorView& places, bool descending) {
  if (!keys.is_contiguous() || !places.is_contiguous() || keys.dims != 2 || places.dims != 2 ||
      places.dtype != DataType::int64 || places.sizes[0] != keys.sizes[0] || places.sizes[1] > keys.sizes[1])
    throw ValidationError("[topk] expected contiguous keys [rows, n] and int64 indices [rows, k] with k <= n");
  const DeviceInfo& info = queue.device().info();
  const std::int64_t n = keys.sizes[1], k = places.sizes[1];
  static tuning::Numbers<3> costs("sort.select");
  const auto& [an_element, sorted_element, sort] = costs(queue.device());
  const std::int64_t parts = parts_of_row(info, keys.sizes[0], n, k);
  const double more = (an_element / double(parts) - sorted_element * double(keys.sizes[0])) * double(n);
  const bool too_long = n >= std::int64_t(1) << 31 || (!info.cpu && more > sort);
  if (is_complex(keys.dtype) || too_long || n < 64 || 4 * k > n) return false;
  if (!info.cpu && info.max_work_group < 256) return false;
  if (places.numel() == 0) return true;
  const char* forced = environment::text("DLPRIM_SORT");
  if (info.cpu && !forced && k <= largest_heap) {
    select_by_heap(queue, keys, places, descending);
    return true;
  }
  const std::size_t many = n >= 8192 && info.max_work_group >= 1024 ? 1024 : 256;
  const std::size_t group = info.cpu && !(forced && std::string_view(forced) == "radix") ? 1 : many;
  if (parts == 1 || group == 1) {
    select_of_parts(queue, keys, places.data, 1, k, descending, group);
    return true;
  }
  // What is selected of the parts, in the row's order, is a row to select from.
  const std::int64_t rows = keys.sizes[0], some = parts * k;
  const Workspace all(queue, std::size_t(rows * some) * 8), chosen(queue, std::size_t(rows * k) * 8);
  const Workspace values(queue, std::size_t(rows * some) * size_of(keys.dtype));
  const TensorView of_parts(all.data(), DataType::int64, {rows, some});
  const TensorView few(values.data(), keys.dtype, {rows, some}), of_few(chosen.data(), DataType::int64, {rows, k});
  select_of_parts(queue, keys, of_parts.data, parts, k, descending, group);
  gather(queue, few, keys, 1, of_parts);
  select_of_parts(queue, few, of_few.data, 1, k, descending, group);
  gather(queue, places, of_parts, 1, of_few);
  return true;
}

}  // namespace dlprim
