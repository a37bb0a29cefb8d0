// SPDX-License-Identifier: MIT
#include "worker.hpp"

#include <c10/util/thread_name.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace pytorch_ocl::distributed {

struct Worker::State {
  const char* const name;  // of the threads, 15 characters at most
  const std::size_t most;
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> tasks;
  bool ending = false, halted = false;
  std::size_t idle = 0, running = 0;
  std::vector<std::thread> threads;
  std::vector<std::thread::id> ids;

  State(const char* name, std::size_t most) : name(name), most(most) {}
  void run();
  bool is_idle() const {
    std::lock_guard guard(mutex);
    return tasks.empty() && running == 0;
  }
  void halt() {
    std::lock_guard guard(mutex);
    halted = true;
    changed.notify_all();
  }
};

struct Worker::Registry {
  std::atomic<bool> halted{false};
  std::mutex mutex;
  std::vector<std::weak_ptr<State>> all;

  void add(const std::shared_ptr<State>& state) {
    std::lock_guard guard(mutex);
    std::erase_if(all, [](const std::weak_ptr<State>& other) { return other.expired(); });
    all.push_back(state);
  }
  std::vector<std::shared_ptr<State>> alive() {
    std::lock_guard guard(mutex);
    std::vector<std::shared_ptr<State>> states;
    for (const std::weak_ptr<State>& each : all)
      if (std::shared_ptr<State> state = each.lock()) states.push_back(std::move(state));
    return states;
  }
};

// Leaked: groups may end with static objects.
Worker::Registry& Worker::registry() {
  static auto* instance = new Registry;
  return *instance;
}

Worker::Worker(const char* name, std::size_t most) : state_(std::make_shared<State>(name, most)) {
  registry().add(state_);
}

Worker::~Worker() {
  std::unique_lock lock(state_->mutex);
  state_->ending = true;
  state_->changed.notify_all();
  // A task may still post others, and start threads with them.
  for (std::size_t i = 0; i < state_->threads.size(); i++) {
    std::thread thread = std::move(state_->threads[i]);
    if (thread.get_id() == std::this_thread::get_id()) {
      thread.detach();
      continue;
    }
    lock.unlock();
    thread.join();
    lock.lock();
  }
}

void Worker::halt_all(std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  // Tasks post to other workers: all have to be idle at once.
  while (!std::ranges::all_of(registry().alive(), [](const auto& state) { return state->is_idle(); }) &&
         std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  registry().halted = true;
  for (const std::shared_ptr<State>& state : registry().alive()) state->halt();
}

bool Worker::halted() noexcept { return registry().halted; }

void Worker::post(std::function<void()> task) {
  std::lock_guard guard(state_->mutex);
  state_->tasks.push_back(std::move(task));
  if (state_->idle < state_->tasks.size() && state_->threads.size() < state_->most)
    state_->threads.emplace_back([state = state_] { state->run(); });
  state_->changed.notify_one();
}

bool Worker::is_current() const {
  std::lock_guard guard(state_->mutex);
  return std::ranges::find(state_->ids, std::this_thread::get_id()) != state_->ids.end();
}

void Worker::State::run() {
  c10::setThreadName(name);
  std::unique_lock lock(mutex);
  ids.push_back(std::this_thread::get_id());
  for (;;) {
    idle++;
    changed.wait(lock, [this] { return ending || halted || !tasks.empty(); });
    idle--;
    if (halted || tasks.empty()) return;
    std::function<void()> task = std::move(tasks.front());
    tasks.pop_front();
    running++;
    lock.unlock();
    task();
    task = nullptr;
    lock.lock();
    running--;
  }
}

}  // namespace pytorch_ocl::distributed
