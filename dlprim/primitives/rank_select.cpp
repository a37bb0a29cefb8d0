// SPDX-License-Identifier: MIT
#include <dlprim/runtime/launch.hpp>
#include <dlprim/runtime/memory.hpp>
#include <dlprim/runtime/settings.hpp>

#include <algorithm>

#include "sort_order.hpp"

namespace dlprim {

namespace {

constexpr int digit_bits = 8;
constexpr std::int64_t shortest = 100;  // rows of fewer elements share a work-group
constexpr std::int64_t alone_most = 64;  // elements of a row that is a work-item's on CPUs

constexpr std::size_t counters = 257, state_bytes = 24;  // COUNTERS at most, and State, of rank_select.cl

enum Kind : std::uint8_t { row, small, alone, count, pick, find };
constexpr const char* kernels[] = {"rank_row", "rank_short", "rank_alone", "rank_count", "rank_pick", "rank_find"};

struct Key {
  Kind kind;
  DataType type;
  std::uint16_t group;
};

Kernel& kernel_of(Queue& queue, const Key& key) {
  static KernelCache<Key> cache;
  return cache.get(queue.device(), key, [&] {
    KernelSource source("rank_select.cl", kernels[key.kind]);
    define_sort_keys(source, key.type, false);
    if (key.kind == alone) source.define("MOST", alone_most);
    return source.define("GROUP", key.group);
  });
}

// Long enough that a part's histogram costs little beside it; 2^31 elements at most, which are counted in 32 bits.
std::int64_t length_of_parts(const Device& device, std::size_t group, std::int64_t rows, std::int64_t n) {
  const std::int64_t shortest = group == 1 ? 4096 : 32768, longest = std::int64_t(1) << 31;
  const std::int64_t wanted = (group == 1 ? 4 : 8) * std::int64_t(device.info().compute_units);
  const std::int64_t parts = std::clamp<std::int64_t>((wanted + rows - 1) / rows, 1, n / shortest + 1);
  return std::min((n + parts - 1) / parts, longest);
}

}  // namespace

void select_rank(Queue& queue, const TensorView& keys, const TensorView& places, Rank rank, std::int64_t k) {
  if (!keys.is_contiguous() || !places.is_contiguous() || keys.dims != 2 || keys.sizes[1] < 1 ||
      places.dtype != DataType::int64 || places.numel() != keys.sizes[0] || is_complex(keys.dtype) || k < 0 ||
      k >= keys.sizes[1])
    throw ValidationError(
        "[select_rank] expected contiguous real keys [rows, n], int64 indices [rows], and a rank of n");
  const std::int64_t rows = keys.sizes[0], n = keys.sizes[1];
  if (rows == 0) return;
  const DeviceInfo& info = queue.device().info();
  const std::size_t group = (info.cpu && !settings.gpu_forms) || info.max_work_group < 256 ? 1 : 256;
  const std::int64_t length = length_of_parts(queue.device(), group, rows, n);
  const std::size_t parts = std::size_t((n + length - 1) / length), groups = std::size_t(rows);
  const cl_long wanted = rank == Rank::median ? -1 : rank == Rank::nanmedian ? -2 : k;
  auto run = [&](Kind kind, std::size_t items, auto... arguments) {
    const Key key{kind, keys.dtype, std::uint16_t(group)};
    launch(queue, kernel_of(queue, key), NDRange(items * group, group), arguments...);
  };
  if (group == 1 && info.cpu && n <= alone_most) {
    const std::size_t together = std::min<std::size_t>(64, info.max_work_group);
    return launch(queue, kernel_of(queue, {alone, keys.dtype, std::uint16_t(together)}),
                  NDRange((groups + together - 1) / together * together, together), keys.data, places.data,
                  cl_ulong(rows), cl_uint(n), wanted);
  }
  if (group > 1 && n < shortest) {
    const std::size_t together = group / std::size_t(n);
    return run(small, (groups + together - 1) / together, keys.data, places.data, cl_ulong(rows), cl_uint(n), wanted);
  }
  if (parts == 1) return run(row, groups, keys.data, places.data, cl_ulong(n), wanted);

  const Workspace states(queue, groups * state_bytes), counts(queue, groups * parts * counters * sizeof(cl_uint));
  const auto [first_bit, bits] = sort_key_bits(keys.dtype);
  int above = bits;
  for (; above > first_bit; above -= digit_bits) {
    run(count, groups * parts, keys.data, states.data(), counts.data(), cl_ulong(n), cl_ulong(length), cl_uint(parts),
        cl_int(above));
    run(pick, groups, counts.data(), states.data(), cl_ulong(n), wanted, cl_uint(parts), cl_int(above));
  }
  run(find, groups, keys.data, states.data(), places.data, cl_ulong(n), cl_ulong(length), cl_int(above));
}

}  // namespace dlprim
