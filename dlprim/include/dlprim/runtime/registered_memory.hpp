// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/device.hpp>

namespace dlprim {

/// Memory of the host that came about elsewhere, made known to a device's driver for as long as this lives, so that it
/// may copy from and to it as from pinned memory. Whether it then does is the driver's choice.
class RegisteredMemory {
 public:
  RegisteredMemory(Device& device, void* memory, std::size_t bytes);
  /// Whether the driver took it.
  explicit operator bool() const noexcept { return buffer_() != nullptr; }

 private:
  cl::Buffer buffer_;
};

}  // namespace dlprim
