// SPDX-License-Identifier: MIT
#include <dlprim/primitives/scan.hpp>
#include <dlprim/runtime/launch.hpp>
#include <dlprim/runtime/memory.hpp>
#include <dlprim/runtime/settings.hpp>

#include <algorithm>
#include <bit>

#include "sort_order.hpp"

namespace dlprim {

namespace {

constexpr const char* kernels[] = {"radix_tile", "radix_count", "radix_scatter"};
enum Kind : std::uint8_t { whole, count, scatter };

struct Key {
  Kind kind;
  std::uint8_t items, first, last;
  std::uint16_t group;
  DataType type;
  std::uint8_t descending;
};

bool is_wide(DataType type) { return size_of(type) == 8; }
int key_bits(DataType type) { return std::max(is_floating(type) ? 32 : 0, int(8 * size_of(type))); }
// Floats of 16 bits leave the low bits of float32 keys alike.
int first_bit(DataType type) { return type == DataType::bfloat16 ? 16 : type == DataType::float16 ? 12 : 0; }

Kernel& kernel_of(Queue& queue, const Key& key) {
  static KernelCache<Key> cache;
  return cache.get(queue.device(), key, [&] {
    KernelSource source("radix_sort.cl", kernels[key.kind]);
    define_sort_keys(source, key.type, key.descending);
    source.define("GROUP", key.group).define("ITEMS", key.items);
    return source.define("FIRST", key.first).define("LAST", key.last);
  });
}

int items_of(const Device& device, DataType type) {
  return is_wide(type) || device.info().local_memory < 45000 ? 8 : 16;
}

}  // namespace

std::pair<int, int> sort_key_bits(DataType type) { return {first_bit(type), key_bits(type)}; }

void define_sort_keys(KernelSource& source, DataType type, bool descending) {
  source.define("T", tag(type)).define("WIDE_KEYS", is_wide(type)).define("FLOATING", is_floating(type));
  source.define("SIGNED", is_signed(type)).define("KEY_BITS", key_bits(type)).define("DESCENDING", descending);
  source.define("FIRST_BIT", first_bit(type));
}

const char* decline_radix(const Device& device, const SortProblem& p, bool forced) {
  if (is_complex(p.type)) return "complex keys";
  if (p.n > settings.index_limit) return "rows of more than 2^31 keys";
  if (device.info().local_memory < 32000 || device.info().max_work_group < 256) return "too little local memory";
  if (forced) return nullptr;
  return device.info().cpu ? "a CPU" : p.n < 256 ? "few keys" : nullptr;
}

void run_radix(Queue& queue, const SortProblem& all) {
  SortProblem p = all;  // as many rows at once as 32-bit counts allow
  p.segments =
      std::min(all.segments, std::max<std::int64_t>(1, settings.index_limit / std::max<std::int64_t>(1, all.n)));
  if (p.segments < all.segments) {
    SortProblem rest = all;
    rest.segments -= p.segments;
    rest.keys.offset += std::size_t(p.segments * p.n) * size_of(p.type);
    rest.order.offset += std::size_t(p.segments * p.n) * sizeof(cl_long);
    run_radix(queue, p);
    return run_radix(queue, rest);
  }
  Key key{whole, std::uint8_t(items_of(queue.device(), p.type)), 1, 1, 256, p.type, p.descending};
  const std::int64_t wanted = (p.n + key.items - 1) / key.items;
  key.group = std::uint16_t(std::clamp<std::uint64_t>(std::bit_ceil(std::uint64_t(wanted)), 32, 256));
  const cl_uint n = cl_uint(p.n), tiles = cl_uint((wanted + key.group - 1) / key.group);
  const NDRange range(std::size_t(p.segments) * tiles * key.group, key.group);
  if (tiles == 1) return launch(queue, kernel_of(queue, key), range, p.keys, p.order, n);

  const std::int64_t counters = p.segments * 16 * tiles;
  const std::size_t total = std::size_t(p.segments * p.n), key_bytes = is_wide(p.type) ? 8 : 4;
  const Workspace counts(queue, std::size_t(counters) * 4);
  const Workspace keys[2] = {Workspace(queue, total * key_bytes), Workspace(queue, total * key_bytes)};
  const Workspace places[2] = {Workspace(queue, total * 4), Workspace(queue, total * 4)};
  const TensorView sums(counts.data(), DataType::int32, {counters});
  BufferRef from = p.keys, from_places = places[0].data();
  const int bits = key_bits(p.type);
  for (int shift = first_bit(p.type), now = 0; shift < bits; shift += 4, now ^= 1) {
    key.first = shift == first_bit(p.type), key.last = 0;
    key.kind = count;
    launch(queue, kernel_of(queue, key), range, from, counts.data(), n, tiles, cl_uint(shift));
    scan(queue, ScanId::sum, sums, sums, 0, {});
    key.kind = scatter, key.last = shift + 4 >= bits;
    launch(queue, kernel_of(queue, key), range, from, from_places, counts.data(), keys[now].data(), places[now].data(),
           p.order, n, tiles, cl_uint(shift));
    from = keys[now].data(), from_places = places[now].data();
  }
}

}  // namespace dlprim
