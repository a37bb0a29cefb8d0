// SPDX-License-Identifier: MIT
#pragma once
#include <atomic>

namespace dlprim {

/// Wishes of the program that primitives may read at any time.
struct Settings {
  /// Tiles of a product or convolution are timed at its first use and the fastest is kept, on disk, too. The device is
  /// waited for then.
  std::atomic<bool> benchmark{false};
  /// Operands of float32 products and convolutions may be rounded to tf32 (10 bits of mantissa) where that is faster.
  std::atomic<bool> tf32{false};
  /// Families with forms for GPUs take these on CPUs, too (for tests).
  std::atomic<bool> gpu_forms{false};
};

inline Settings settings;

}  // namespace dlprim
