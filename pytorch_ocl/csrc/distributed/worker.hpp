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
  Worker() = default;
  Worker(const Worker&) = delete;
  /// Returns once all tasks have run.
  ~Worker();

  /// Tasks must not throw.
  void post(std::function<void()> task);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace pytorch_ocl::distributed
