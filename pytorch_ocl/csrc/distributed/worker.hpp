// SPDX-License-Identifier: MIT
#pragma once
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace pytorch_ocl::distributed {

/// Runs tasks in threads, which start when they are needed: with one thread, one task after the other.
class Worker {
 public:
  static constexpr std::size_t unlimited = std::size_t(-1);

  /// `most`: threads. Without a limit, a task may wait for what other tasks do.
  explicit Worker(const char* name = "pt_ocl_gloo", std::size_t most = 1);
  Worker(const Worker&) = delete;
  /// Returns once all tasks have run.
  ~Worker();

  /// Before the interpreter shuts down: waits until no worker has a task left, for `limit` at most. What a task drops,
  /// such as tensors that Python knows, must not wait for an interpreter that is gone: no task begins any more.
  static void halt_all(std::chrono::milliseconds limit);

  /// Tasks must not throw.
  void post(std::function<void()> task);
  /// Whether the caller is a task.
  bool is_current() const;

 private:
  void run();
  bool is_idle() const;
  void halt();

  const char* name_;  // of the thread, 15 characters at most
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool ending_ = false, halted_ = false;
  std::size_t most_, idle_ = 0, running_ = 0;
  std::vector<std::thread> threads_;
  std::vector<std::thread::id> ids_;
};

}  // namespace pytorch_ocl::distributed
