// SPDX-License-Identifier: MIT
#include <dlprim/runtime/host_memory.hpp>

#include <bit>
#include <map>
#include <mutex>

namespace dlprim {

namespace {

// A buffer in host memory, mapped for as long as it lives.
struct Mapping {
  cl::Buffer buffer;
  std::size_t size = 0;
  bool used = true;
  std::map<const Queue*, Event> events{};  // of the last work of each queue that may still use it
};

}  // namespace

struct HostMemory::State {
  Device& device;
  mutable std::mutex mutex;
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
      Queue& queue = device.default_queue();
      check(clEnqueueUnmapMemObject(queue.get(), entry->second.buffer(), const_cast<std::byte*>(entry->first), 0,
                                    nullptr, nullptr),
            "clEnqueueUnmapMemObject");
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

HostMemory::HostMemory(Device& device) : state_(new State{device, {}}) {}
HostMemory::~HostMemory() = default;

void* HostMemory::allocate(std::size_t bytes) {
  const std::size_t size = std::bit_ceil(std::max<std::size_t>(bytes, 4096));
  std::lock_guard guard(state_->mutex);
  for (auto& [address, mapping] : state_->mappings)
    if (!mapping.used && mapping.size == size && state_->idle(mapping)) {
      state_->hand_out(mapping);
      return const_cast<std::byte*>(address);
    }
  cl_int code = CL_SUCCESS;
  Mapping mapping;
  mapping.size = size;
  mapping.buffer = cl::Buffer(
      clCreateBuffer(state_->device.context()(), CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, size, nullptr, &code));
  void* address = nullptr;
  if (code == CL_SUCCESS)
    address = clEnqueueMapBuffer(state_->device.default_queue().get(), mapping.buffer(), CL_TRUE,
                                 CL_MAP_READ | CL_MAP_WRITE, 0, size, 0, nullptr, nullptr, &code);
  if (code != CL_SUCCESS)
    throw OutOfMemoryError("[pinned memory] " + std::to_string(bytes) + " bytes could not be allocated (" +
                           cl_error_name(code) + ")");
  state_->stats.allocations.add(1);
  state_->stats.allocated_bytes.add(std::int64_t(size));
  state_->hand_out(mapping);
  state_->mappings.emplace(static_cast<const std::byte*>(address), std::move(mapping));
  return address;
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
  found->second.events[&queue] =
      queue.mark_enqueued();  // a queue runs in order: the last event is reached after the others
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
