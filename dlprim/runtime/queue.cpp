// SPDX-License-Identifier: MIT
#include <dlprim/runtime/profile.hpp>
#include <dlprim/runtime/queue.hpp>
#include <dlprim/runtime/status.hpp>

#include <array>
#include <cstring>

namespace dlprim {

namespace {
// Small enough that a device never waits long for its first command, large enough to amortize the call.
constexpr unsigned flush_interval = 8;

std::atomic<void (*)(const char*)> blocking_hook{nullptr};

void before_blocking(const char* what) {
  if (auto* hook = blocking_hook.load(std::memory_order_relaxed)) hook(what);
}

// An event slot for a command when it is to be profiled; hands the event to the profiler afterwards.
struct Profiled {
  const char* name;
  Queue& queue;
  std::size_t bytes;
  cl_event event = nullptr;
  cl_event* slot() { return Profiler::enabled() ? &event : nullptr; }
  ~Profiled() {
    if (event) Profiler::record(event, name, queue.device().index(), queue.id(), bytes);
  }
};
}  // namespace

bool Event::reached() const {
  if (!event_()) return true;
  cl_int status = CL_QUEUED;
  check(clGetEventInfo(event_(), CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr),
        "clGetEventInfo");
  return status <= CL_COMPLETE;
}

void Event::wait() const {
  if (!event_()) return;
  const cl_event event = event_();
  check(clWaitForEvents(1, &event), "clWaitForEvents");
}

std::uint64_t Event::nanoseconds() const {
  if (!event_()) throw ValidationError("[event] expected a recorded event");
  wait();
  cl_ulong time = 0;
  check(clGetEventProfilingInfo(event_(), CL_PROFILING_COMMAND_END, sizeof time, &time, nullptr),
        "clGetEventProfilingInfo");
  return time;
}

Queue::Queue(Device& device, std::int64_t id) : device_(device), id_(id), submission_(device.submission()) {
  cl_int code = CL_SUCCESS;
  queue_ = cl::CommandQueue(
      clCreateCommandQueue(device.context()(), device.id(), CL_QUEUE_PROFILING_ENABLE, &code));
  check(code, "clCreateCommandQueue");
}

Event Queue::record() {
  cl_event event = nullptr;
  if (submission_) submission_->wait();  // memory is given back with events: errors are left to other calls
  check(clEnqueueMarkerWithWaitList(queue_(), 0, nullptr, &event), "clEnqueueMarkerWithWaitList");
  Event marker{cl::Event(event)};
  flush_driver();
  return marker;
}

void Queue::wait(const Event& event) {
  if (!event) return;
  const cl_event handle = event.get();
  cl_context owner = nullptr;
  check(clGetEventInfo(handle, CL_EVENT_CONTEXT, sizeof owner, &owner, nullptr), "clGetEventInfo");
  // Queues cannot wait for events of other contexts, and each device has its own: then the host waits.
  if (owner != device_.context()()) return event.wait();
  check(clEnqueueBarrierWithWaitList(get(), 1, &handle, nullptr), "clEnqueueBarrierWithWaitList");
  enqueued();
}

void Queue::flush() {
  submit();
  flush_driver();
}

bool Queue::idle() {
  submit();
  std::lock_guard guard(marker_mutex_);
  if (busy_.exchange(false)) marker_ = record();
  return marker_.reached();
}

void Queue::finish() {
  submit();
  busy_.store(false);
  check(clFinish(queue_()), "clFinish");
  device_.status().check(*this);
}

void Queue::on_blocking(void (*hook)(const char*)) noexcept { blocking_hook = hook; }

void Queue::write(BufferRef to, const void* from, std::size_t bytes, bool blocking) {
  if (bytes == 0) return;
  if (blocking) before_blocking("a copy to the device");
  Profiled profiled{"copy host to device", *this, bytes};
  check(clEnqueueWriteBuffer(get(), to.memory, blocking, to.offset, bytes, from, 0, nullptr, profiled.slot()),
        "clEnqueueWriteBuffer");
  enqueued();
}

void Queue::read(void* to, BufferRef from, std::size_t bytes, bool blocking) {
  if (bytes == 0) return;
  if (blocking) before_blocking("a copy to the host");
  {
    Profiled profiled{"copy device to host", *this, bytes};
    check(clEnqueueReadBuffer(get(), from.memory, blocking, from.offset, bytes, to, 0, nullptr, profiled.slot()),
          "clEnqueueReadBuffer");
  }
  enqueued();
  if (blocking) device_.status().check(*this);
}

// Runs `command`, which calls the driver, or hands it over to be run.
template <class Command>
void Queue::run(const Command& command) {
  if (submission_ && !Profiler::enabled()) return submission_->push(command);
  submit();
  command();
}

void Queue::copy(BufferRef to, BufferRef from, std::size_t bytes) {
  if (bytes == 0 || (to.memory == from.memory && to.offset == from.offset)) return;
  run([this, to, from, bytes] {
    Profiled profiled{"copy device to device", *this, 2 * bytes};
    check(clEnqueueCopyBuffer(queue_(), from.memory, to.memory, from.offset, to.offset, bytes, 0, nullptr,
                              profiled.slot()),
          "clEnqueueCopyBuffer");
    enqueued();
  });
}

void Queue::fill(BufferRef to, const void* pattern, std::size_t pattern_bytes, std::size_t bytes) {
  if (bytes == 0) return;
  std::array<std::byte, 16> kept{};
  if (pattern_bytes > kept.size())
    throw ValidationError("[fill] expected a pattern of at most 16 bytes, got " + std::to_string(pattern_bytes));
  std::memcpy(kept.data(), pattern, pattern_bytes);
  run([this, to, kept, pattern_bytes, bytes] {
    Profiled profiled{"fill", *this, bytes};
    check(clEnqueueFillBuffer(queue_(), to.memory, kept.data(), pattern_bytes, to.offset, bytes, 0, nullptr,
                              profiled.slot()),
          "clEnqueueFillBuffer");
    enqueued();
  });
}

void Queue::enqueued() {
  busy_.store(true, std::memory_order_relaxed);
  if (unflushed_.fetch_add(1, std::memory_order_relaxed) + 1 >= flush_interval) flush_driver();
}

void Queue::flush_driver() {
  unflushed_.store(0, std::memory_order_relaxed);
  check(clFlush(queue_()), "clFlush");
}

}  // namespace dlprim
