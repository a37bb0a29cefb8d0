// SPDX-License-Identifier: MIT
#pragma once
#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>

#include <dlprim/runtime/cl.hpp>

namespace dlprim {

/// Keeps a queue from being full for its driver. NVIDIA's takes 1020 commands of a queue, markers among them; whoever
/// hands over one more then waits for the device and keeps every other thread of the process out of the driver meanwhile,
/// also one that would end what the device waits for (PeerExchange::abort). Backlog keeps queues below that, but for
/// commands that waited for their kernels to be built.
class DriverRoom {
 public:
  /// To be called after each command of the queue, by whom handed it over: waits while the driver has too many that have
  /// not run. Throws DeviceError.
  void enqueued(cl_command_queue queue) {
    const std::int64_t number = handed_.fetch_add(1, std::memory_order_relaxed) + 1;
    if (number % group == 0) add_mark(queue, number);
    if (number - ended_.load(std::memory_order_relaxed) > most) await();
  }

 private:
  static constexpr std::int64_t most = 944, group = 32;
  struct Mark {
    std::int64_t number;
    cl::Event event;
  };
  void add_mark(cl_command_queue queue, std::int64_t number);
  void await();

  std::atomic<std::int64_t> handed_{0}, ended_{0};
  std::mutex mutex_;
  std::deque<Mark> marks_;
};

}  // namespace dlprim
