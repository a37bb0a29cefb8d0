// SPDX-License-Identifier: MIT
#include "builders.hpp"

#include <dlprim/runtime/builds.hpp>
#include <dlprim/runtime/submission.hpp>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <system_error>
#include <thread>
#include <utility>

#include "compilers.hpp"
#include "cpus.hpp"
#include "system.hpp"

namespace dlprim {

namespace {
constexpr unsigned most_threads = 16;
// At the process' end: the longest build takes some seconds, and many times that where others use the CPUs.
constexpr auto farewell = std::chrono::seconds(60);
constexpr auto idle_time = std::chrono::seconds(10);
std::int64_t creator = 0;  // the process that has the threads

// Ends processes that have nothing to compile.
void close_compilers() noexcept {
  for (int i = 0; i < Device::count(); i++)
    if (Device& device = Device::get(i); device.initialized()) device.programs().compilers().close_idle();
}

// Whether there are commands left for drivers that compile when they run them.
bool drivers_may_compile() noexcept {
  try {
    for (int i = 0; i < Device::count(); i++) {
      Device& device = Device::get(i);
      if (device.info().compiles_at_launch() && device.initialized() && !device.idle()) return true;
    }
  } catch (const std::exception&) {
    // what failed compiles nothing
  }
  return false;
}
}  // namespace

std::atomic<int> Builders::pending{0};

bool builds_are_under_way() noexcept { return Builders::busy() || drivers_may_compile(); }

Builders& Builders::instance() {
  static auto* instance = new Builders;
  return *instance;
}

Builders::Builders() {
  creator = process_id();
  stop_at_exit();
}

void Builders::stop_at_exit() noexcept {
  std::atexit([] { instance().stop(); });
}

void Builders::add_thread() noexcept {
  try {
    std::thread([this] { work(); }).detach();
    threads_++, free_++;
  } catch (const std::system_error&) {
    // no more threads: those that are there will do
  }
}

void Builders::add(Kernel& kernel) {
  {
    std::lock_guard guard(mutex_);
    if (waiting_.size() >= free_ && threads_ < std::min(share_of_cpus(), most_threads)) add_thread();
    if (threads_ && !stopping_) {
      waiting_.push_back(&kernel);
      pending++;
      wake_.notify_one();
      return;
    }
  }
  kernel.build();
}

void Builders::watch() {
  std::lock_guard guard(mutex_);
  if (threads_ == 0 && !stopping_) add_thread();
  if (std::exchange(watching_, true)) return;
  wake_.notify_one();
}

void Builders::work() noexcept {
  std::unique_lock guard(mutex_);
  while (true) {
    if (!wake_.wait_for(guard, idle_time, [&] { return !waiting_.empty(); })) {
      close_compilers();
      watching_ = false;
      wake_.wait(guard, [&] { return watching_ || !waiting_.empty(); });
    }
    if (waiting_.empty()) continue;
    Kernel* kernel = waiting_.front();
    waiting_.pop_front();
    free_--;
    guard.unlock();
    kernel->build();
    stop_at_exit();
    guard.lock();
    free_++;
    pending--;
    if (free_ == threads_) idle_.notify_all();
  }
}

// Before drivers are unloaded.
void Builders::stop() noexcept {
  if (process_id() != creator) return;  // a fork has no such threads, and may have found the mutex locked
  Submission::halt_all();
  std::unique_lock guard(mutex_);
  stopping_ = true;
  for (Kernel* kernel : waiting_) kernel->abandon();
  pending -= int(waiting_.size());
  waiting_.clear();
  static const auto end = std::chrono::steady_clock::now() + farewell;  // for all of them that are registered
  idle_.wait_until(guard, end, [&] { return free_ == threads_; });
  guard.unlock();
  while (drivers_may_compile() && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace dlprim
