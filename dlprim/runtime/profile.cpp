// SPDX-License-Identifier: MIT
#include <dlprim/runtime/profile.hpp>

#include <atomic>
#include <chrono>
#include <mutex>

namespace dlprim {

thread_local std::uint64_t Profiler::correlation = 0;

namespace {
struct Entry {
  cl::Event event;
  ProfiledCommand command;
};
std::atomic<bool> active{false};
std::mutex mutex;
std::vector<Entry> entries;
}  // namespace

bool Profiler::enabled() noexcept { return active.load(std::memory_order_relaxed); }

void Profiler::start() {
  std::lock_guard guard(mutex);
  entries.clear();
  active = true;
}

void Profiler::record(cl_event event, const char* name, int device, std::int64_t queue, std::uint64_t bytes) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  ProfiledCommand command{name, device, queue, 0, 0, bytes,
                          std::uint64_t(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count()),
                          correlation};
  std::lock_guard guard(mutex);
  entries.push_back({cl::Event(event), std::move(command)});
}

std::vector<ProfiledCommand> Profiler::stop() {
  active = false;
  std::vector<Entry> recorded;
  {
    std::lock_guard guard(mutex);
    recorded.swap(entries);
  }
  std::vector<ProfiledCommand> commands;
  commands.reserve(recorded.size());
  for (auto& entry : recorded) {
    entry.event.wait();
    entry.command.start = entry.event.getProfilingInfo<CL_PROFILING_COMMAND_START>();
    entry.command.end = entry.event.getProfilingInfo<CL_PROFILING_COMMAND_END>();
    commands.push_back(std::move(entry.command));
  }
  return commands;
}

}  // namespace dlprim
