// SPDX-License-Identifier: MIT
#include <dlprim/runtime/parallel.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <thread>

#include "cpus.hpp"

namespace dlprim {

namespace {

constexpr std::size_t chunk = std::size_t(128) << 10;
// The next piece of a tensor follows within this time; waking a thread takes about as long.
constexpr auto linger = std::chrono::microseconds(100);

// A call of parallel_ranges.
struct Job {
  void (*run)(void*, std::size_t, std::size_t) = nullptr;
  void* context = nullptr;
  std::size_t count = 0, grain = 0;
};

// Threads that take ranges of one job at a time. Leaked, with its threads: they own nothing.
class Crew {
 public:
  /// `wanted` threads, the caller's among them.
  explicit Crew(unsigned wanted) {
    try {
      for (; helpers_ + 1 < wanted; helpers_++) std::thread([this] { help(); }).detach();
    } catch (const std::exception&) {
      // no more threads: those that are there will do
    }
  }

  /// False where it is at work already, or is the caller alone.
  bool run(const Job& job) noexcept {
    std::unique_lock turn(turn_, std::try_to_lock);
    if (!turn || helpers_ == 0) return false;
    {
      std::lock_guard guard(mutex_);
      job_ = job;
      next_ = 0;
      round_++;
    }
    wake_.notify_all();
    take_ranges(job);
    {
      std::lock_guard guard(mutex_);
      job_ = {};  // who wakes up late has nothing to do
    }
    while (active_.load(std::memory_order_acquire) > 0) std::this_thread::yield();
    return true;
  }

 private:
  void take_ranges(const Job& job) noexcept {
    for (std::size_t at; (at = next_.fetch_add(job.grain, std::memory_order_relaxed)) < job.count;)
      job.run(job.context, at, std::min(at + job.grain, job.count));
  }

  void help() noexcept {
    for (unsigned seen = 0;;) {
      const auto end = std::chrono::steady_clock::now() + linger;
      while (round_.load(std::memory_order_acquire) == seen && std::chrono::steady_clock::now() < end)
        std::this_thread::yield();
      Job job;
      {
        std::unique_lock guard(mutex_);
        wake_.wait(guard, [&] { return round_.load() != seen; });
        seen = round_;
        job = job_;
        active_++;
      }
      if (job.count) take_ranges(job);
      active_.fetch_sub(1, std::memory_order_release);
    }
  }

  unsigned helpers_ = 0;
  std::mutex turn_, mutex_;
  std::condition_variable wake_;
  std::atomic<unsigned> round_{0}, active_{0};
  Job job_;
  std::atomic<std::size_t> next_{0};
};

// Null where there is no memory for it.
Crew* first_crew() {
  const unsigned cpus = available_cpus();
  static auto* crew = new (std::nothrow) Crew(cpus == 1 ? 1 : std::clamp(cpus / 2, 2u, 8u));
  return crew;
}

// For work that comes while the first is busy, on hosts with CPUs to spare.
Crew* second_crew() {
  static auto* crew = new (std::nothrow) Crew(std::min(available_cpus() / 4, 4u));
  return crew;
}

bool runs(Crew* crew, const Job& job) noexcept { return crew && crew->run(job); }

}  // namespace

void detail::parallel_ranges(std::size_t count, std::size_t grain, void (*run)(void*, std::size_t, std::size_t),
                             void* context) noexcept {
  const Job job{run, context, count, grain};
  if (count >= 4 * grain && (runs(first_crew(), job) || runs(second_crew(), job))) return;
  run(context, 0, count);
}

void parallel_copy(void* to, const void* from, std::size_t bytes) noexcept {
  parallel_ranges(bytes, chunk, [&](std::size_t begin, std::size_t end) {
    std::memcpy(static_cast<std::byte*>(to) + begin, static_cast<const std::byte*>(from) + begin, end - begin);
  });
}

}  // namespace dlprim
