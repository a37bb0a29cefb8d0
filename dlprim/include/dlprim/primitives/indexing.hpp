// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

namespace dlprim {

/// Division by a fixed number without a division instruction, for dividends below 2^31 (Granlund and Montgomery 1994);
/// the layout is that of Divider in kernels/lib/indexing.clh. Divisors are 1 .. 2^31 - 1.
struct Divider {
  std::uint32_t divisor = 1, multiplier = 1, shift = 0;
  Divider() = default;
  explicit Divider(std::uint32_t d) noexcept : divisor(d) {
    while (shift < 32 && (std::uint64_t(1) << shift) < d) shift++;
    multiplier = std::uint32_t((((std::uint64_t(1) << shift) - d) << 32) / d + 1);
  }
  std::uint32_t divide(std::uint32_t n) const noexcept {
    return std::uint32_t(((std::uint64_t(n) * multiplier >> 32) + n) >> shift);
  }
};

}  // namespace dlprim
