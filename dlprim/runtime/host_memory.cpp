// SPDX-License-Identifier: MIT
#include <dlprim/runtime/host_memory.hpp>
#include <dlprim/runtime/recording.hpp>
#include <dlprim/runtime/registered_memory.hpp>

#include <bit>
#include <cmath>
#include <map>
#include <mutex>

namespace dlprim {

namespace {

using Kind = HostMemory::Kind;

// What is copied to find out how fast that goes.
constexpr std::size_t sample = std::size_t(4) << 20;

// A piece of host memory.
struct Mapping {
  cl::Buffer buffer{};  // of mapped memory
  HostPages pages{};  // of registered memory
  RegisteredMemory registered{};
  std::size_t size = 0;
  bool used = true;
  std::map<const Queue*, Event> events{};  // of the last work of each queue that may still use it
};

struct Piece {
  std::byte* address = nullptr;
  Mapping mapping{};
  cl_int code = CL_SUCCESS;
};

Piece map_piece(Device& device, std::size_t size) {
  Piece piece;
  piece.mapping.size = size;
  piece.mapping.buffer = cl::Buffer(
      clCreateBuffer(device.context()(), CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, size, nullptr, &piece.code));
  if (piece.code == CL_SUCCESS)
    piece.address = static_cast<std::byte*>(clEnqueueMapBuffer(device.default_queue().get(), piece.mapping.buffer(),
                                                               CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, size, 0, nullptr,
                                                               nullptr, &piece.code));
  return piece;
}

Piece register_piece(Device& device, std::size_t size) {
  Piece piece;
  piece.mapping.size = size;
  Mapping& mapping = piece.mapping;
  mapping.pages = host_pages(size);
  mapping.registered = RegisteredMemory(device, mapping.pages.get(), size);
  if (mapping.registered) piece.address = mapping.pages.get();
  else piece.code = CL_MEM_OBJECT_ALLOCATION_FAILURE;
  return piece;
}

cl_int unmap(Device& device, std::byte* address, const Mapping& mapping) {
  if (!mapping.buffer()) return CL_SUCCESS;
  return clEnqueueUnmapMemObject(device.default_queue().handle(), mapping.buffer(), address, 0, nullptr, nullptr);
}

// Of copies both ways on a queue that nobody waits for; infinite where there is no such memory.
double copy_seconds(Device& device, Kind kind) {
  Queue& queue = device.pooled_queue();
  const Workspace there(queue, sample);
  const auto release = [&device](Piece* piece) { unmap(device, piece->address, piece->mapping); };
  Piece made = kind == Kind::mapped ? map_piece(device, sample) : register_piece(device, sample);
  if (made.code != CL_SUCCESS) return INFINITY;
  const std::unique_ptr<Piece, decltype(release)> piece(&made, release);
  return copy_seconds(queue, there.data(), piece->address, sample, false) +
         copy_seconds(queue, there.data(), piece->address, sample, true);
}

Kind faster_kind(Device& device) {
  if (device.info().cpu || device.info().unified_memory) return Kind::mapped;
  try {
    return copy_seconds(device, Kind::registered) < 0.8 * copy_seconds(device, Kind::mapped) ? Kind::registered
                                                                                             : Kind::mapped;
  } catch (const std::exception&) {
    return Kind::mapped;  // the device has no room to try
  }
}

}  // namespace

struct HostMemory::State {
  Device& device;
  std::optional<Kind> kind;
  mutable std::mutex mutex{};
  std::map<const std::byte*, Mapping> mappings{};  // by address
  HostMemoryStats stats{};

  std::map<const std::byte*, Mapping>::iterator find(const void* address) {
    auto found = mappings.upper_bound(static_cast<const std::byte*>(address));
    if (found == mappings.begin()) return mappings.end();
    --found;
    return static_cast<const std::byte*>(address) < found->first + found->second.size ? found : mappings.end();
  }

  bool idle(Mapping& mapping) {
    std::erase_if(mapping.events, [](const auto& entry) { return entry.second.reached(); });
    return mapping.events.empty();
  }

  void unmap_unused() {
    for (auto entry = mappings.begin(); entry != mappings.end();) {
      if (entry->second.used || !idle(entry->second)) {
        ++entry;
        continue;
      }
      check(unmap(device, const_cast<std::byte*>(entry->first), entry->second), "clEnqueueUnmapMemObject");
      stats.allocations.add(-1);
      stats.allocated_bytes.add(-std::int64_t(entry->second.size));
      entry = mappings.erase(entry);
    }
  }

  void hand_out(Mapping& mapping) {
    mapping.used = true;
    stats.active_requests.add(1);
    stats.active_bytes.add(std::int64_t(mapping.size));
  }
};

HostMemory::HostMemory(Device& device, std::optional<Kind> kind) : state_(new State{device, kind}) {}
HostMemory::~HostMemory() = default;

void* HostMemory::allocate(std::size_t bytes) {
  const std::size_t size = std::bit_ceil(std::max<std::size_t>(bytes, 4096));
  std::lock_guard guard(state_->mutex);
  for (auto& [address, mapping] : state_->mappings)
    if (!mapping.used && mapping.size == size && state_->idle(mapping)) {
      state_->hand_out(mapping);
      return const_cast<std::byte*>(address);
    }
  if (!state_->kind && !Recording::current()) state_->kind = faster_kind(state_->device);  // copies cannot be recorded
  Piece piece{};
  if (state_->kind == Kind::registered) piece = register_piece(state_->device, size);
  if (!piece.address) piece = map_piece(state_->device, size);
  if (piece.code != CL_SUCCESS)
    throw OutOfMemoryError("[pinned memory] " + std::to_string(bytes) + " bytes could not be allocated (" +
                           cl_error_name(piece.code) + ")");
  state_->stats.allocations.add(1);
  state_->stats.allocated_bytes.add(std::int64_t(size));
  state_->hand_out(piece.mapping);
  state_->mappings.emplace(piece.address, std::move(piece.mapping));
  return piece.address;
}

void HostMemory::release(void* memory) noexcept {
  std::lock_guard guard(state_->mutex);
  auto found = state_->find(memory);
  if (found == state_->mappings.end() || !found->second.used) return;
  found->second.used = false;
  state_->stats.active_requests.add(-1);
  state_->stats.active_bytes.add(-std::int64_t(found->second.size));
}

bool HostMemory::record(const void* address, Queue& queue) {
  std::lock_guard guard(state_->mutex);
  auto found = state_->find(address);
  if (found == state_->mappings.end()) return false;
  found->second.events[&queue] = queue.record();  // a queue runs in order: the last event is reached after the others
  return true;
}

bool HostMemory::contains(const void* address) const {
  std::lock_guard guard(state_->mutex);
  auto found = state_->find(address);
  return found != state_->mappings.end() && found->second.used;
}

std::size_t HostMemory::queues_of(const void* address) const {
  std::lock_guard guard(state_->mutex);
  auto found = state_->find(address);
  return found == state_->mappings.end() ? 0 : found->second.events.size();
}

void HostMemory::empty_cache() {
  std::lock_guard guard(state_->mutex);
  state_->unmap_unused();
}

HostMemoryStats HostMemory::stats() const {
  std::lock_guard guard(state_->mutex);
  return state_->stats;
}

void HostMemory::reset_peak_stats() {
  std::lock_guard guard(state_->mutex);
  HostMemoryStats& s = state_->stats;
  for (MemoryStat* stat : {&s.allocations, &s.allocated_bytes, &s.active_requests, &s.active_bytes}) stat->reset_peak();
}

void HostMemory::reset_accumulated_stats() {
  std::lock_guard guard(state_->mutex);
  HostMemoryStats& s = state_->stats;
  for (MemoryStat* stat : {&s.allocations, &s.allocated_bytes, &s.active_requests, &s.active_bytes})
    stat->reset_totals();
}

}  // namespace dlprim
