// SPDX-License-Identifier: MIT
#include <dlprim/runtime/environment.hpp>
#include <dlprim/runtime/launch.hpp>

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

}  // namespace

bool select_places(Queue& queue, const TensorView& keys, const TensorView& places, bool descending) {
  if (!keys.is_contiguous() || !places.is_contiguous() || keys.dims != 2 || places.dims != 2 ||
      places.dtype != DataType::int64 || places.sizes[0] != keys.sizes[0] || places.sizes[1] > keys.sizes[1])
    throw ValidationError("[topk] expected contiguous keys [rows, n] and int64 indices [rows, k] with k <= n");
  const DeviceInfo& info = queue.device().info();
  const std::int64_t n = keys.sizes[1], k = places.sizes[1];
  static tuning::Numbers<3> costs("sort.select");
  const auto& [an_element, sorted_element, sort] = costs(queue.device());
  const double more = (an_element - sorted_element * double(keys.sizes[0])) * double(n);
  const bool too_long = n >= std::int64_t(1) << 31 || (!info.cpu && more > sort);
  if (is_complex(keys.dtype) || too_long || n < 64 || 4 * k > n) return false;
  if (!info.cpu && info.max_work_group < 256) return false;
  if (places.numel() == 0) return true;
  struct Select {
    DataType type;
    bool descending;
    std::uint16_t group;
  };
  const char* forced = environment::text("DLPRIM_SORT");
  if (info.cpu && !forced && k <= largest_heap) {
    select_by_heap(queue, keys, places, descending);
    return true;
  }
  const std::size_t many = n >= 8192 && info.max_work_group >= 1024 ? 1024 : 256;
  const std::size_t group = info.cpu && !(forced && std::string_view(forced) == "radix") ? 1 : many;
  static KernelCache<Select> cache;
  const Select key{keys.dtype, descending, std::uint16_t(group)};
  Kernel& kernel = cache.get(queue.device(), key, [&] {
    KernelSource source("radix_select.cl", "radix_select");
    define_sort_keys(source, keys.dtype, descending);
    return source.define("GROUP", group);
  });
  launch(queue, kernel, NDRange(std::size_t(keys.sizes[0]) * group, group), keys.data, places.data, cl_ulong(n),
         cl_ulong(k));
  return true;
}

}  // namespace dlprim
