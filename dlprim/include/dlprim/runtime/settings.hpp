// SPDX-License-Identifier: MIT
#pragma once
#include <atomic>

namespace dlprim {

/// Wishes of the program that primitives may read at any time.
struct Settings {
  std::atomic<bool> benchmark{false};  ///< candidates may be timed at their first use, for the fastest to be taken
};

inline Settings settings;

}  // namespace dlprim
