// SPDX-License-Identifier: MIT
#include <dlprim/primitives/peer_exchange.hpp>
#include <dlprim/runtime/launch.hpp>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

#include "check.hpp"

namespace dlprim {

namespace {

// Offsets within a window: of what peer_exchange.cl calls by these names.
constexpr std::size_t aborted = 64, mismatched = 128, calls = 512, slots = 4096;
constexpr std::size_t ranks_of_calls = 16, call_bytes = 32;
constexpr std::size_t most_groups = 32, slots_each = 4, slot_bytes = 64 << 10;

struct Key {
  std::uint32_t ranks, item, group;
};

const char* type_of(std::uint32_t bytes) {
  return bytes == 16 ? "uint4" : bytes == 4 ? "uint" : bytes == 2 ? "ushort" : "uchar";
}

Kernel& kernel_of(Queue& queue, const Key& key) {
  static KernelCache<Key> cache;
  return cache.get(queue.device(), key, [&] {
    return KernelSource("peer_exchange.cl", "peer_exchange")
        .define("T", type_of(key.item))
        .define("RANKS", std::int64_t(key.ranks))
        .define("GROUP", std::int64_t(key.group))
        .define("SLOT", std::int64_t(slot_bytes));
  });
}

// The kernel's `parts`.
struct Extents {
  cl_ulong stride, part, total;
};

Extents extents(const PeerParts& parts) { return {parts.stride, parts.part, parts.total}; }

// Bytes that divide all offsets and sizes, so that they may be copied at once.
std::uint32_t item_of(const PeerParts& from, const PeerParts& to) {
  std::uint64_t all = 16;
  for (const PeerParts& parts : {from, to})
    all |= parts.data.offset | parts.stride | parts.part | (parts.total == UINT64_MAX ? 0 : parts.total);
  const std::uint32_t item = 1u << std::countr_zero(all);
  return item == 8 ? 4 : item;
}

std::size_t round_up(std::size_t value, std::size_t to) { return (value + to - 1) / to * to; }

}  // namespace

bool PeerExchange::runs_on(const DeviceInfo& device) noexcept {
  return device.cpu || device.nv_compute_capability >= 70;
}

std::size_t PeerExchange::window_bytes(int ranks) noexcept {
  return slots + most_groups * slots_each * std::size_t(ranks) * slot_bytes;
}

void PeerExchange::clear(Queue& queue, BufferRef window) {
  const cl_uint zero = 0;
  queue.fill(window, &zero, sizeof zero, slots);
  queue.finish();
}

PeerExchange::PeerExchange(std::vector<cl::Buffer> windows, int rank, std::byte* host)
    : windows_(std::move(windows)), rank_(rank), host_(host) {
  const int ranks = int(windows_.size());
  DLPRIM_EXPECT(ranks >= 2 && ranks <= most_ranks && rank >= 0 && rank < ranks, "peer exchange",
                "2 to 8 ranks, this one among them");
}

void PeerExchange::run(Queue& queue, const PeerParts& from, const PeerParts& to, std::uint32_t senders, bool own,
                       std::uint32_t number, const PeerCall& call) {
  const bool cpu = queue.device().info().cpu;
  const std::size_t part = std::max<std::size_t>(std::max(from.part, to.part), 1), ranks = windows_.size();
  // On CPUs, threads may take groups in different orders, and then wait for each other's.
  const std::size_t groups = cpu ? 1 : std::clamp<std::size_t>(part / (16 << 10), 1, most_groups);
  const std::size_t chunk = std::min(round_up((part + groups - 1) / groups, 16), slot_bytes);
  const std::size_t steps = (part + groups * chunk - 1) / (groups * chunk);
  const std::uint32_t group = cpu ? 16 : 512;
  std::vector<BufferRef> windows;
  for (std::size_t i = 0; i < ranks; i++) windows.push_back({windows_[(std::size_t(rank_) + i) % ranks](), 0});
  cl_ulong4 what{};
  for (std::size_t i = 0; i < call.size(); i++) what.s[i] = call[i];
  launch(queue, kernel_of(queue, {std::uint32_t(ranks), item_of(from, to), group}), NDRange(groups * group, group),
         Traffic{2 * part * ranks}, from.data, to.data, std::span<const BufferRef>(windows), extents(from), extents(to),
         cl_uint(chunk), cl_uint(steps), cl_uint(senders), cl_uint(own), cl_uint(rank_), cl_uint(number), what);
}

void PeerExchange::abort(Queue& queue) {
  const cl_uint one = 1;
  if (host_) {
    std::atomic_ref(*reinterpret_cast<cl_uint*>(host_ + aborted)).store(one);
    return;
  }
  queue.write({windows_[std::size_t(rank_)](), aborted}, &one, sizeof one, true);
  queue.flush();
}

void PeerExchange::read(Queue& queue, void* to, std::size_t offset, std::size_t bytes) const {
  if (host_) std::memcpy(to, host_ + offset, bytes);
  else queue.read(to, {windows_[std::size_t(rank_)](), offset}, bytes, true);
}

std::optional<PeerExchange::Mismatch> PeerExchange::mismatch(Queue& queue) {
  cl_uint word = 0;
  read(queue, &word, mismatched, sizeof word);
  const std::size_t found = word & 255, odd = word >> 8 & 1;
  if (found == 0 || found > windows_.size()) return std::nullopt;
  Mismatch result{int(found) - 1, {}};
  read(queue, &result.call, calls + (odd * ranks_of_calls + found - 1) * call_bytes, sizeof result.call);
  return result;
}

}  // namespace dlprim
