// SPDX-License-Identifier: MIT
#include <dlprim/runtime/capture.hpp>
#include <dlprim/runtime/copy_queue.hpp>
#include <dlprim/runtime/profile.hpp>
#include <dlprim/runtime/queue.hpp>
#include <dlprim/runtime/recording.hpp>
#include <dlprim/runtime/status.hpp>

#include <array>
#include <cstring>
#include <thread>

#include "builders.hpp"
#include "deferred_event.hpp"
#include "driver_room.hpp"
#include "gate_outcome.hpp"
#include "staging.hpp"

namespace dlprim {

namespace {
// Small enough that a device never waits long for its first command, large enough to amortize the call.
constexpr unsigned flush_interval = 8;

std::atomic<void (*)(const char*)> blocking_hook{nullptr};

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

cl_event Event::get() const {
  if (captured_) throw Error("operation not permitted on an event last recorded in a capturing stream");
  return deferred_ ? deferred_->get() : event_();
}

cl_context Event::context() const {
  if (deferred_) return deferred_->context();
  cl_context owner = nullptr;
  check(clGetEventInfo(get(), CL_EVENT_CONTEXT, sizeof owner, &owner, nullptr), "clGetEventInfo");
  return owner;
}

bool Event::reached() const {
  if (!*this) return true;
  if (deferred_ && !deferred_->made()) return false;
  cl_int status = CL_QUEUED;
  check(clGetEventInfo(get(), CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr), "clGetEventInfo");
  return status <= CL_COMPLETE;
}

void Event::wait() const {
  if (!*this) return;
  const cl_event event = get();
  check(clWaitForEvents(1, &event), "clWaitForEvents");
}

std::uint64_t Event::nanoseconds() const {
  if (!*this) throw ValidationError("[event] expected a recorded event");
  wait();
  cl_ulong time = 0;
  check(clGetEventProfilingInfo(get(), CL_PROFILING_COMMAND_END, sizeof time, &time, nullptr),
        "clGetEventProfilingInfo");
  return time;
}

Queue::Queue(Device& device, std::int64_t id)
    : device_(device), id_(id), submission_(id < first_copy_queue ? device.submission() : nullptr),
      room_(device.info().nv_compute_capability ? std::make_unique<DriverRoom>() : nullptr),
      gates_(std::make_unique<GateOutcomes>()) {
  cl_int code = CL_SUCCESS;
  queue_ = cl::CommandQueue(clCreateCommandQueue(device.context()(), device.id(), CL_QUEUE_PROFILING_ENABLE, &code));
  check(code, "clCreateCommandQueue");
}

Queue::~Queue() { delete status_.load(); }

// Kernels of a capture run in its queue.
QueueStatus& Queue::status() {
  if (const CapturePin capture(*this); capture && &capture->queue() != this) return capture->queue().status();
  if (QueueStatus* known = status_.load(std::memory_order_acquire)) return *known;
  std::call_once(status_once_, [this] { status_.store(new QueueStatus(*this), std::memory_order_release); });
  return *status_.load();
}

BufferRef Queue::zeroed_counters() {
  if (const CapturePin capture(*this); capture) return capture->zeroed_counters();
  std::call_once(counters_once_, [this] { counters_ = new_counters(device_); });
  return {counters_(), 0};
}

cl::Buffer Queue::new_counters(Device& device) {
  std::vector<cl_uint> zeros(std::size_t(counters), 0);
  cl_int code = CL_SUCCESS;
  cl::Buffer made(clCreateBuffer(device.context()(), CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                 zeros.size() * sizeof(cl_uint), zeros.data(), &code));
  check(code, "clCreateBuffer");
  return made;
}

void Queue::check_status() {
  gates_->check();
  if (QueueStatus* status = status_.load(std::memory_order_acquire)) status->check();
}

Event Queue::record() {
  {
    const CapturePin capture(*this);
    if (capture) return Event(capture->tie());
  }
  return mark_enqueued();
}

// Memory is given back with events: errors of commands are left to other calls.
Event Queue::mark_enqueued() {
  count();
  if (submission_) {
    auto event = std::make_shared<DeferredEvent>(*submission_, device_.context()());
    auto kept = std::make_unique<std::shared_ptr<DeferredEvent>>(event);
    const auto command = [this, made = kept.get()] {
      const std::unique_ptr<std::shared_ptr<DeferredEvent>> owned(made);
      (*owned)->make(queue_());
      enqueued_marker();
      flush_driver();
    };
    event->handed_over(submission_->push(command, true));
    kept.release();
    return Event(std::move(event));
  }
  cl_event event = nullptr;
  check(clEnqueueMarkerWithWaitList(queue_(), 0, nullptr, &event), "clEnqueueMarkerWithWaitList");
  Event marker{cl::Event(event)};
  enqueued_marker();
  flush_driver();
  return marker;
}

bool Queue::begin_capture(Capture& capture) noexcept {
  Capture* none = nullptr;
  return capture_.compare_exchange_strong(none, &capture);
}

void Queue::end_capture(Capture& capture) noexcept {
  Capture* ended = &capture;
  if (!capture_.compare_exchange_strong(ended, nullptr)) return;
  while (capture_pins_ > 0) std::this_thread::yield();
}

void Queue::run_once(const char* what) {
  Recording::refuse(what);
  if (const CapturePin capture(*this); capture) capture->fail(what);
}

void Queue::wait_in_driver(const Event& event) {
  const cl_event handle = event.get();
  check(clEnqueueBarrierWithWaitList(queue_(), 1, &handle, nullptr), "clEnqueueBarrierWithWaitList");
  enqueued();
}

void Queue::wait(const Event& event) {
  if (!event) return;
  if (event.captured()) return Capture::join(*event.captured(), *this);
  run_once("it waits for another stream");
  if (event.outcome()) gates_->add(event.outcome());
  // Queues cannot wait for events of other contexts, and each device has its own: then the host waits.
  if (event.context() != device_.context()()) return event.wait();
  count();
  if (!submission_) return wait_in_driver(event);
  // What is not made yet will be by a command before this one.
  auto kept = std::make_unique<Event>(event);
  submission_->push([this, given = kept.get()] {
    const std::unique_ptr<Event> owned(given);
    wait_in_driver(*owned);
  });
  kept.release();
}

void Queue::flush() {
  submit();
  flush_driver();
}

bool Queue::idle() {
  submit();
  std::lock_guard guard(marker_mutex_);
  if (busy_.exchange(false)) marker_ = mark_enqueued();
  if (marker_) marker_.get();
  return marker_.reached();
}

void Queue::finish() {
  const std::int64_t issued = backlog_.issued();
  submit();
  busy_.store(false);
  check(clFinish(queue_()), "clFinish");
  backlog_.complete(issued);
  check_status();
}

void Queue::before_blocking(const char* what) {
  if (auto* hook = blocking_hook.load(std::memory_order_relaxed)) hook(what);
}

void Queue::on_blocking(void (*hook)(const char*)) noexcept { blocking_hook = hook; }

namespace {
// A thread that a copy blocks does not compute beside a CPU's (Intel's runtime), one that waits for a queue does.
void help(Queue& queue) {
  if (queue.device().info().cpu) check(clFinish(queue.get()), "clFinish");
}
}  // namespace

void Queue::write(BufferRef to, const void* from, std::size_t bytes, bool blocking) {
  if (bytes == 0) return;
  run_once("it copies from the host");
  if (blocking) before_blocking("a copy to the device");
  admit();
  if (blocking && device_.staging().serves(from, bytes)) return device_.staging().write(*this, to, from, bytes);
  if (blocking) help(*this);
  Profiled profiled{"copy host to device", *this, bytes};
  check(clEnqueueWriteBuffer(get(), to.memory, blocking, to.offset, bytes, from, 0, nullptr, profiled.slot()),
        "clEnqueueWriteBuffer");
  enqueued();
}

void Queue::read(void* to, BufferRef from, std::size_t bytes, bool blocking) {
  if (bytes == 0) return;
  run_once("it copies to the host");
  if (blocking) before_blocking("a copy to the host");
  admit();
  if (blocking && device_.staging().serves(to, bytes)) {
    device_.staging().read(*this, to, from, bytes);
    return check_status();
  }
  if (blocking) help(*this);
  {
    Profiled profiled{"copy device to host", *this, bytes};
    check(clEnqueueReadBuffer(get(), from.memory, blocking, from.offset, bytes, to, 0, nullptr, profiled.slot()),
          "clEnqueueReadBuffer");
  }
  enqueued();
  if (blocking) check_status();
}

namespace {

// Memory of a device that computes in host memory, as the host sees it while this lives.
class Mapped {
 public:
  Mapped(Queue& queue, BufferRef buffer, std::size_t bytes, cl_map_flags how) : queue_(queue), memory_(buffer.memory) {
    cl_int code = CL_SUCCESS;
    address_ = clEnqueueMapBuffer(queue.get(), memory_, CL_TRUE, how, buffer.offset, bytes, 0, nullptr, nullptr, &code);
    check(code, "clEnqueueMapBuffer");
  }
  Mapped(const Mapped&) = delete;
  ~Mapped() {
    clEnqueueUnmapMemObject(queue_.handle(), memory_, address_, 0, nullptr, nullptr);
    clFlush(queue_.handle());
  }
  void* address() const noexcept { return address_; }

 private:
  Queue& queue_;
  cl_mem memory_;
  void* address_;
};

}  // namespace

void Queue::copy_from(Queue& source, BufferRef to, BufferRef from, std::size_t bytes) {
  if (bytes == 0) return;
  Device& other = source.device();
  if (&other == &device_) throw ValidationError("[copy] expected queues of two devices");
  run_once("it copies between devices");
  source.run_once("it copies between devices");
  before_blocking("a copy between devices");
  if (!other.staging().serves_devices()) {
    help(source);
    const Mapped mapped(source, from, bytes, CL_MAP_READ);
    write(to, mapped.address(), bytes, true);
  } else if (!device_.staging().serves_devices()) {
    help(*this);
    const Mapped mapped(*this, to, bytes, CL_MAP_WRITE_INVALIDATE_REGION);
    source.read(mapped.address(), from, bytes, true);
  } else {
    admit();
    source.admit();
    other.staging().send(source, from, *this, to, bytes);
  }
  source.check_status();
}

// Runs `command`, which calls the driver, or hands it over to be run.
template <class Command>
void Queue::run(const Command& command) {
  if (submission_ && !Profiler::enabled()) {
    submission_->push(command);
    return;
  }
  submit();
  command();
}

void Queue::mark(std::int64_t number) {
  run([this, number] {
    cl_event event = nullptr;
    check(clEnqueueMarkerWithWaitList(queue_(), 0, nullptr, &event), "clEnqueueMarkerWithWaitList");
    backlog_.add_mark({number - 1, cl::Event(event)});
    backlog_.oldest();
    enqueued_marker();
  });
}

void Queue::await_room(std::int64_t number) {
  // Commands that wait for their kernels take the device no time yet. The ring's length bounds them.
  if (submission_ && Builders::busy()) return;
  submit();
  // Two marks at most: while a queue is full, every group of commands lets it get emptier by one. Of several threads
  // each waits for marks of its own.
  std::lock_guard guard(room_mutex_);
  for (int waits = 0; waits < 2; waits++) {
    const Backlog::Mark mark = backlog_.oldest();
    if (!mark.event() || !backlog_.is_full(number)) return;
    const auto start = std::chrono::steady_clock::now();
    Event(mark.event).wait();
    backlog_.complete(mark.number);
    backlog_.adapt(std::chrono::steady_clock::now() - start);
  }
}

void Queue::copy(BufferRef to, BufferRef from, std::size_t bytes) {
  if (bytes == 0 || (to.memory == from.memory && to.offset == from.offset)) return;
  if (const CapturePin capture(*this); capture) return capture->add_copy(to, from, bytes);
  if (Recording* recording = Recording::current()) recording->add_copy(*this, to, from, bytes);
  admit();
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
  // Drivers write as much at once: NVIDIA's fills by 4 bytes twice as fast as by 2.
  const auto whole = [&](std::size_t unit) { return bytes % unit == 0 && to.offset % unit == 0; };
  for (; pattern_bytes <= 2 && whole(2 * pattern_bytes); pattern_bytes *= 2)
    std::memcpy(kept.data() + pattern_bytes, kept.data(), pattern_bytes);
  pattern = kept.data();
  if (const CapturePin capture(*this); capture) return capture->add_fill(to, pattern, pattern_bytes, bytes);
  if (Recording* recording = Recording::current()) recording->add_fill(*this, to, pattern, pattern_bytes, bytes);
  admit();
  run([this, to, kept, pattern_bytes, bytes] {
    Profiled profiled{"fill", *this, bytes};
    check(clEnqueueFillBuffer(queue_(), to.memory, kept.data(), pattern_bytes, to.offset, bytes, 0, nullptr,
                              profiled.slot()),
          "clEnqueueFillBuffer");
    enqueued();
  });
}

void Queue::enqueued_marker() {
  if (room_) room_->enqueued(queue_());
}

void Queue::enqueued() {
  enqueued_marker();
  busy_.store(true, std::memory_order_relaxed);
  if (unflushed_.fetch_add(1, std::memory_order_relaxed) + 1 >= flush_interval) flush_driver();
}

void Queue::flush_driver() {
  unflushed_.store(0, std::memory_order_relaxed);
  check(clFlush(queue_()), "clFlush");
}

}  // namespace dlprim
