// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/queue.hpp>

#include <unordered_map>

namespace dlprim {

/// Errors that the kernels of a queue find in data (an index out of range, a failed assertion). A kernel stores the code
/// of its message and a value; the next synchronization of the queue throws IndexError with both, or Error where the
/// message has no place for a value. Thread-safe.
class QueueStatus {
 public:
  explicit QueueStatus(Queue& queue);
  /// Registers `message` (a string that lives on; "%lld" stands for the value) and has it looked for.
  /// Pass buffer() and the returned code to the kernel: GLOBAL(int, status), int code; it says REPORT(status, code, v).
  int arm(const char* message);
  BufferRef buffer() const noexcept { return {buffer_(), 0}; }
  /// After the queue was synchronized: throws what was reported, once. Costs nothing when nothing was armed.
  void check();
  /// Has check() look for what kernels report to another queue's, too: they run in this one, as replays do.
  void watch(QueueStatus& other);

 private:
  void check_own();

  Queue& queue_;
  cl::Buffer buffer_;  // int[4]: code, unused, value low, value high
  std::atomic<bool> armed_{false};
  std::atomic<bool> shared_{false};  // other queues' kernels report here
  std::mutex mutex_;
  std::vector<const char*> messages_;
  std::vector<QueueStatus*> watched_;
  std::unordered_map<const char*, int> codes_;
};

}  // namespace dlprim
