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

enum Kind : std::uint8_t { sort_runs, merge_runs, heads, heads_of_sorted };
constexpr const char* kernels[] = {"sort_runs", "merge_runs", "run_heads", "sorted_heads"};

struct Key {
  Kind kind;
  DataType keys;
  std::uint8_t option;  // bits: 1 rows or fours, 2 descending
};

Kernel& kernel_for(Queue& queue, const Key& key) {
  if (is_complex(key.keys))
    throw NotImplementedError("[sort] expected a real dtype, got " + std::string(name(key.keys)));
  static KernelCache<Key> cache;
  return cache.get(queue.device(), key, [&] {
    KernelSource source("sort.cl", kernels[key.kind]);
    source.define("T", tag(key.keys)).define("FLOATING", std::int64_t(is_floating(key.keys)));
    if (key.option & 1) source.define(key.kind == heads_of_sorted ? "FOURS" : "ROWS");
    if (key.option & 2) source.define("DESCENDING");
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
  launch(queue, kernel_for(queue, {sort_runs, type, option}), range, keys, buffers[now], cl_long(n), cl_long(columns),
         pieces, items);
  if (passes == 0) return;
  Kernel& merge = kernel_for(queue, {merge_runs, type, option});
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

// Cores that make an order anyway.
template <void (*run)(Queue&, const SortProblem&)>
void with_order(Queue& queue, const SortProblem& problem) {
  if (problem.order.memory) return run(queue, problem);
  const Workspace order(queue, std::size_t(problem.segments * problem.n) * sizeof(cl_long));
  SortProblem p = problem;
  p.order = order.data();
  run(queue, p);
}

void run_radix_and_gather(Queue& queue, const SortProblem& p) {
  run_radix(queue, p);
  gather_sorted(queue, p);
}

void add_cores(Cores<Core<SortProblem>>& cores) {
  using SortCore = Core<SortProblem>;
  static constexpr SortCore rows_alone{.name = "short", .order = 40, .decline = decline_short, .run = run_short};
  static constexpr SortCore sweep{
      .name = "sweep", .order = 50, .decline = decline_sweep, .run = run_sweep, .copies = true};
  static constexpr SortCore radix{
      .name = "radix", .order = 100, .decline = decline_radix, .run = with_order<run_radix_and_gather>};
  static constexpr SortCore parts{
      .name = "parts", .order = 150, .decline = decline_parts, .run = with_order<run_parts>, .copies = true};
  static constexpr SortCore merge{
      .name = "merge", .order = 200, .decline = decline_merge, .run = with_order<run_merge>};
  cores.add(rows_alone);
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
  DLPRIM_EXPECT(keys.is_contiguous() && keys.dims == 2 && (order.defined() || sorted.defined()), "sort",
                "contiguous keys [rows, n], and to write their order or the sorted keys");
  DLPRIM_EXPECT(
      !order.defined() || (order.is_contiguous() && order.dtype == DataType::int64 && order.numel() == keys.numel()),
      "sort", "an int64 order of the keys' size");
  if (keys.numel() == 0) return;
  const BufferRef none{};
  const SortProblem problem{keys.data,
                            order.defined() ? order.data : none,
                            sorted.defined() ? sorted.data : none,
                            keys.dtype,
                            keys.sizes[0],
                            keys.sizes[1],
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

void run_heads(Queue& queue, const TensorView& keys, const TensorView& order, const TensorView& marks) {
  DLPRIM_EXPECT(keys.is_contiguous() && marks.is_contiguous() && keys.dims == 2 && marks.dtype == DataType::boolean &&
                    marks.numel() == keys.sizes[0],
                "sort", "contiguous keys [n, columns] and bool marks [n]");
  DLPRIM_EXPECT(order.defined()
                    ? order.is_contiguous() && order.dtype == DataType::int64 && order.numel() == keys.sizes[0]
                    : keys.sizes[1] == 1,
                "sort", "an int64 order [n], or keys of one column");
  const cl_ulong n = cl_ulong(keys.sizes[0]);
  if (!order.defined()) {
    const bool fours = keys.data.offset % (4 * size_of(keys.dtype)) == 0 && marks.data.offset % 4 == 0;
    return launch(queue, kernel_for(queue, {heads_of_sorted, keys.dtype, fours}),
                  NDRange(std::size_t((n + 3) / 4), 4 * work_group), keys.data, marks.data, n);
  }
  launch(queue, kernel_for(queue, {heads, keys.dtype, 0}), NDRange(n, work_group), keys.data, order.data, marks.data, n,
         cl_long(keys.sizes[1]));
}

}  // namespace dlprim
