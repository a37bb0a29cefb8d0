// SPDX-License-Identifier: MIT
#include "worker.hpp"

#include <c10/util/thread_name.h>

#include <algorithm>
#include <utility>

namespace pytorch_ocl::distributed {

namespace {

struct Registry {
  std::mutex mutex;
  std::vector<Worker*> all;
};

// Leaked: groups may end with static objects.
Registry& registry() {
  static auto* instance = new Registry;
  return *instance;
}

}  // namespace

Worker::Worker(const char* name, std::size_t most) : name_(name), most_(most) {
  std::lock_guard guard(registry().mutex);
  registry().all.push_back(this);
}

Worker::~Worker() {
  {
    std::lock_guard guard(registry().mutex);
    std::erase(registry().all, this);
  }
  std::unique_lock lock(mutex_);
  ending_ = true;
  changed_.notify_all();
  // A task may still post others, and start threads with them.
  for (std::size_t i = 0; i < threads_.size(); i++) {
    std::thread thread = std::move(threads_[i]);
    lock.unlock();
    thread.join();
    lock.lock();
  }
}

void Worker::halt_all(std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  std::unique_lock lock(registry().mutex);
  // Tasks post to other workers: all have to be idle at once.
  while (!std::ranges::all_of(registry().all, &Worker::is_idle) && std::chrono::steady_clock::now() < end) {
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    lock.lock();
  }
  for (Worker* worker : registry().all) worker->halt();
}

bool Worker::is_idle() const {
  std::lock_guard guard(mutex_);
  return tasks_.empty() && running_ == 0;
}

void Worker::halt() {
  std::lock_guard guard(mutex_);
  halted_ = true;
  changed_.notify_all();
}

void Worker::post(std::function<void()> task) {
  std::lock_guard guard(mutex_);
  tasks_.push_back(std::move(task));
  if (idle_ < tasks_.size() && threads_.size() < most_) threads_.emplace_back([this] { run(); });
  changed_.notify_one();
}

bool Worker::is_current() const {
  std::lock_guard guard(mutex_);
  return std::ranges::find(ids_, std::this_thread::get_id()) != ids_.end();
}

void Worker::run() {
  c10::setThreadName(name_);
  std::unique_lock lock(mutex_);
  ids_.push_back(std::this_thread::get_id());
  for (;;) {
    idle_++;
    changed_.wait(lock, [this] { return ending_ || halted_ || !tasks_.empty(); });
    idle_--;
    if (halted_ || tasks_.empty()) return;
    std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    running_++;
    lock.unlock();
    task();
    task = nullptr;
    lock.lock();
    running_--;
  }
}

}  // namespace pytorch_ocl::distributed
