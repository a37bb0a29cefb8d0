// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/queue.hpp>

namespace dlprim {

/// A queue on which a network's work is enqueued, in order. Copies name the same queue.
class ExecutionContext {
 public:
  explicit ExecutionContext(Queue& queue) : queue_(&queue) {}
  Queue& queue() const noexcept { return *queue_; }
  /// Blocks until everything has run. Throws what checked kernels reported (IndexError).
  void finish() const { queue_->finish(); }

 private:
  Queue* queue_;
};

/// The device that a network lives on. Copies name the same device.
class Context {
 public:
  /// The first device (see Device for their order).
  Context();
  /// "platform:device" in the loader's numbering, the index of a device, "cpu" or "gpu" for the first of that kind, or
  /// a part of the platform's or device's name. Throws ValidationError that lists the devices.
  explicit Context(const std::string& name);
  explicit Context(Device& device) : device_(&device) {}

  Device& device() const noexcept { return *device_; }
  /// "device on platform"
  std::string name() const;
  /// The device's default queue.
  ExecutionContext make_execution_context() const { return ExecutionContext(device_->default_queue()); }

 private:
  Device* device_;
};

}  // namespace dlprim
