// SPDX-License-Identifier: MIT
#include "memory_address.hpp"

#include <dlprim/runtime/device.hpp>

#include <array>
#include <atomic>
#include <iterator>
#include <map>
#include <mutex>
#include <set>

namespace dlprim::address {

namespace {

// Bits 49 and 54 set: outside the addresses that x86-64 (four-level paging) and AArch64 give to user space, with the
// top byte, which AArch64 may ignore, left zero.
constexpr std::uint64_t origin = 0x0042'0000'0000'0000;
constexpr int range_bits = 44, granule_bits = 21, leaf_bits = 12;
constexpr std::uint64_t range = std::uint64_t(1) << range_bits;
constexpr int max_devices = 64;

using Entry = std::atomic<const Segment*>;
using Leaf = std::array<Entry, 1 << leaf_bits>;

struct Table {
  std::array<std::atomic<Leaf*>, 1 << (range_bits - granule_bits - leaf_bits)> leaves{};
  std::mutex mutex;
  std::uint64_t next = 0;  // first address never given out, relative to the device's range
  std::set<std::pair<std::uint64_t, std::uint64_t>> by_size;  // (size, relative address) of what was given back
  std::map<std::uint64_t, std::uint64_t> by_address;  // the same, relative address -> size; no two are neighbours

  void add(std::uint64_t at, std::uint64_t size) {
    auto after = by_address.lower_bound(at);
    if (after != by_address.end() && after->first == at + size) {
      size += after->second;
      after = remove(after);
    }
    if (after != by_address.begin())
      if (auto before = std::prev(after); before->first + before->second == at) {
        at = before->first;
        size += before->second;
        remove(before);
      }
    if (at + size == next) {
      next = at;
      return;
    }
    by_address.emplace(at, size);
    by_size.emplace(size, at);
  }

  std::map<std::uint64_t, std::uint64_t>::iterator remove(std::map<std::uint64_t, std::uint64_t>::iterator entry) {
    by_size.erase({entry->second, entry->first});
    return by_address.erase(entry);
  }
};

std::array<Table, max_devices>& tables() {
  static auto* instance = new std::array<Table, max_devices>;
  return *instance;
}

Entry& entry(Table& table, std::uint64_t relative) {
  auto& slot = table.leaves[relative >> (granule_bits + leaf_bits)];
  Leaf* leaf = slot.load(std::memory_order_acquire);
  if (!leaf) {
    leaf = new Leaf{};
    slot.store(leaf, std::memory_order_release);
  }
  return (*leaf)[(relative >> granule_bits) & ((1 << leaf_bits) - 1)];
}

void set(Table& table, const Segment& segment, const Segment* value) {
  const std::uint64_t first = (segment.base - origin) & (range - 1);
  for (std::uint64_t at = 0; at < segment.size; at += granule)
    entry(table, first + at).store(value, std::memory_order_release);
}

// Buffers of the published segments.
struct Buffers {
  std::mutex mutex;
  std::set<const ::_cl_mem*> all;
};

Buffers& buffers() {
  static auto* instance = new Buffers;
  return *instance;
}

}  // namespace

bool is_segment(const ::_cl_mem* memory) {
  std::lock_guard guard(buffers().mutex);
  return buffers().all.contains(memory);
}

bool publish(Segment& segment) {
  const int index = segment.device->index();
  if (index >= max_devices) return false;
  Table& table = tables()[std::size_t(index)];
  const std::uint64_t size = (segment.size + granule - 1) / granule * granule;
  std::lock_guard guard(table.mutex);
  std::uint64_t relative;
  if (auto found = table.by_size.lower_bound({size, 0}); found != table.by_size.end()) {
    const auto [found_size, at] = *found;
    relative = at;
    table.remove(table.by_address.find(at));
    if (found_size > size) table.add(at + size, found_size - size);
  } else {
    if (size > range - table.next) return false;
    relative = table.next;
    table.next += size;
  }
  segment.base = origin + std::uint64_t(index) * range + relative;
  set(table, segment, &segment);
  std::lock_guard buffers_guard(buffers().mutex);
  buffers().all.insert(segment.memory);
  return true;
}

void retract(const Segment& segment) noexcept {
  Table& table = tables()[std::size_t(segment.device->index())];
  std::lock_guard guard(table.mutex);
  set(table, segment, nullptr);
  {
    std::lock_guard buffers_guard(buffers().mutex);
    buffers().all.erase(segment.memory);
  }
  table.add((segment.base - origin) & (range - 1), (segment.size + granule - 1) / granule * granule);
}

const Segment* find(std::uint64_t address) noexcept {
  const std::uint64_t offset = address - origin;
  if (offset >= range * max_devices) return nullptr;
  Table& table = tables()[offset >> range_bits];
  const std::uint64_t relative = offset & (range - 1);
  Leaf* leaf = table.leaves[relative >> (granule_bits + leaf_bits)].load(std::memory_order_acquire);
  if (!leaf) return nullptr;
  const Segment* segment = (*leaf)[(relative >> granule_bits) & ((1 << leaf_bits) - 1)].load(std::memory_order_acquire);
  return segment;
}

}  // namespace dlprim::address
