// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/submission.hpp>

#include <atomic>

namespace dlprim {

/// An event of a marker that a Submission will enqueue. Whoever needs OpenCL's event before that waits for the commands up
/// to the marker, and for no later ones.
class DeferredEvent {
 public:
  DeferredEvent(Submission& submission, cl_context context) : submission_(submission), context_(context) {}
  DeferredEvent(const DeferredEvent&) = delete;
  // In turn: who releases an event beside a thread that enqueues waits for the driver's lock.
  ~DeferredEvent() {
    if (!event_) return;
    if (Submission::is_current()) clReleaseEvent(event_);
    else submission_.push([event = event_] { clReleaseEvent(event); }, true);
  }

  /// The command: enqueues the marker.
  void make(cl_command_queue queue) noexcept {
    code_ = clEnqueueMarkerWithWaitList(queue, 0, nullptr, &event_);
    made_.store(true, std::memory_order_release);
  }
  /// Where the command ends, once it was handed over.
  void handed_over(std::size_t end) noexcept { end_ = end; }

  cl_context context() const noexcept { return context_; }
  bool made() const noexcept { return made_.load(std::memory_order_acquire); }
  /// Throws DeviceError where the marker could not be enqueued.
  cl_event get() const {
    if (!made()) submission_.wait_for(end_);
    check(code_, "clEnqueueMarkerWithWaitList");
    return event_;
  }

 private:
  Submission& submission_;
  cl_context context_;
  std::size_t end_ = 0;
  cl_int code_ = CL_SUCCESS;
  cl_event event_ = nullptr;
  std::atomic<bool> made_{false};
};

}  // namespace dlprim
