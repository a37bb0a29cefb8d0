// SPDX-License-Identifier: MIT
#include <dlprim/runtime/launch.hpp>
#include <dlprim/runtime/memory.hpp>
#include <dlprim/runtime/settings.hpp>

#include <algorithm>
#include <bit>

#include "sort_order.hpp"

namespace dlprim {

namespace {

constexpr const char* kernels[] = {"sweep_tile", "sweep_count", "sweep_starts", "sweep"};
enum Kind : std::uint8_t { tile, count, starts, sweep };
constexpr std::int64_t digits = 256;
constexpr std::uint16_t whole_group = 256;

struct Key {
  Kind kind;
  std::uint8_t items;
  std::uint16_t group;
  DataType type;
  std::uint8_t descending;
  std::uint8_t wanted;  // bits: the order, the sorted keys, the mode alone
  std::uint8_t unused = 0;
};

const char* infinity_bits(DataType type) {
  switch (type) {
    case DataType::float64: return "0x7ff0000000000000UL";
    case DataType::float32: return "0x7f800000u";
    case DataType::float16: return "0x7c00u";
    default: return "0x7f80u";
  }
}

Kernel& kernel_of(Queue& queue, const Key& key) {
  static KernelCache<Key> cache;
  return cache.get(queue.device(), key, [&] {
    KernelSource source("radix_sweep.cl", kernels[key.kind]);
    source.define("T", tag(key.type)).define("SORT_BITS", std::int64_t(8 * size_of(key.type)));
    source.define("FLOATING", is_floating(key.type)).define("SIGNED", is_signed(key.type));
    if (is_floating(key.type)) source.define("INFINITY_BITS", infinity_bits(key.type));
    source.define("DESCENDING", key.descending).define("VALUES", key.wanted >> 1 & 1).define("MODE", key.wanted >> 2);
    source.define("ORDER", key.wanted & 1);
    return source.define("GROUP", key.group).define("ITEMS", key.items);
  });
}

// Keys of a work-item in a whole tile; a tile's keys take 16 KB of local memory.
std::uint8_t items_of(DataType type) { return size_of(type) == 8 ? 8 : 16; }

bool fits_tile(const SortProblem& p) { return p.n <= std::int64_t(items_of(p.type)) * whole_group; }

void sort_tiles(Queue& queue, const SortProblem& p, Key key) {
  key.group = std::uint16_t(std::clamp<std::int64_t>(
      std::int64_t(std::bit_ceil(std::uint64_t((p.n + key.items - 1) / key.items))), 32, whole_group));
  key.items = std::uint8_t(std::bit_ceil(std::uint64_t((p.n + key.group - 1) / key.group)));
  launch(queue, kernel_of(queue, key), NDRange(std::size_t(p.segments) * key.group, key.group), p.keys, p.order,
         p.sorted, cl_uint(p.n));
}

// A row's histograms are made by so many work-groups that all rows' fill the device, each with a tile or more.
std::size_t counting_groups(const Device& device, std::int64_t rows, std::int64_t tiles) {
  const std::int64_t wanted = std::int64_t(device.info().compute_units) * 8 / rows;
  return std::size_t(std::clamp<std::int64_t>(wanted, 1, tiles));
}

// All of them, of p.n keys each; their tiles are counted in 32 bits.
void sort_rows_by_sweeps(Queue& queue, const SortProblem& p, Key key) {
  const std::int64_t per_tile = std::int64_t(key.items) * whole_group, tiles = (p.n + per_tile - 1) / per_tile;
  const std::int64_t passes = std::int64_t(size_of(p.type)), total = p.segments * p.n, all_tiles = p.segments * tiles;
  const std::size_t key_bytes = std::max<std::size_t>(4, size_of(p.type));
  const Workspace keys(queue, std::size_t(2 * total) * key_bytes);
  const Workspace indices(queue, key.wanted & 1 ? std::size_t(2 * total) * 4 : 4);
  const Workspace plan(queue, std::size_t(p.segments * passes) * 4);
  // Counts that begin at 0: of digits, of tickets, and of tiles; the second half of these is cleared by the first pass.
  const std::size_t count_bytes = std::size_t(p.segments * passes * digits) * 4, ticket_bytes = std::size_t(passes) * 4;
  const std::size_t state_bytes = std::size_t(all_tiles * digits) * 4;
  const Workspace cleared(queue, state_bytes * 2 + count_bytes + ticket_bytes);
  BufferRef states = cleared.data(), counts = states, tickets = states;
  counts.offset += 2 * state_bytes, tickets.offset += 2 * state_bytes + count_bytes;
  const cl_uint zero = 0;
  queue.fill(states, &zero, sizeof zero, state_bytes);
  queue.fill(counts, &zero, sizeof zero, count_bytes + ticket_bytes);

  auto kernel = [&](Kind kind) -> Kernel& { return key.kind = kind, kernel_of(queue, key); };
  const NDRange counting(counting_groups(queue.device(), p.segments, tiles) * whole_group, std::size_t(p.segments),
                         whole_group, 1);
  launch(queue, kernel(count), counting, p.keys, counts, cl_uint(p.n));
  launch(queue, kernel(starts), NDRange(std::size_t(p.segments) * whole_group, whole_group), counts, plan.data(),
         cl_uint(p.n));
  for (cl_uint pass = 0; pass < cl_uint(passes); pass++)
    launch(queue, kernel(sweep), NDRange(std::size_t(all_tiles) * whole_group, whole_group), p.keys, keys.data(),
           indices.data(), p.order, p.sorted, counts, plan.data(), states, tickets, cl_uint(p.n), cl_uint(tiles), pass,
           cl_ulong(total));
}

}  // namespace

const char* decline_sweep(const Device& device, const SortProblem& p, bool forced) {
  const DeviceInfo& info = device.info();
  if (is_complex(p.type)) return "complex keys";
  if (p.n >= std::int64_t(1) << 30 || p.n > settings.index_limit) return "rows of 2^30 keys or more";
  if (info.local_memory < 30000 || info.max_work_group < whole_group) return "too little local memory";
  if (forced) return nullptr;
  return !info.nv_inline_ptx ? "no shuffles" : p.n < 64 ? "few keys" : nullptr;
}

void run_sweep(Queue& queue, const SortProblem& all) {
  SortProblem p = all;
  const bool order = all.order.memory, values = all.sorted.memory;
  const Key key{tile,   items_of(p.type), whole_group,
                p.type, p.descending,     std::uint8_t((order ? 1 : 0) | (values ? 2 : 0))};
  if (!values) p.sorted = p.order;
  if (!order) p.order = p.sorted;
  if (fits_tile(p)) return sort_tiles(queue, p, key);
  // As many rows at once as need no more than 2^30 keys, and some hundred bytes of counts for each.
  const std::int64_t most = std::max<std::int64_t>(1, std::min<std::int64_t>((std::int64_t(1) << 30) / p.n, 65535));
  for (std::int64_t row = 0; row < all.segments; row += most) {
    p.segments = std::min(most, all.segments - row);
    sort_rows_by_sweeps(queue, p, key);
    p.keys.offset += std::size_t(p.segments * p.n) * size_of(p.type);
    p.sorted.offset += std::size_t(p.segments * p.n) * (values ? size_of(p.type) : sizeof(cl_long));
    p.order.offset += std::size_t(p.segments * p.n) * (order ? sizeof(cl_long) : size_of(p.type));
  }
}

const char* decline_mode_of_tiles(const Device& device, const SortProblem& p) {
  if (!fits_tile(p)) return "long rows";
  return decline_sweep(device, p, settings.gpu_forms);
}

void run_mode_of_tiles(Queue& queue, const SortProblem& p) {
  sort_tiles(queue, p, {tile, items_of(p.type), whole_group, p.type, false, 7});
}

}  // namespace dlprim
