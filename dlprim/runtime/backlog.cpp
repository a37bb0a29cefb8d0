// SPDX-License-Identifier: MIT
#include <dlprim/runtime/backlog.hpp>

#include <algorithm>

namespace dlprim {

namespace {

using namespace std::chrono_literals;
constexpr auto long_wait = 100ms, short_wait = 20ms;
constexpr std::int64_t least = 2;

bool reached(const cl::Event& event) {
  cl_int status = CL_COMPLETE;
  const cl_int code = clGetEventInfo(event(), CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr);
  return code != CL_SUCCESS || status <= CL_COMPLETE;  // a queue that has failed runs nothing more
}

}  // namespace

void Backlog::add_mark(Mark mark) {
  std::lock_guard guard(mutex_);
  marks_.push_back(std::move(mark));
}

Backlog::Mark Backlog::oldest() {
  std::lock_guard guard(mutex_);
  while (!marks_.empty() && reached(marks_.front().event)) {
    completed_.store(std::max(completed_.load(), marks_.front().number));
    marks_.pop_front();
  }
  return marks_.empty() ? Mark{} : marks_.front();
}

void Backlog::complete(std::int64_t number) {
  std::lock_guard guard(mutex_);
  while (!marks_.empty() && marks_.front().number <= number) marks_.pop_front();
  completed_.store(std::max(completed_.load(), number));
}

void Backlog::adapt(std::chrono::steady_clock::duration waited) noexcept {
  const std::int64_t window = window_.load(std::memory_order_relaxed);
  if (waited > long_wait) window_.store(std::max(window / 2, least), std::memory_order_relaxed);
  else if (waited < short_wait) window_.store(std::min(2 * window, largest_window), std::memory_order_relaxed);
}

}  // namespace dlprim
