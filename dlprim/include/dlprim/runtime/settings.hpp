// SPDX-License-Identifier: MIT
#pragma once
#include <atomic>

namespace dlprim {

/// Wishes of the program that primitives may read at any time.
struct Settings {
  /// Tiles of a product or convolution are timed at its first use and the fastest is kept, on disk, too. The device is
  /// waited for then.
  std::atomic<bool> benchmark{false};
};

inline Settings settings;

}  // namespace dlprim
