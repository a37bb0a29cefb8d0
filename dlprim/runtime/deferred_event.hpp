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

  /// The command: enqueues the marker.
  void make(cl_command_queue queue) noexcept {
    cl_event event = nullptr;
    code_ = clEnqueueMarkerWithWaitList(queue, 0, nullptr, &event);
    event_ = cl::Event(event);
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
    return event_();
  }

 private:
  Submission& submission_;
  cl_context context_;
  std::size_t end_ = 0;
  cl_int code_ = CL_SUCCESS;
  cl::Event event_;
  std::atomic<bool> made_{false};
};

}  // namespace dlprim
