// SPDX-License-Identifier: MIT
#include "scan_sweep.hpp"

#include <dlprim/runtime/memory.hpp>
#include <dlprim/runtime/settings.hpp>

#include <algorithm>

namespace dlprim {

namespace {

constexpr std::uint16_t group = 256;
constexpr std::uint64_t block = 32;             // tiles with a total of their own, and blocks of blocks
constexpr std::uint64_t most_groups = 1 << 30;  // of a launch

struct Key {
  std::uint8_t id, fours, items, unused = 0;
  DataType type, accumulate;
};

std::uint8_t items_of(DataType accumulate) { return size_of(accumulate) == 8 ? 8 : 16; }

Kernel& kernel_of(Queue& queue, const SweptScan& scan) {
  static KernelCache<Key> cache;
  const Key key{std::uint8_t(scan.id), scan.fours, items_of(scan.accumulate), 0, scan.type, scan.accumulate};
  return cache.get(queue.device(), key, [&] {
    KernelSource source("scan_sweep.cl", "scan_sweep");
    define_scan(source, scan.id, scan.type, scan.accumulate, false);
    source.define("ACC_WORDS", std::int64_t(size_of(scan.accumulate) / 4)).define("FOURS", key.fours);
    return source.define("GROUP", group).define("ITEMS", key.items);
  });
}

std::uint64_t ceil_divide(std::uint64_t a, std::uint64_t b) { return (a + b - 1) / b; }

}  // namespace

const char* decline_scan_sweep(const DeviceInfo& device, DataType accumulate) {
  const bool fits = accumulate == DataType::float32 || accumulate == DataType::float64 ||
                    accumulate == DataType::int32 || accumulate == DataType::int64;
  if (!fits) return "totals that are not 4 or 8 bytes of a real type";
  if (device.max_work_group < group) return "too small work-groups";
  return device.nv_inline_ptx || settings.gpu_forms ? nullptr : "no shuffles";
}

void scan_sweep(Queue& queue, const SweptScan& scan, const SweptRows& all) {
  const std::uint64_t tiles = ceil_divide(all.length, std::uint64_t(group) * items_of(scan.accumulate));
  const std::uint64_t blocks = ceil_divide(tiles, block);
  const std::size_t row_states =
      std::size_t((tiles + blocks + ceil_divide(blocks, block)) * size_of(scan.accumulate) * 2);
  const std::uint64_t at_once = std::clamp<std::uint64_t>(most_groups / tiles, 1, all.rows);
  const std::size_t state_bytes = std::size_t(at_once) * row_states;
  const Workspace cleared(queue, state_bytes + sizeof(cl_uint));
  BufferRef ticket = cleared.data();
  ticket.offset += state_bytes;
  const cl_uint zero = 0;
  for (std::uint64_t row = 0; row < all.rows; row += at_once) {
    const std::uint64_t count = std::min(at_once, all.rows - row), bytes = all.length * size_of(scan.type);
    BufferRef y = all.y, x = all.x;
    y.offset += row * bytes, x.offset += row * bytes;
    queue.fill(cleared.data(), &zero, sizeof zero, state_bytes + sizeof zero);
    launch(queue, kernel_of(queue, scan), NDRange(std::size_t(count * tiles) * group, group),
           Traffic{2 * count * bytes}, y, x, cleared.data(), ticket, cl_ulong(all.length), cl_uint(tiles));
  }
}

}  // namespace dlprim
