// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/queue.hpp>

#include <array>
#include <map>

namespace dlprim {

class DeviceBridge;

/// Copies between a device and host memory that it cannot reach at full speed ("pageable"), through pinned memory in
/// pieces: while the bus moves one, threads of the host copy others. Thread-safe; one a device.
///
/// DLPRIM_STAGED_COPIES: 0 leaves all copies to the driver; 1 takes this way on every device and for every size.
class Staging {
 public:
  /// Small enough that pieces overlap, large enough to move at full speed.
  static constexpr std::size_t largest_piece = std::size_t(4) << 20;
  static std::size_t piece_of(std::size_t bytes);
  /// One piece's copy from or to memory that the device reaches by itself, known to the profiler and under way at once.
  static Event enqueue_read(Queue& queue, void* to, BufferRef from, std::size_t bytes);
  static Event enqueue_write(Queue& queue, BufferRef to, const void* from, std::size_t bytes);

  explicit Staging(Device& device);
  ~Staging();

  /// Whether a blocking copy of `bytes` from or to `host` goes this way: large ones, to devices with memory of their own.
  bool serves(const void* host, std::size_t bytes) const;
  /// Whether copies between this device and others go this way rather than by mapping this device's memory.
  bool serves_devices() const;

  /// Copies to the device; returns when `from` may be changed.
  void write(Queue& queue, BufferRef to, const void* from, std::size_t bytes);
  /// Copies to the host; returns when the bytes are there.
  void read(Queue& queue, void* to, BufferRef from, std::size_t bytes);
  /// Copies from this device to another, which is staged as well; returns when the source may be changed.
  void send(Queue& queue, BufferRef from, Queue& target, BufferRef to, std::size_t bytes);

 private:
  // Pinned memory for a piece, and when it is free again.
  struct Slot {
    std::byte* memory = nullptr;
    Event event;
  };
  // One direction's slots, used in turn by one copy at a time.
  struct Lane {
    std::mutex mutex;
    std::array<Slot, 4> slots;
  };
  DeviceBridge* bridge(Queue& queue, BufferRef from, Queue& target, BufferRef to, std::size_t bytes);
  void open(Lane& lane);
  void put(Queue& queue, std::size_t number, BufferRef to, const void* from, std::size_t bytes);
  template <class Take>
  void fetch(Queue& queue, BufferRef from, std::size_t bytes, const Take& take);

  Device& device_;
  Lane to_device_, to_host_;
  std::mutex bridges_mutex_;
  std::map<int, std::unique_ptr<DeviceBridge>> bridges_;  // by the other device; null where there is no fast one
};

inline BufferRef operator+(BufferRef buffer, std::size_t bytes) { return {buffer.memory, buffer.offset + bytes}; }

}  // namespace dlprim
