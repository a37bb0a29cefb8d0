// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

namespace dlprim {

/// Division by a fixed number without a division instruction, for dividends below 2^31:
/// n / divisor = ((n * multiplier >> 32) + n) >> shift (Granlund and Montgomery, Division by Invariant Integers using
/// Multiplication, 1994). The layout is that of Divider in kernels/lib/indexing.clh. Divisors are 1 .. 2^31 - 1.
struct Divider {
  std::uint32_t divisor = 1, multiplier = 1, shift = 0;
  constexpr Divider() = default;
  explicit constexpr Divider(std::uint32_t d) noexcept : divisor(d) {
    while (shift < 32 && (std::uint64_t(1) << shift) < d) shift++;
    multiplier = std::uint32_t((((std::uint64_t(1) << shift) - d) << 32) / d + 1);
  }
  constexpr std::uint32_t divide(std::uint32_t n) const noexcept {
    return std::uint32_t(((std::uint64_t(n) * multiplier >> 32) + n) >> shift);
  }
};

}  // namespace dlprim
