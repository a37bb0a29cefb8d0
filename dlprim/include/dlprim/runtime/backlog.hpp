// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>

#include <dlprim/runtime/cl.hpp>

namespace dlprim {

/// Counts the commands of a queue that are on their way, so that the host does not run ahead of the device without end.
///
/// At most `window` commands, markers among them, are in flight: up to 896 short ones, fewer where they take long, so
/// that all of them together run for about a second. NVIDIA's driver takes 1020 (see DriverRoom). The window is found as
/// TCP finds its own: commands are marked in groups of an eighth of it, and who has to wait for a mark halves the window
/// after a long wait and doubles it after a short one.
///
/// On cache lines of its own: the thread that computes writes it at each command, another one may call the driver.
class alignas(64) Backlog {
 public:
  static constexpr std::int64_t most = 896;
  struct Mark {
    std::int64_t number;  ///< commands before it
    cl::Event event;
  };

  /// Counts one more command and returns its number.
  std::int64_t add() noexcept { return issued_.fetch_add(1, std::memory_order_relaxed) + 1; }
  /// Whether a mark has to follow the command of this number.
  bool wants_mark(std::int64_t number) const noexcept { return (number & (group() - 1)) == 0; }
  /// Whether the command of this number has to wait until others have run.
  bool is_full(std::int64_t number) const noexcept {
    return number - completed_.load(std::memory_order_relaxed) >
           std::min(window_.load(std::memory_order_relaxed), most);
  }
  void add_mark(Mark mark);
  /// Forgets the marks that were reached; returns the first one that was not, if any.
  Mark oldest();
  /// All commands up to this number have run.
  void complete(std::int64_t number);
  /// A mark was waited for.
  void adapt(std::chrono::steady_clock::duration waited) noexcept;
  /// Commands that are not known to have run.
  std::int64_t in_flight() const noexcept { return issued_.load() - completed_.load(); }
  std::int64_t issued() const noexcept { return issued_.load(); }

 private:
  std::int64_t group() const noexcept {
    const std::int64_t window = window_.load(std::memory_order_relaxed);
    return window < 8 ? 1 : window / 8;
  }
  static constexpr std::int64_t largest_window = 1024;
  std::atomic<std::int64_t> issued_{0}, completed_{0}, window_{256};  // the window is a power of two
  std::mutex mutex_;
  std::deque<Mark> marks_;
};

}  // namespace dlprim
