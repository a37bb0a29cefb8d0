// SPDX-License-Identifier: MIT
#include "worker.hpp"

#include <c10/util/thread_name.h>

#include <algorithm>
#include <utility>

namespace pytorch_ocl::distributed {

Worker::~Worker() {
  {
    std::lock_guard guard(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Worker::post(std::function<void()> task) {
  std::lock_guard guard(mutex_);
  tasks_.push_back(std::move(task));
  if (idle_ < tasks_.size() && threads_.size() < most_) threads_.emplace_back([this] { run(); });
  changed_.notify_one();
}

bool Worker::is_current() const {
  std::lock_guard guard(mutex_);
  return std::ranges::any_of(threads_,
                             [](const auto& thread) { return thread.get_id() == std::this_thread::get_id(); });
}

void Worker::run() {
  c10::setThreadName(name_);
  std::unique_lock lock(mutex_);
  for (;;) {
    idle_++;
    changed_.wait(lock, [this] { return ending_ || !tasks_.empty(); });
    idle_--;
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
