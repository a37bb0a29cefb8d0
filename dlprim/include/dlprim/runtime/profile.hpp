// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include <dlprim/runtime/cl.hpp>

namespace dlprim {

/// One kernel or copy as it ran. Times are nanoseconds of the device's clock.
struct ProfiledCommand {
  std::string name;
  int device = 0;
  std::int64_t queue = 0;
  std::uint64_t start = 0, end = 0, bytes = 0;
  std::uint64_t host_start = 0;  ///< `start` by std::chrono::system_clock, as far as the two clocks can be compared
  std::uint64_t correlation = 0;  ///< Profiler::correlation of the thread that enqueued it
};

/// Records kernels and copies. Several may record at a time; with none, it costs one relaxed load a launch.
class Profiler {
 public:
  static bool enabled() noexcept;
  /// Records from now on; gives what stop() needs.
  static std::size_t start();
  /// Waits for the work recorded since `start` and returns it in the order of enqueueing.
  static std::vector<ProfiledCommand> stop(std::size_t start);
  /// An identifier attached to what the calling thread enqueues from now on.
  static thread_local std::uint64_t correlation;
  /// For the launch path only: takes over the event of a command.
  static void record(cl_event event, const char* name, int device, std::int64_t queue, std::uint64_t bytes);
};

}  // namespace dlprim
