// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/queue.hpp>

namespace dlprim {

/// Holds queues back that wait for its event, until a thread of the host opens it: what a queue waits for need not be
/// on a device. The host waits for nothing. Thread-safe.
class Gate {
 public:
  explicit Gate(Device& device);
  /// One that opens when `event` is reached; open() only says what came of it, where there is an error before that.
  explicit Gate(const Event& event);
  /// Opens it.
  ~Gate();
  Gate(const Gate&) = delete;

  const Event& event() const noexcept { return event_; }
  bool opens_itself() const noexcept { return opens_itself_; }
  /// Lets the queues go on. Where there is an error, each queue that waited throws it once, when the host next waits for
  /// that queue: in finish(), or a blocking copy. Later calls do nothing.
  void open(std::exception_ptr error = nullptr) noexcept;

 private:
  std::shared_ptr<GateOutcome> outcome_;
  Event event_;
  bool opens_itself_ = false;
};

}  // namespace dlprim
