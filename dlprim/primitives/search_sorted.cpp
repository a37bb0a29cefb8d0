// SPDX-License-Identifier: MIT
#include <dlprim/primitives/sort.hpp>
#include <dlprim/runtime/launch.hpp>
#include <dlprim/runtime/settings.hpp>

#include <algorithm>

#include "check.hpp"

namespace dlprim {

namespace {

constexpr std::uint64_t group = 256, ahead = 4;  // AHEAD of search_sorted.cl
constexpr std::uint64_t held_bytes = 16 << 10, samples = 1024;

struct Key {
  DataType type, out;
  std::uint8_t right, sorter, held, wide;
};

Kernel& kernel_of(Queue& queue, const Key& key) {
  static KernelCache<Key> cache;
  return cache.get(queue.device(), key, [&] {
    KernelSource source("search_sorted.cl", key.held ? "search_held" : "search_sorted");
    source.define("T", tag(key.type)).define("FLOATING", std::int64_t(is_floating(key.type)));
    source.define("OUT", tag(key.out)).define("GROUP", std::int64_t(key.held ? group : 0));
    source.define("HELD", std::int64_t(held_bytes / size_of(compute_type(key.type))));
    if (key.right) source.define("RIGHT");
    if (key.sorter) source.define("SORTER");
    if (key.wide) source.define("WIDE");
    return source;
  });
}

}  // namespace

void search_sorted(Queue& queue, const TensorView& out, const TensorView& sorted, const TensorView& values,
                   const TensorView& sorter, bool right) {
  DLPRIM_EXPECT(out.is_contiguous() && sorted.is_contiguous() && values.is_contiguous() && sorted.dims == 2 &&
                    sorted.dtype == values.dtype && is_integral(out.dtype) && !is_complex(sorted.dtype),
                "searchsorted", "contiguous tensors, real values of the sequence's dtype and an integer result");
  const DeviceInfo& info = queue.device().info();
  const std::uint64_t count = std::uint64_t(values.numel()), rows = std::uint64_t(sorted.sizes[0]);
  const std::uint64_t per_row = count / std::max<std::uint64_t>(rows, 1), n = std::uint64_t(sorted.sizes[1]);
  if (count == 0) return;
  const BufferRef order = sorter.defined() ? sorter.data : values.data;
  Key key{sorted.dtype, out.dtype, right, sorter.defined(), 0, n > std::uint64_t(settings.index_limit)};
  // Local memory pays where each of its elements serves several values.
  const std::uint64_t most = held_bytes / size_of(compute_type(sorted.dtype)), stride = n <= most ? 1 : n / samples + 1;
  const std::uint64_t least = std::max(4 * (n / stride), group * ahead);
  const bool gpu = (!info.cpu || settings.gpu_forms) && info.max_work_group >= group && info.local_memory >= held_bytes;
  if (gpu && n > 0 && per_row >= least && stride < (std::uint64_t(1) << 31)) {
    key.held = 1;
    const std::uint64_t parts =
        std::clamp<std::uint64_t>(std::uint64_t(info.compute_units) * 8 / rows, 1, per_row / least);
    return launch(queue, kernel_of(queue, key), NDRange(std::size_t(rows * parts * group), group), out.data,
                  sorted.data, values.data, order, cl_ulong(n), cl_ulong(per_row), cl_uint(parts), cl_uint(stride));
  }
  launch(queue, kernel_of(queue, key), NDRange(std::size_t(count), info.cpu ? 64 : group), out.data, sorted.data,
         values.data, order, cl_ulong(n), std::max<cl_ulong>(per_row, 1), cl_ulong(count), cl_int(rows == 1));
}

}  // namespace dlprim
