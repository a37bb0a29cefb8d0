// SPDX-License-Identifier: MIT
#include "driver_room.hpp"

#include <chrono>
#include <thread>

namespace dlprim {

namespace {

constexpr auto pause = std::chrono::microseconds(20);

bool has_run(cl_event event) {
  cl_int status = CL_COMPLETE;
  check(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr), "clGetEventInfo");
  return status <= CL_COMPLETE;  // negative: an error, which other calls report
}

}  // namespace

void DriverRoom::add_mark(cl_command_queue queue, std::int64_t number) {
  cl_event event = nullptr;
  check(clEnqueueMarkerWithWaitList(queue, 0, nullptr, &event), "clEnqueueMarkerWithWaitList");
  cl::Event kept(event);
  check(clFlush(queue), "clFlush");
  std::lock_guard guard(mutex_);
  marks_.push_back({number, std::move(kept)});
  while (!marks_.empty() && has_run(marks_.front().event())) {
    ended_.store(marks_.front().number, std::memory_order_relaxed);
    marks_.pop_front();
  }
}

void DriverRoom::await() {
  std::lock_guard guard(mutex_);
  while (!marks_.empty() && handed_.load() - ended_.load() > most) {
    while (!has_run(marks_.front().event())) std::this_thread::sleep_for(pause);
    ended_.store(marks_.front().number, std::memory_order_relaxed);
    marks_.pop_front();
  }
}

}  // namespace dlprim
