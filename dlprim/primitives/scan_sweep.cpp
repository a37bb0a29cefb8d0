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
  std::uint8_t id, fours, indexed, whole, items;
  DataType type, accumulate;
};

// Elements of a work-item, of which 8 bytes each are kept: fewer for rows that are shorter than a tile.
std::uint8_t items_of(const SweptScan& scan, std::uint64_t length) {
  const bool keeps_numbers = scan.indexed || scan.accumulate == DataType::complex64;
  const std::uint64_t most = size_of(keeps_numbers ? scan.type : scan.accumulate) == 8 ? 8 : 16;
  std::uint64_t items = scan.whole ? 4 : most;
  while (items < most && items * group < length) items *= 2;
  return std::uint8_t(items);
}

Kernel& kernel_of(Queue& queue, const SweptScan& scan, std::uint8_t items) {
  static KernelCache<Key> cache;
  const DataType accumulate = scan.accumulate;
  const Key key{std::uint8_t(scan.id), scan.fours, scan.indexed, scan.whole, items, scan.type, accumulate};
  return cache.get(queue.device(), key, [&] {
    KernelSource source("scan_sweep.cl", key.whole ? "scan_rows" : "scan_sweep");
    define_scan(source, scan.id, scan.type, accumulate, scan.indexed);
    source.define("ACC_WORDS", std::int64_t(size_of(accumulate) / 4)).define("FOURS", key.fours);
    return source.define("GROUP", group).define("ITEMS", items).define("SWEEPS", !key.whole);
  });
}

std::uint64_t ceil_divide(std::uint64_t a, std::uint64_t b) { return (a + b - 1) / b; }

// Of a tile's total: an index lies in the same word as a value of four bytes.
std::uint64_t state_words(const SweptScan& scan) {
  const std::uint64_t words = size_of(scan.accumulate) / 4;
  return scan.indexed && words == 2 ? 3 : words;
}

}  // namespace

const char* decline_scan_sweep(const DeviceInfo& device, const SweptScan& scan, std::uint64_t length) {
  const DataType acc = scan.accumulate;
  if ((size_of(acc) != 4 && size_of(acc) != 8) || is_complex(scan.type)) return "totals of other than 4 or 8 bytes";
  if (scan.indexed && length > std::uint64_t(settings.index_limit)) return "positions beyond 32 bits";
  if (device.max_work_group < group) return "too small work-groups";
  return device.nv_inline_ptx || settings.gpu_forms ? nullptr : "no shuffles";
}

void scan_sweep(Queue& queue, const SweptScan& scan, const SweptRows& all) {
  const std::uint8_t items = items_of(scan, all.length);
  Kernel& kernel = kernel_of(queue, scan, items);
  const std::uint64_t tiles = ceil_divide(all.length, std::uint64_t(group) * items);
  const std::uint64_t row_bytes = all.length * size_of(scan.type), each = 2 * row_bytes + scan.indexed * 8 * all.length;
  if (scan.whole)
    return launch(queue, kernel, NDRange(std::size_t(all.rows) * group, group), Traffic{all.rows * each}, all.y,
                  all.indices, all.x, cl_ulong(all.length), cl_uint(tiles));
  const std::uint64_t blocks = ceil_divide(tiles, block);
  const std::size_t row_states = std::size_t((tiles + blocks + ceil_divide(blocks, block)) * state_words(scan) * 8);
  const std::uint64_t at_once = std::clamp<std::uint64_t>(most_groups / tiles, 1, all.rows);
  const std::size_t state_bytes = std::size_t(at_once) * row_states;
  const Workspace cleared(queue, state_bytes + sizeof(cl_uint));
  BufferRef ticket = cleared.data();
  ticket.offset += state_bytes;
  const cl_uint zero = 0;
  for (std::uint64_t row = 0; row < all.rows; row += at_once) {
    const std::uint64_t count = std::min(at_once, all.rows - row);
    BufferRef y = all.y, x = all.x, indices = all.indices;
    y.offset += row * row_bytes, x.offset += row * row_bytes, indices.offset += row * all.length * 8;
    queue.fill(cleared.data(), &zero, sizeof zero, state_bytes + sizeof zero);
    launch(queue, kernel, NDRange(std::size_t(count * tiles) * group, group), Traffic{count * each}, y, indices, x,
           cleared.data(), ticket, cl_ulong(all.length), cl_uint(tiles));
  }
}

}  // namespace dlprim
