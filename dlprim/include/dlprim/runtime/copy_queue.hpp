// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/device.hpp>

#include <atomic>

namespace dlprim {

/// Ids of queues that follow those of the pool (Device::queue). Commands go straight to the driver, so they wait neither
/// for what other queues' commands wait for nor for those to be handed over.
inline constexpr std::int64_t first_copy_queue = 33, copy_queues = 8;

/// One of them, round robin: for threads that copy beside what a program does. No stream of a program is one.
inline Queue& copy_queue(Device& device) {
  static std::atomic<unsigned> next{0};
  return device.queue(first_copy_queue + std::int64_t(next.fetch_add(1) % copy_queues));
}

}  // namespace dlprim
