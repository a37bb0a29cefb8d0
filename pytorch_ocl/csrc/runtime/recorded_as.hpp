// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/queue.hpp>

namespace pytorch_ocl {

/// While this lives, the events of PyTorch that this thread records are `event`, whatever the stream: for futures of
/// work that no stream does.
class RecordedAs {
 public:
  explicit RecordedAs(const dlprim::Event& event) noexcept : former_(current_) { current_ = &event; }
  ~RecordedAs() { current_ = former_; }
  RecordedAs(const RecordedAs&) = delete;
  /// Null where events are recorded on their streams.
  static const dlprim::Event* current() noexcept { return current_; }

 private:
  static inline thread_local const dlprim::Event* current_ = nullptr;
  const dlprim::Event* former_;
};

}  // namespace pytorch_ocl
