// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/queue.hpp>
#include <dlprim/runtime/registered_memory.hpp>

#include <array>
#include <mutex>

namespace dlprim {

/// Copies from one device to another through memory of the host that both drivers know, in pieces: while one is written
/// to the target, the next is read from the source, and no thread of the host copies. Thread-safe.
class DeviceBridge {
 public:
  DeviceBridge(Device& source, Device& target);
  DeviceBridge(const DeviceBridge&) = delete;
  ~DeviceBridge();

  /// Whether both drivers took the memory.
  explicit operator bool() const noexcept { return from_source_ && to_target_; }
  /// Whether both devices reach it at the speed of pinned memory, measured by copies as of send, whose `to` it changes.
  bool is_fast(Queue& queue, BufferRef from, Queue& target, BufferRef to, std::size_t bytes);
  /// Returns when the source may be changed; the last pieces may still be on their way to the target.
  void send(Queue& queue, BufferRef from, Queue& target, BufferRef to, std::size_t bytes);

 private:
  static constexpr std::size_t slots = 6;
  struct Slot {
    Event read, written;
  };
  std::byte* slot_memory(std::size_t number) const;

  std::mutex mutex_;
  HostPages memory_;
  RegisteredMemory from_source_, to_target_;
  std::array<Slot, slots> slots_;
};

}  // namespace dlprim
