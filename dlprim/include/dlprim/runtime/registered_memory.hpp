// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/queue.hpp>

#include <memory>

namespace dlprim {

/// Memory of the host in whole pages, as drivers register it; null where there is none left.
struct DeletePages {
  void operator()(std::byte* memory) const noexcept;
};
using HostPages = std::unique_ptr<std::byte, DeletePages>;
HostPages host_pages(std::size_t bytes);

/// Memory of the host that came about elsewhere, made known to a device's driver for as long as this lives, so that it
/// may copy from and to it as from pinned memory. Whether it then does is the driver's choice.
class RegisteredMemory {
 public:
  RegisteredMemory() = default;
  RegisteredMemory(Device& device, void* memory, std::size_t bytes);
  /// Whether the driver took it; it takes no null pointer.
  explicit operator bool() const noexcept { return buffer_() != nullptr; }
  /// Whether `queue` copies `bytes` from here to `there`, or the other way, about as fast as with pinned memory; it
  /// measures, which changes what is written to. Throws on device errors.
  bool is_fast(Queue& queue, BufferRef there, std::size_t bytes, bool to_host) const;

 private:
  void* memory_ = nullptr;
  cl::Buffer buffer_;
};

}  // namespace dlprim
