// SPDX-License-Identifier: MIT
#pragma once
#include <atomic>
#include <memory>

namespace torch {
struct CapturedTraceback;
}

namespace pytorch_ocl {

/// Has what allocators do in the calling thread attributed to the stack at this point, while it lives. Stacks are read
/// here, before an allocator is locked, as that takes the interpreter's lock. Costs one load where nothing is recorded.
class MemoryContext {
 public:
  explicit MemoryContext(bool releases = false) {
    if (recording.load(std::memory_order_relaxed)) enter(releases);
  }
  ~MemoryContext() {
    if (entered_) leave();
  }
  MemoryContext(const MemoryContext&) = delete;

  static std::atomic<bool> recording;

 private:
  void enter(bool releases);
  void leave() noexcept;
  bool entered_ = false;
  std::shared_ptr<torch::CapturedTraceback> former_;
};

}  // namespace pytorch_ocl
