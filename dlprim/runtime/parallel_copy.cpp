// SPDX-License-Identifier: MIT
#include "parallel_copy.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <system_error>
#include <thread>

#include "processors.hpp"

namespace dlprim {

namespace {

constexpr std::size_t chunk = std::size_t(128) << 10;
// The next piece of a copy follows within this time; waking a thread takes about as long.
constexpr auto linger = std::chrono::microseconds(100);

// Threads that take chunks of one copy at a time. Leaked, with its threads: they own nothing.
class Crew {
 public:
  Crew() {
    const unsigned processors = available_processors();
    const unsigned wanted = processors == 1 ? 1 : std::clamp(processors / 2, 2u, 8u);
    try {
      for (; helpers_ + 1 < wanted; helpers_++) std::thread([this] { help(); }).detach();
    } catch (const std::system_error&) {
      // no more threads: those that are there will do
    }
  }

  void copy(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    std::unique_lock turn(turn_, std::try_to_lock);
    if (!turn || helpers_ == 0 || bytes < 4 * chunk) {
      std::memcpy(to, from, bytes);
      return;
    }
    const Job job{to, from, bytes};
    {
      std::lock_guard guard(mutex_);
      job_ = job;
      next_ = 0;
      round_++;
    }
    wake_.notify_all();
    take_chunks(job);
    {
      std::lock_guard guard(mutex_);
      job_ = {};  // who wakes up late has nothing to do
    }
    while (active_.load(std::memory_order_acquire) > 0) std::this_thread::yield();
  }

 private:
  struct Job {
    std::byte* to = nullptr;
    const std::byte* from = nullptr;
    std::size_t bytes = 0;
  };

  void take_chunks(const Job& job) noexcept {
    for (std::size_t at; (at = next_.fetch_add(chunk, std::memory_order_relaxed)) < job.bytes;)
      std::memcpy(job.to + at, job.from + at, std::min(chunk, job.bytes - at));
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
      if (job.bytes) take_chunks(job);
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

}  // namespace

void parallel_copy(void* to, const void* from, std::size_t bytes) noexcept {
  static auto* crew = new Crew;
  crew->copy(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes);
}

}  // namespace dlprim
