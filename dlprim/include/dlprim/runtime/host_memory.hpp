// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/memory.hpp>

namespace dlprim {

/// Counters of a pool of host memory; "active" is what is given out.
struct HostMemoryStats {
  MemoryStat allocations, allocated_bytes, active_requests, active_bytes;
};

/// Host memory that the device reads and writes at full speed and without blocking ("pinned"). Freed memory
/// is cached and handed out again once the work recorded on it has run. One pool a device; thread-safe.
class HostMemory {
 public:
  explicit HostMemory(Device& device);
  ~HostMemory();

  /// At least `bytes` of host memory. Throws OutOfMemoryError.
  void* allocate(std::size_t bytes);
  void release(void* memory) noexcept;
  /// Work enqueued on `queue` so far uses the memory at `address`: it is not reused before that work has run.
  /// False when the address is not ours.
  bool record(const void* address, Queue& queue);
  /// Whether `address` lies in memory given out and not yet released.
  bool contains(const void* address) const;
  /// On how many queues the memory at `address` may still be in use, as far as recorded.
  std::size_t queues_of(const void* address) const;
  /// Returns memory that is not in use to the system.
  void empty_cache();
  HostMemoryStats stats() const;
  void reset_peak_stats();
  void reset_accumulated_stats();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dlprim
