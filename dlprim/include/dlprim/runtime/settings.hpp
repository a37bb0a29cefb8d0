// SPDX-License-Identifier: MIT
#pragma once
#include <atomic>
#include <cstdint>

namespace dlprim {

/// Wishes of the program that primitives may read at any time.
struct Settings {
  /// Tiles of a product or convolution are timed at its first use and the fastest is kept, on disk, too. The device is
  /// waited for then.
  std::atomic<bool> benchmark{false};
  /// Families with forms for GPUs take these on CPUs, too (for tests).
  std::atomic<bool> gpu_forms{false};
  /// The largest index that kernels of 32-bit indices take: beyond it, operations are cut in pieces or take kernels of
  /// 64-bit indices. DLPRIM_INDEX_LIMIT lowers it, so that small tensors are served as those of 2^31 elements are.
  std::atomic<std::int64_t> index_limit{default_index_limit()};

 private:
  static std::int64_t default_index_limit();
};

inline Settings settings;

}  // namespace dlprim
