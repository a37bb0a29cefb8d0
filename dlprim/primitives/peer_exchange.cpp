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
constexpr std::size_t aborted = 64, mismatched = 128, calls = 512, slots = 16384;
constexpr std::size_t ranks_of_calls = 16, call_bytes = 32;
constexpr std::size_t most_groups = 64, slots_each = 4, slot_bytes = 64 << 10;

constexpr std::uint32_t none = data_type_count, any = ~0u;

struct Key {
  std::uint32_t ranks, item, group;
  std::uint32_t type, operation;  // of what is reduced, or none; any: one that the kernel is told
};

const char* type_of(std::uint32_t bytes) {
  switch (bytes) {
    case 16: return "uint4";
    case 8: return "uint2";
    case 4: return "uint";
    case 2: return "ushort";
    default: return "uchar";
  }
}

Kernel& kernel_of(Queue& queue, const Key& key) {
  static KernelCache<Key> cache;
  return cache.get(queue.device(), key, [&] {
    KernelSource source("peer_exchange.cl", "peer_exchange");
    source.define("T", type_of(key.item))
        .define("RANKS", std::int64_t(key.ranks))
        .define("GROUP", std::int64_t(key.group))
        .define("SLOT", std::int64_t(slot_bytes));
    if (key.type == none) return source;
    source.define("TAG", tag(DataType(key.type)));
    if (key.operation == any) source.define("OPERATION", "operation");
    else source.define("OPERATION", std::int64_t(key.operation));
    return source;
  });
}

// Sums of complex numbers are those of their parts.
DataType part_type(DataType type) {
  return type == DataType::complex64 ? DataType::float32 : type == DataType::complex128 ? DataType::float64 : type;
}

// "or" and "and" are the larger and the smaller one.
PeerOperation operation_on(DataType type, PeerOperation operation) {
  if (type != DataType::boolean) return operation;
  const bool any = operation == PeerOperation::sum || operation == PeerOperation::maximum;
  return any ? PeerOperation::maximum : PeerOperation::minimum;
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
  return 1u << std::countr_zero(all);
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

struct PeerExchange::Kind {
  std::uint32_t type;
  PeerOperation operation;
};

void PeerExchange::run(Queue& queue, const PeerParts& from, const PeerParts& to, std::uint32_t senders, bool own,
                       std::uint32_t number, const PeerCall& call) {
  launch(queue, {none, PeerOperation::sum}, from, to, senders, own, number, call);
}

void PeerExchange::reduce(Queue& queue, const PeerParts& from, const PeerParts& to, DataType type,
                          PeerOperation operation, std::uint32_t number, const PeerCall& call) {
  DLPRIM_EXPECT(operation != PeerOperation::average || is_floating(type), "peer exchange", "an average of floats");
  DLPRIM_EXPECT(operation == PeerOperation::sum || !is_complex(type), "peer exchange", "a sum of complex numbers");
  launch(queue, {std::uint32_t(part_type(type)), operation_on(type, operation)}, from, to, ~0u, false, number, call);
}

void PeerExchange::launch(Queue& queue, const Kind& kind, const PeerParts& from, const PeerParts& to,
                          std::uint32_t senders, bool own, std::uint32_t number, const PeerCall& call) {
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
  std::uint32_t item = item_of(from, to);
  if (kind.type != none && item < 16) item = std::uint32_t(size_of(DataType(kind.type)));  // fewer kernels
  const bool adds = kind.operation == PeerOperation::sum || kind.operation == PeerOperation::average;
  const Key key{std::uint32_t(ranks), item, group, kind.type, adds ? std::uint32_t(kind.operation) : any};
  dlprim::launch(queue, kernel_of(queue, key), NDRange(groups * group, group), Traffic{2 * part * ranks}, from.data,
                 to.data, std::span<const BufferRef>(windows), extents(from), extents(to), cl_uint(chunk),
                 cl_uint(steps), cl_uint(senders), cl_uint(own), cl_uint(rank_), cl_uint(kind.operation),
                 cl_uint(number), what);
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
