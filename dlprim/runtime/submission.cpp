// SPDX-License-Identifier: MIT
#include <dlprim/runtime/device.hpp>
#include <dlprim/runtime/environment.hpp>
#include <dlprim/runtime/submission.hpp>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <vector>
#if defined(__x86_64__) || defined(_M_X64)
#include <immintrin.h>
#endif

#include "cpus.hpp"
#include "system.hpp"

namespace dlprim {

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t capacity = std::size_t(1) << 20;
constexpr std::size_t alignment = 16;
// A program that is bound by its host hands over a command every few microseconds; waking a thread takes longer.
constexpr auto spin_time = std::chrono::microseconds(200);
// At the process' end: a command that has begun takes microseconds, much longer only where a driver compiles at a launch.
// Windows has ended the threads before this.
#if defined(_WIN32)
constexpr auto farewell = std::chrono::milliseconds(100);
#else
constexpr auto farewell = std::chrono::seconds(2);
#endif

inline void relax() noexcept {
#if defined(__x86_64__) || defined(_M_X64)
  _mm_pause();
#else
  std::this_thread::yield();
#endif
}

// Waits in ever longer steps.
class Backoff {
 public:
  void operator()() noexcept {
    if (++rounds_ < 1000) relax();
    else if (rounds_ < 2000) std::this_thread::yield();
    else std::this_thread::sleep_for(std::chrono::microseconds(50));
  }

 private:
  int rounds_ = 0;
};

bool pays(const DeviceInfo& device) {
  return environment::choice("DLPRIM_SUBMIT_THREAD").value_or(device.gpu && available_cpus() >= 4);
}

struct Registry {
  const std::int64_t process = process_id();
  std::mutex mutex;
  std::vector<Submission*> all;
};

// Leaked: used while static objects are destroyed.
Registry& registry() {
  static auto* instance = new Registry;
  return *instance;
}

}  // namespace

// Lies in the ring before its payload. The rest of the ring's end that is too short for a command is one without `run`.
struct alignas(alignment) Submission::Command {
  Run run;
  std::size_t bytes;  // with payload and padding
};

std::unique_ptr<Submission> Submission::make(const DeviceInfo& device) {
  if (!pays(device)) return nullptr;
  try {
    return std::make_unique<Submission>();
  } catch (const std::system_error&) {
    return nullptr;  // no more threads: commands go straight to the driver
  }
}

Submission::Submission() : ring_(std::make_unique<Unit[]>(capacity / sizeof(Unit))), thread_([this] { work(); }) {
  Registry& known = registry();
  std::lock_guard guard(known.mutex);
  if (known.all.empty()) std::atexit([] { stop_all(); });
  known.all.push_back(this);
}

Submission::~Submission() {
  {
    std::lock_guard guard(registry().mutex);
    std::erase(registry().all, this);
  }
  wait();
  stop();
  thread_.join();
}

std::byte* Submission::reserve(Run run, std::size_t bytes, bool quietly) {
  if (!quietly && failed_.load(std::memory_order_relaxed)) rethrow();
  static_assert(sizeof(Command) == alignment && sizeof(Unit) == alignment, "payloads follow commands");
  bytes = (sizeof(Command) + bytes + alignment - 1) / alignment * alignment;
  if (bytes > capacity / 2) throw std::length_error("[submission] a command of " + std::to_string(bytes) + " bytes");
  const std::size_t start = published_.load(std::memory_order_relaxed), at = start % capacity;
  const std::size_t skipped = at + bytes > capacity ? capacity - at : 0;
  next_ = start + skipped + bytes;
  const auto full = [&] {
    if (next_ - ran_once_ <= capacity) return false;
    ran_once_ = ran_.load(std::memory_order_acquire);
    return next_ - ran_once_ > capacity;
  };
  for (Backoff wait; full(); wait())
    if (std::unique_lock guard(running_, std::try_to_lock); guard) run_next();
  if (skipped) new (this->at(at)) Command{nullptr, skipped};
  auto* command = new (this->at((start + skipped) % capacity)) Command{run, bytes};
  return reinterpret_cast<std::byte*>(command + 1);
}

void Submission::publish() noexcept {
  published_.store(next_, std::memory_order_seq_cst);
  if (asleep_.load(std::memory_order_seq_cst)) {
    asleep_.store(0);
    asleep_.notify_one();
  }
}

// Expects `running_` to be held.
bool Submission::run_next() noexcept {
  const std::size_t at = ran_.load(std::memory_order_relaxed);
  if (at == published_.load(std::memory_order_acquire)) return false;
  const auto* command = reinterpret_cast<const Command*>(this->at(at % capacity));
  if (command->run) {
    current_ = true;
    try {
      command->run(reinterpret_cast<const std::byte*>(command + 1));
    } catch (...) {
      std::lock_guard guard(error_mutex_);
      if (!error_) error_ = std::current_exception();
      failed_ = true;
    }
    current_ = false;
  }
  ran_.store(at + command->bytes, std::memory_order_release);
  return true;
}

void Submission::run_until(std::size_t end) noexcept {
  const auto done = [&] { return std::ptrdiff_t(end - ran_.load(std::memory_order_acquire)) <= 0; };
  for (Backoff wait; !done(); wait())
    if (std::unique_lock guard(running_, std::try_to_lock); guard)
      while (!done() && run_next()) continue;
}

void Submission::rethrow() {
  std::exception_ptr error;
  {
    std::lock_guard guard(error_mutex_);
    failed_ = false;
    std::swap(error, error_);
  }
  if (error) std::rethrow_exception(error);
}

void Submission::wait() noexcept { run_until(published_.load()); }

void Submission::drain() {
  wait();
  if (failed_.load(std::memory_order_relaxed)) rethrow();
}

// Returns false when there was nothing to do for long.
bool Submission::await_command() noexcept {
  static const bool alone = available_cpus() == 1;  // who hands over the next command needs the core
  const auto end = alone ? Clock::now() : Clock::now() + spin_time;
  do
    for (int i = 0; i < 32; i++) {
      if (published_.load(std::memory_order_acquire) != ran_.load(std::memory_order_relaxed)) return true;
      relax();
    }
  while (!stopping_ && Clock::now() < end);
  return false;
}

void Submission::work() noexcept {
  while (!stopping_) {
    {
      std::lock_guard guard(running_);
      while (!stopping_ && run_next()) continue;
    }
    if (await_command()) continue;
    asleep_.store(1, std::memory_order_seq_cst);
    if (published_.load(std::memory_order_seq_cst) == ran_.load() && !stopping_) asleep_.wait(1);
    asleep_.store(0);
  }
  stopped_ = true;
}

void Submission::stop() noexcept {
  stopping_ = true;
  asleep_.store(0);
  asleep_.notify_one();
}

void Submission::halt_all() noexcept {
  Registry& known = registry();
  std::lock_guard guard(known.mutex);
  for (Submission* submission : known.all) submission->stop();
}

// Before drivers are unloaded. What has not been handed to them by now nobody can see any more.
void Submission::stop_all() noexcept {
  Registry& known = registry();
  if (known.process != process_id()) return;  // a fork has no such threads to wait for
  std::lock_guard guard(known.mutex);
  const auto end = Clock::now() + farewell;
  for (Submission* submission : known.all) {
    submission->stop();
    while (!submission->stopped_ && Clock::now() < end) std::this_thread::yield();
    submission->thread_.detach();
  }
}

}  // namespace dlprim
