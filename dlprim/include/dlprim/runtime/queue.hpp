// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/backlog.hpp>
#include <dlprim/runtime/device.hpp>
#include <dlprim/runtime/submission.hpp>
#include <dlprim/tensor_view.hpp>

#include <atomic>
#include <memory>
#include <mutex>

namespace dlprim {

class Capture;
struct CaptureTie;
class DeferredEvent;
class QueueStatus;
class GateOutcome;
class DriverRoom;
class GateOutcomes;

/// A point in a queue's work, reached once everything enqueued before it has run. Where the queue was captured it orders
/// commands of that capture only, and other calls throw Error.
class Event {
 public:
  Event() = default;
  explicit Event(cl::Event event, std::shared_ptr<GateOutcome> outcome = nullptr)
      : event_(std::move(event)), outcome_(std::move(outcome)) {}
  explicit Event(std::shared_ptr<const DeferredEvent> deferred) : deferred_(std::move(deferred)) {}
  explicit Event(std::shared_ptr<CaptureTie> captured) : captured_(std::move(captured)) {}
  explicit operator bool() const noexcept { return deferred_ || captured_ || event_.get() != nullptr; }
  bool reached() const;
  void wait() const;  ///< blocks the host
  /// Nanoseconds of the device's clock at which the event was reached; waits for it.
  std::uint64_t nanoseconds() const;
  /// OpenCL's event, once it has reached the driver. Throws DeviceError where it cannot.
  cl_event get() const;
  /// OpenCL's context that it belongs to.
  cl_context context() const;
  /// The same event as a gate's.
  Event with(std::shared_ptr<GateOutcome> outcome) const {
    Event event = *this;
    event.outcome_ = std::move(outcome);
    return event;
  }
  /// Of a gate's event; else null.
  const std::shared_ptr<GateOutcome>& outcome() const noexcept { return outcome_; }
  /// Of an event in a capture; else null.
  const std::shared_ptr<CaptureTie>& captured() const noexcept { return captured_; }

 private:
  cl::Event event_;
  std::shared_ptr<const DeferredEvent> deferred_;  // instead of event_
  std::shared_ptr<CaptureTie> captured_;  // instead of both
  std::shared_ptr<GateOutcome> outcome_;
};

/// An in-order queue of a device: a stream. Everything is asynchronous unless it says "blocking", and errors of a command
/// that a Submission runs are thrown by a later call.
class Queue {
 public:
  Queue(Device& device, std::int64_t id);
  ~Queue();
  Device& device() const noexcept { return device_; }
  std::int64_t id() const noexcept { return id_; }
  /// OpenCL's queue, once everything enqueued so far has reached it.
  cl_command_queue get() { return submit(), queue_(); }
  /// OpenCL's queue, for those who run commands.
  cl_command_queue handle() const noexcept { return queue_(); }
  /// Null where commands go straight to the driver.
  Submission* submission() const noexcept { return submission_; }
  /// Returns when everything enqueued so far has reached the driver; throws its errors.
  void submit() {
    if (submission_) submission_->drain();
  }

  Event record();  ///< a marker after all work so far; the host waits for nothing
  Event mark_enqueued();  ///< record() after work that is not captured only
  /// Later work of this queue starts after the event. Where that belongs to a capture, the queue is captured from here
  /// on as well, and its commands are run in the order in which they were noted.
  void wait(const Event& event);
  void flush();  ///< hands the work to the device without waiting for it
  bool idle();  ///< everything enqueued has run
  /// Commands not known to have run, at most about Backlog::most.
  std::int64_t in_flight() const noexcept { return backlog_.in_flight(); }
  /// Where its kernels report errors that they find in data; made at first use.
  QueueStatus& status();
  /// uint[counters], 0 whenever a kernel begins, for kernels that count their groups: each leaves zeros. Made at first use;
  /// a capture has its own.
  BufferRef zeroed_counters();
  static constexpr std::int64_t counters = 4096;
  static cl::Buffer new_counters(Device& device);
  /// Blocks until everything has run; throws IndexError and others that checked kernels reported.
  void finish();

  /// Calls `hook` before write() or read() blocks the host, with what blocks; it may throw. Null: no hook. For finding
  /// where a program waits.
  static void on_blocking(void (*hook)(const char* what)) noexcept;
  static void before_blocking(const char* what);

  /// Copies from the host. Blocking: when it returns, `from` may be changed; the copy itself may still be on its way.
  void write(BufferRef to, const void* from, std::size_t bytes, bool blocking);
  /// Copies to the host. Blocking: when it returns, the bytes are there; throws what checked kernels reported.
  void read(void* to, BufferRef from, std::size_t bytes, bool blocking);
  /// Copies from another device, after the work of its queue so far and before this queue's later work. The host waits.
  void copy_from(Queue& source, BufferRef to, BufferRef from, std::size_t bytes);
  void copy(BufferRef to, BufferRef from, std::size_t bytes);
  /// Fills with a repeated pattern of 1, 2, 4, 8 or 16 bytes.
  void fill(BufferRef to, const void* pattern, std::size_t pattern_bytes, std::size_t bytes);

  /// What notes this queue's work instead of running it, or null. It may end at any time: CapturePin holds it.
  Capture* capture() const noexcept { return capture_.load(std::memory_order_acquire); }
  /// False where there is one already.
  bool begin_capture(Capture& capture) noexcept;
  /// Returns when no CapturePin holds it; does nothing where it has ended.
  void end_capture(Capture& capture) noexcept;
  /// Called before work that cannot be run again: throws where the queue is captured, ends what the thread records.
  void run_once(const char* what);

  /// Called before a command is handed over: waits while too much is in flight (see Backlog), for a few groups of
  /// commands at most, so that a program that is interrupted notices soon.
  void admit() {
    const std::int64_t number = count();
    if (backlog_.is_full(number)) await_room(number);
  }
  /// Called after every command that reached the driver: flushes now and then, so that the device works while the host
  /// goes on.
  void enqueued();
  /// Throws what checked kernels reported, and errors of gates; the queue must have been synchronized.
  void check_status();

 private:
  friend class CapturePin;
  template <class Command>
  void run(const Command& command);
  void wait_in_driver(const Event& event);
  // Counts a command; those that wait for no room are markers, which are few.
  std::int64_t count() {
    const std::int64_t number = backlog_.add();
    if (backlog_.wants_mark(number)) mark(number);
    return number;
  }
  void enqueued_marker();
  void flush_driver();
  void mark(std::int64_t number);
  void await_room(std::int64_t number);

  Device& device_;
  std::int64_t id_;
  Submission* submission_;
  cl::CommandQueue queue_;
  std::atomic<Capture*> capture_{nullptr};
  std::atomic<int> capture_pins_{0};
  Backlog backlog_;
  std::mutex room_mutex_;  // of the thread that waits for room
  alignas(64) std::atomic<unsigned> unflushed_{0};  // this and the next by who calls the driver
  std::atomic<bool> busy_{false};  // something was enqueued since marker_
  std::mutex marker_mutex_;
  Event marker_;
  std::unique_ptr<DriverRoom> room_;  // of NVIDIA's GPUs
  std::unique_ptr<GateOutcomes> gates_;
  std::once_flag status_once_;
  std::atomic<QueueStatus*> status_{nullptr};
  std::once_flag counters_once_;
  cl::Buffer counters_;
};

/// What captures a queue, which does not end while this lives: for short, as who ends it waits.
class CapturePin {
 public:
  explicit CapturePin(Queue& queue) noexcept : queue_(queue) {
    if (!queue.capture()) return;
    queue.capture_pins_++;
    capture_ = queue.capture_.load();
    if (!capture_) queue.capture_pins_--;
  }
  CapturePin(const CapturePin&) = delete;
  ~CapturePin() {
    if (capture_) queue_.capture_pins_--;
  }
  explicit operator bool() const noexcept { return capture_; }
  Capture* operator->() const noexcept { return capture_; }
  Capture* get() const noexcept { return capture_; }

 private:
  Queue& queue_;
  Capture* capture_ = nullptr;
};

}  // namespace dlprim
