// SPDX-License-Identifier: MIT
// What became of what a gate stood for, and what a queue has yet to hear of.
#pragma once
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <vector>

namespace dlprim {

class GateOutcome {
 public:
  /// Whether this is the first call.
  bool close(std::exception_ptr error) noexcept {
    std::lock_guard guard(mutex_);
    if (known_) return false;
    error_ = std::move(error);
    return known_ = true;
  }
  bool is_known() const noexcept {
    std::lock_guard guard(mutex_);
    return known_;
  }
  std::exception_ptr error() const noexcept {
    std::lock_guard guard(mutex_);
    return error_;
  }

 private:
  mutable std::mutex mutex_;
  bool known_ = false;
  std::exception_ptr error_;
};

/// Of the gates that a queue has waited for.
class GateOutcomes {
 public:
  void add(std::shared_ptr<GateOutcome> outcome);
  /// Throws the first error of those that are open, and forgets them all.
  void check();

 private:
  std::atomic<bool> any_{false};
  std::mutex mutex_;
  std::vector<std::shared_ptr<GateOutcome>> waited_for_;
};

}  // namespace dlprim
