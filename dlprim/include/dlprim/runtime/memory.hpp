// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/queue.hpp>

#include <functional>
#include <mutex>
#include <vector>

namespace dlprim {

/// Counters of one kind, in the sense of torch.cuda.memory_stats.
struct MemoryStat {
  std::int64_t current = 0, peak = 0, allocated = 0, freed = 0;
  void add(std::int64_t amount) noexcept;
  void reset_peak() noexcept { peak = current; }
  void reset_totals() noexcept { allocated = freed = 0; }
};

struct MemoryStats {
  MemoryStat allocations, segments, allocated_bytes, reserved_bytes, active_bytes, requested_bytes;
  std::int64_t retries = 0, out_of_memory = 0;
};

/// A piece of memory taken from a device, and what it is cut into.
struct SegmentInfo {
  struct Piece {
    std::uint64_t address;
    std::size_t size, requested;
    bool used, waiting;  ///< held by the program; released, but used by work of another queue
  };
  std::uint64_t address;
  std::size_t size;
  std::int64_t queue;
  bool small;  ///< for blocks up to 1 MiB
  std::vector<Piece> pieces;
};

/// What an Allocator did.
struct MemoryEvent {
  enum Kind { allocated, release_requested, released, segment_allocated, segment_released, exhausted };
  Kind kind;
  Device* device;
  std::uint64_t address;  ///< where memory was exhausted, the bytes left
  std::size_t size;
  std::int64_t queue;
};

struct Block;
class MemoryPool;

/// The caching allocator of one device. Blocks are cut from large segments (OpenCL buffers) and reused in stream order:
/// memory freed while a queue's work still uses it is handed out again to the same queue at once, to other queues never
/// before that work has run. Thread-safe.
///
/// Every block has an address that is no host memory: reading it on the host faults; adding byte offsets to it is
/// meaningful; `locate` turns an address into buffer and offset in constant time without a lock.
class Allocator {
 public:
  explicit Allocator(Device& device);
  ~Allocator();

  /// At least `bytes` (> 0) of memory for work of `queue`, aligned to 512 bytes. Throws OutOfMemoryError with the
  /// numbers, after freeing cached segments and retrying.
  Block* allocate(std::size_t bytes, Queue& queue);
  /// Gives a block back; its memory may still be in use by work already enqueued.
  void release(Block* block) noexcept;
  /// Work of `queue` uses the block too: it is not reused before that work has run.
  void record_queue(Block* block, Queue& queue);
  /// Returns unused segments to the device.
  void empty_cache();
  /// Limits the memory taken from the device to a fraction of what it has (0 to 1, 1 at first). Throws ValidationError.
  void set_fraction(double fraction);
  double fraction() const;
  std::vector<SegmentInfo> segments() const;
  /// Free memory of the device in bytes as its driver or, where the device computes in host memory, the operating system
  /// knows it, other programs' use included; otherwise what this process has not taken. Never above the device's memory.
  std::uint64_t free_bytes() const;
  /// Calls `hook` at what allocators do, of any device, under their locks: it must not allocate or throw. Null: no hook.
  static void on_event(void (*hook)(const MemoryEvent&)) noexcept;
  MemoryStats stats() const;
  void reset_peak_stats();
  void reset_accumulated_stats();

  static void* address(const Block* block) noexcept;
  static std::size_t size(const Block* block) noexcept;
  static Device& device(const Block* block) noexcept;
  /// Buffer and offset of any address inside a block of any device; {} for other addresses, null included.
  static BufferRef locate(const void* address) noexcept;
  /// Device of an address; null for others.
  static Device* device_of(const void* address) noexcept;

 private:
  friend class MemoryPool;
  void end_pool(std::int64_t pool) noexcept;

  struct Pool;
  Device& device_;
  std::unique_ptr<Pool> pool_;
};

/// Segments of a device's allocator that serve captures only: what is given back is reused by these, whenever they are
/// replayed in the order in which they were captured. When the pool is destroyed, its memory is the allocator's again.
class MemoryPool {
 public:
  explicit MemoryPool(Queue& queue);
  MemoryPool(const MemoryPool&) = delete;
  ~MemoryPool();
  /// Commands of `queue` may use the memory, besides those of the first.
  void add_queue(Queue& queue);
  /// What the pool's memory is used in the order of.
  Queue& queue() const noexcept { return queue_; }
  std::int64_t id() const noexcept { return id_; }

 private:
  std::int64_t id_;  // from 1
  std::mutex mutex_;
  Queue& queue_;
  std::vector<Queue*> others_;
};

/// Owned memory from the caching allocator; released when destroyed, in stream order. For workspaces.
class Workspace {
 public:
  Workspace() = default;
  Workspace(Queue& queue, std::size_t bytes);
  Workspace(Workspace&& other) noexcept;
  Workspace& operator=(Workspace&& other) noexcept;
  ~Workspace();
  BufferRef data() const noexcept;

 private:
  Allocator* allocator_ = nullptr;
  Block* block_ = nullptr;
};

}  // namespace dlprim
