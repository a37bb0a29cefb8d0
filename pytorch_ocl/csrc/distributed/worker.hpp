// SPDX-License-Identifier: MIT
#pragma once
#include <condition_variable>
#include <cstdint>
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
  /// Returns once all tasks have run; at once in a forked child, which has no such thread.
  ~Worker();

  /// Tasks must not throw.
  void post(std::function<void()> task);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool ending_ = false;
  std::int64_t process_ = 0;  // that started the thread
  std::thread thread_;
};

}  // namespace pytorch_ocl::distributed
