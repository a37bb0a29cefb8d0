// SPDX-License-Identifier: MIT
// When PyTorch's engine for backward passes starts its threads.
#pragma once
#include <atomic>

namespace pytorch_ocl {

namespace backward {
extern std::atomic<bool> hides_devices, has_threads;
void start_threads();

/// Returns when each of these threads has left what it was given before behind: Python objects too, for which it needs
/// the interpreter. Not to be called with the interpreter's lock held.
void finish_threads();
}  // namespace backward

/// Starts the threads that run backward passes on devices. To be called where autograd first asks for a stream.
inline void start_backward_threads() {
  if (!backward::has_threads.load(std::memory_order_relaxed)) backward::start_threads();
}

}  // namespace pytorch_ocl
