// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/program.hpp>

#include <condition_variable>
#include <deque>
#include <mutex>

namespace dlprim {

/// Threads that build kernels while the caller goes on, as many as the process has CPUs, 16 at most. Never destroyed. At
/// the process' end, builds that have begun and commands of drivers that compile when they run them are waited for, as
/// drivers cannot be unloaded while they compile.
class Builders {
 public:
  static Builders& instance();
  /// Has a kernel built. Where there is no thread, the caller builds it.
  void add(Kernel& kernel);
  /// Has a thread end the processes that compile (Compilers) when there is nothing to do for a while.
  void watch();
  /// After something was compiled: what the compiler made meanwhile is destroyed at the process' end after what waits for
  /// it, which is registered now.
  static void stop_at_exit() noexcept;
  /// Whether kernels are on their way.
  static bool busy() noexcept { return pending.load(std::memory_order_relaxed) > 0; }

 private:
  Builders();
  void add_thread() noexcept;
  void work() noexcept;
  void stop() noexcept;

  static std::atomic<int> pending;  // kernels that wait or are being built
  std::mutex mutex_;
  std::condition_variable wake_, idle_;
  std::deque<Kernel*> waiting_;
  unsigned threads_ = 0, free_ = 0;
  bool stopping_ = false, watching_ = false;
};

}  // namespace dlprim
