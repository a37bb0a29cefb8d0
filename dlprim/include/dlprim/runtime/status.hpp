// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/queue.hpp>

namespace dlprim {

/// Errors that kernels find in data (an index out of range, a failed assertion). A kernel stores the code of its
/// message and a value; the next synchronization of the device throws IndexError with both, or Error where the message
/// has no place for a value.
class DeviceStatus {
 public:
  explicit DeviceStatus(Device& device);
  ~DeviceStatus();
  /// Registers `message` (a string literal; "%lld" stands for the value) and marks `queue` as to be checked.
  /// Pass buffer() and the returned code to the kernel: GLOBAL(int, status), int code; it says REPORT(status, code, v).
  int arm(Queue& queue, const char* message);
  BufferRef buffer() const noexcept;
  /// After `queue` was synchronized: throws what was reported, once. Costs nothing when nothing was armed on it.
  void check(Queue& queue);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dlprim
