// SPDX-License-Identifier: MIT
#include "worker.hpp"

#include <c10/util/thread_name.h>

#include <utility>

namespace pytorch_ocl::distributed {

Worker::~Worker() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard guard(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Worker::post(std::function<void()> task) {
  std::lock_guard guard(mutex_);
  tasks_.push_back(std::move(task));
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  changed_.notify_one();
}

bool Worker::is_current() const {
  std::lock_guard guard(mutex_);
  return thread_.get_id() == std::this_thread::get_id();
}

void Worker::run() {
  c10::setThreadName(name_);
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ending_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    task = nullptr;
    lock.lock();
  }
}

}  // namespace pytorch_ocl::distributed
