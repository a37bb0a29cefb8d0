// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/settings.hpp>

namespace dlprim::testing {

/// Switches one of `settings` on for a scope.
class Setting {
 public:
  explicit Setting(std::atomic<bool>& wish) : wish_(wish) { wish_ = true; }
  ~Setting() { wish_ = false; }
  Setting(const Setting&) = delete;

 private:
  std::atomic<bool>& wish_;
};

}  // namespace dlprim::testing
