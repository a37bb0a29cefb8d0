// SPDX-License-Identifier: MIT
#pragma once
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>

namespace pytorch_ocl::distributed {

/// Runs tasks in threads, which start when they are needed: with one thread, one task after the other.
class Worker {
 public:
  static constexpr std::size_t unlimited = std::size_t(-1);

  /// `most`: threads. Without a limit, a task may wait for what other tasks do.
  explicit Worker(const char* name = "pt_ocl_gloo", std::size_t most = 1);
  Worker(const Worker&) = delete;
  /// Returns once all tasks have run. A task may destroy its own worker, as a callback does that is a process group's
  /// last owner: then all other threads have ended, and what is left runs in the task's thread, after it.
  ~Worker();

  /// Before the interpreter shuts down: waits until no worker has a task left, for `limit` at most. What a task drops,
  /// such as tensors that Python knows, must not wait for an interpreter that is gone: no task begins any more.
  static void halt_all(std::chrono::milliseconds limit);
  /// Whether that has been done: a task that still runs should end.
  static bool halted() noexcept;

  /// Tasks must not throw.
  void post(std::function<void()> task);
  /// Whether the caller is a task.
  bool is_current() const;

 private:
  struct State;
  struct Registry;
  static Registry& registry();

  std::shared_ptr<State> state_;  // with the threads, which may outlive the worker
};

}  // namespace pytorch_ocl::distributed
