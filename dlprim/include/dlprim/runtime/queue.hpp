// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/device.hpp>
#include <dlprim/tensor_view.hpp>

#include <atomic>
#include <mutex>

namespace dlprim {

/// A point in a queue's work, reached once everything enqueued before it has run.
class Event {
 public:
  Event() = default;
  explicit Event(cl::Event event) : event_(std::move(event)) {}
  explicit operator bool() const noexcept { return event_.get() != nullptr; }
  bool reached() const;
  void wait() const;  ///< blocks the host
  /// Nanoseconds of the device's clock at which the event was reached; waits for it.
  std::uint64_t nanoseconds() const;
  cl_event get() const noexcept { return event_.get(); }

 private:
  cl::Event event_;
};

/// An in-order queue of a device: a stream. Everything is asynchronous unless it says "blocking".
class Queue {
 public:
  Queue(Device& device, std::int64_t id);
  Device& device() const noexcept { return device_; }
  std::int64_t id() const noexcept { return id_; }
  cl_command_queue get() const noexcept { return queue_(); }

  Event record();  ///< a marker after all work so far
  void wait(const Event& event);  ///< later work of this queue starts after the event
  void flush();  ///< hands the work to the device without waiting for it
  bool idle();  ///< everything enqueued has run
  /// Blocks until everything has run; throws IndexError and others that checked kernels reported.
  void finish();

  /// Calls `hook` before write() or read() blocks the host, with what blocks; it may throw. Null: no hook. For finding
  /// where a program waits.
  static void on_blocking(void (*hook)(const char* what)) noexcept;

  void write(BufferRef to, const void* from, std::size_t bytes, bool blocking);
  void read(void* to, BufferRef from, std::size_t bytes, bool blocking);
  void copy(BufferRef to, BufferRef from, std::size_t bytes);
  /// Fills with a repeated pattern of 1, 2, 4, 8 or 16 bytes.
  void fill(BufferRef to, const void* pattern, std::size_t pattern_bytes, std::size_t bytes);

  /// Called after every enqueue: flushes now and then, so that the device works while the host goes on.
  void enqueued();

 private:
  Device& device_;
  std::int64_t id_;
  cl::CommandQueue queue_;
  std::atomic<unsigned> unflushed_{0};
  std::atomic<bool> busy_{false};  // something was enqueued since marker_
  std::mutex marker_mutex_;
  Event marker_;
};

}  // namespace dlprim
