// SPDX-License-Identifier: MIT
#include <dlprim/primitives/index.hpp>
#include <dlprim/primitives/sort.hpp>
#include <dlprim/runtime/launch.hpp>
#include <dlprim/runtime/memory.hpp>

#include <bit>

#include "check.hpp"
#include "select.hpp"
#include "sort_order.hpp"

namespace dlprim {

namespace {

constexpr std::size_t work_group = 64;
constexpr std::int64_t run = 16;  // RUN of sort.cl

enum Kind : std::uint8_t { sort_runs, merge_runs, place, search, heads };
constexpr const char* kernels[] = {"sort_runs", "merge_runs", "mode_place", "search_sorted", "run_heads"};

struct Key {
  Kind kind;
  DataType keys;
  std::uint8_t option;  // bits: 1 rows or right, 2 descending or sorter
  DataType out;
};

Kernel& kernel_for(Queue& queue, const Key& key) {
  if (is_complex(key.keys))
    throw NotImplementedError("[sort] expected a real dtype, got " + std::string(name(key.keys)));
  static KernelCache<Key> cache;
  return cache.get(queue.device(), key, [&] {
    KernelSource source("sort.cl", kernels[key.kind]);
    source.define("T", tag(key.keys)).define("FLOATING", std::int64_t(is_floating(key.keys)));
    if (key.kind == search) source.define("OUT", tag(key.out));
    if (key.option & 1) source.define(key.kind == search ? "RIGHT" : "ROWS");
    if (key.option & 2) source.define(key.kind == search ? "SORTER" : "DESCENDING");
    return source;
  });
}

// Sorts `segments` of n keys (or one of n rows).
void merge_sort(Queue& queue, const BufferRef& keys, DataType type, const BufferRef& order, std::int64_t segments,
                std::int64_t n, std::int64_t columns, std::uint8_t option) {
  if (segments * n == 0) return;
  const cl_ulong pieces = cl_ulong((n + run - 1) / run), items = cl_ulong(segments) * pieces;
  const NDRange range(items, work_group);
  const std::size_t bytes = std::size_t(segments * n) * sizeof(cl_long);
  const int passes = n > run ? std::bit_width(std::uint64_t(pieces - 1)) : 0;
  Workspace spare;
  if (passes > 0) spare = Workspace(queue, bytes);
  BufferRef buffers[2] = {order, spare.data()};
  int now = passes % 2;  // so that the last pass ends in `order`
  launch(queue, kernel_for(queue, {sort_runs, type, option, type}), range, keys, buffers[now], cl_long(n),
         cl_long(columns), pieces, items);
  if (passes == 0) return;
  Kernel& merge = kernel_for(queue, {merge_runs, type, option, type});
  std::int64_t width = run;
  for (int pass = 0; pass < passes; pass++, width *= 2, now = 1 - now)
    launch(queue, merge, range, keys, buffers[now], buffers[1 - now], cl_long(n), cl_long(columns), pieces, items,
           cl_long(width));
}

const char* decline_merge(const Device&, const SortProblem&, bool) { return nullptr; }

void gather_sorted(Queue& queue, const SortProblem& p) {
  if (!p.sorted.memory) return;
  const TensorView keys{p.keys, p.type, {p.segments, p.n}}, sorted{p.sorted, p.type, {p.segments, p.n}};
  gather(queue, sorted, keys, 1, {p.order, DataType::int64, {p.segments, p.n}}, {});
}

void run_merge(Queue& queue, const SortProblem& p) {
  merge_sort(queue, p.keys, p.type, p.order, p.segments, p.n, 1, std::uint8_t(p.descending ? 2 : 0));
  gather_sorted(queue, p);
}

void run_radix_and_gather(Queue& queue, const SortProblem& p) {
  run_radix(queue, p);
  gather_sorted(queue, p);
}

void add_cores(Cores<Core<SortProblem>>& cores) {
  using SortCore = Core<SortProblem>;
  static constexpr SortCore sweep{
      .name = "sweep", .order = 50, .decline = decline_sweep, .run = run_sweep, .copies = true};
  static constexpr SortCore radix{.name = "radix", .order = 100, .decline = decline_radix, .run = run_radix_and_gather};
  static constexpr SortCore parts{
      .name = "parts", .order = 150, .decline = decline_parts, .run = run_parts, .copies = true};
  static constexpr SortCore merge{.name = "merge", .order = 200, .decline = decline_merge, .run = run_merge};
  cores.add(sweep);
  cores.add(radix);
  cores.add(parts);
  cores.add(merge);
}

}  // namespace

void sort_order(Queue& queue, const TensorView& keys, const TensorView& order, bool descending,
                const TensorView& sorted) {
  DLPRIM_EXPECT(
      !sorted.defined() || (sorted.is_contiguous() && sorted.dtype == keys.dtype && sorted.numel() == keys.numel()),
      "sort", "sorted keys that are contiguous, of the keys' dtype and size");
  DLPRIM_EXPECT(keys.is_contiguous() && order.is_contiguous() && order.dtype == DataType::int64 && keys.dims == 2 &&
                    order.numel() == keys.numel(),
                "sort", "contiguous keys [rows, n] and an int64 order of that size");
  if (keys.numel() == 0) return;
  const SortProblem problem{keys.data,  order.data,    sorted.defined() ? sorted.data : BufferRef{},
                            keys.dtype, keys.sizes[0], keys.sizes[1],
                            descending};
  static const Cores<Core<SortProblem>> all("sort", "DLPRIM_SORT", add_cores);
  all.run(queue, problem);
}

void sort_rows(Queue& queue, const TensorView& keys, const TensorView& order) {
  DLPRIM_EXPECT(keys.is_contiguous() && order.is_contiguous() && order.dtype == DataType::int64 && keys.dims == 2 &&
                    order.numel() == keys.sizes[0],
                "sort", "contiguous keys [n, columns] and an int64 order [n]");
  merge_sort(queue, keys.data, keys.dtype, order.data, 1, keys.sizes[0], keys.sizes[1], 1);
}

void mode_place(Queue& queue, const TensorView& sorted, const TensorView& place_of) {
  DLPRIM_EXPECT(
      sorted.is_contiguous() && sorted.dims == 2 && place_of.numel() == sorted.sizes[0] && sorted.sizes[1] > 0, "sort",
      "contiguous rows [rows, n] that are not empty");
  const cl_ulong rows = cl_ulong(sorted.sizes[0]);
  launch(queue, kernel_for(queue, {place, sorted.dtype, 0, sorted.dtype}), NDRange(rows, work_group), sorted.data,
         place_of.data, cl_long(sorted.sizes[1]), rows);
}

void search_sorted(Queue& queue, const TensorView& out, const TensorView& sorted, const TensorView& values,
                   const TensorView& sorter, bool right) {
  DLPRIM_EXPECT(out.is_contiguous() && sorted.is_contiguous() && values.is_contiguous() && sorted.dims == 2 &&
                    sorted.dtype == values.dtype && is_integral(out.dtype),
                "sort", "contiguous tensors, values of the sequence's dtype and an integer result");
  const cl_ulong count = cl_ulong(values.numel());
  const cl_ulong per_row = count / cl_ulong(std::max<std::int64_t>(sorted.sizes[0], 1));
  const auto option = std::uint8_t((right ? 1 : 0) | (sorter.defined() ? 2 : 0));
  launch(queue, kernel_for(queue, {search, sorted.dtype, option, out.dtype}), NDRange(count, work_group), out.data,
         sorted.data, values.data, sorter.defined() ? sorter.data : values.data, cl_long(sorted.sizes[1]),
         std::max<cl_ulong>(per_row, 1), count, cl_int(sorted.sizes[0] == 1));
}

void run_heads(Queue& queue, const TensorView& keys, const TensorView& order, const TensorView& marks) {
  DLPRIM_EXPECT(keys.is_contiguous() && order.is_contiguous() && marks.is_contiguous() && keys.dims == 2 &&
                    order.dtype == DataType::int64 && marks.dtype == DataType::boolean &&
                    order.numel() == keys.sizes[0],
                "sort", "contiguous keys [n, columns], an int64 order [n] and bool marks [n]");
  const cl_ulong n = cl_ulong(keys.sizes[0]);
  launch(queue, kernel_for(queue, {heads, keys.dtype, 0, keys.dtype}), NDRange(n, work_group), keys.data, order.data,
         marks.data, n, cl_long(keys.sizes[1]));
}

}  // namespace dlprim
