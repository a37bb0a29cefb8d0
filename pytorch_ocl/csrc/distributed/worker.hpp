// SPDX-License-Identifier: MIT
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace pytorch_ocl::distributed {

/// A thread that runs tasks one after the other, started by the first.
class Worker {
 public:
  explicit Worker(const char* name = "pt_ocl_gloo") : name_(name) {}
  Worker(const Worker&) = delete;
  /// Returns once all tasks have run.
  ~Worker();

  /// Tasks must not throw.
  void post(std::function<void()> task);
  /// Whether the caller is a task.
  bool is_current() const;

 private:
  void run();

  const char* name_;  // of the thread, 15 characters at most
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace pytorch_ocl::distributed
