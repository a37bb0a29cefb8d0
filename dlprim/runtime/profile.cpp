// SPDX-License-Identifier: MIT
#include <dlprim/runtime/profile.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <map>
#include <mutex>

namespace dlprim {

thread_local std::uint64_t Profiler::correlation = 0;

namespace {

struct Entry {
  cl::Event event;
  ProfiledCommand command;  // host_start: when it had been enqueued
};

std::uint64_t time_of(const cl::Event& event, cl_profiling_info moment) {
  cl_ulong time = 0;
  check(clGetEventProfilingInfo(event(), moment, sizeof time, &time, nullptr), "clGetEventProfilingInfo");
  return time;
}

std::atomic<int> recordings{0};
std::mutex mutex;
std::vector<Entry> entries;  // since the first of the present recordings

// Enqueueing is seen by both clocks. The host looks at its own a little later, so the least difference is the
// best.
void compare_clocks(const std::vector<Entry>& recorded, std::vector<ProfiledCommand>& commands) {
  std::map<int, std::int64_t> ahead;  // the host's clock before the device's, by device
  for (const Entry& entry : recorded) {
    const auto queued = std::int64_t(time_of(entry.event, CL_PROFILING_COMMAND_QUEUED));
    auto& least = ahead.try_emplace(entry.command.device, std::numeric_limits<std::int64_t>::max()).first->second;
    least = std::min(least, std::int64_t(entry.command.host_start) - queued);
  }
  for (ProfiledCommand& command : commands)
    command.host_start = std::uint64_t(std::int64_t(command.start) + ahead.at(command.device));
}

}  // namespace

bool Profiler::enabled() noexcept { return recordings.load(std::memory_order_relaxed) > 0; }

std::size_t Profiler::start() {
  std::lock_guard guard(mutex);
  recordings++;
  return entries.size();
}

void Profiler::record(cl_event event, const char* name, int device, std::int64_t queue, std::uint64_t bytes) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  ProfiledCommand command{name,
                          device,
                          queue,
                          0,
                          0,
                          bytes,
                          std::uint64_t(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count()),
                          correlation};
  std::lock_guard guard(mutex);
  if (enabled()) entries.push_back({cl::Event(event), std::move(command)});
  else clReleaseEvent(event);
}

std::vector<ProfiledCommand> Profiler::stop(std::size_t start) {
  std::vector<Entry> recorded;
  {
    std::lock_guard guard(mutex);
    recorded.assign(entries.begin() + std::ptrdiff_t(std::min(start, entries.size())), entries.end());
    if (--recordings == 0) entries.clear();
  }
  std::vector<ProfiledCommand> commands;
  commands.reserve(recorded.size());
  for (const Entry& entry : recorded) {
    const cl_event event = entry.event();
    check(clWaitForEvents(1, &event), "clWaitForEvents");
    commands.push_back(entry.command);
    commands.back().start = time_of(entry.event, CL_PROFILING_COMMAND_START);
    commands.back().end = time_of(entry.event, CL_PROFILING_COMMAND_END);
  }
  compare_clocks(recorded, commands);
  return commands;
}

}  // namespace dlprim
