// SPDX-License-Identifier: MIT
#include "checked.hpp"

#include <dlprim/error.hpp>

#include <limits>

namespace dlprim {

namespace {

using Limits = std::numeric_limits<std::int64_t>;

[[noreturn]] void overflow(std::int64_t a, const char* operation, std::int64_t b) {
  throw ValidationError(std::to_string(a) + operation + std::to_string(b) + " is out of range");
}

}  // namespace

std::int64_t checked_add(std::int64_t a, std::int64_t b) {
  if (b > 0 ? a > Limits::max() - b : a < Limits::min() - b) overflow(a, " + ", b);
  return a + b;
}

std::int64_t checked_subtract(std::int64_t a, std::int64_t b) {
  if (b > 0 ? a < Limits::min() + b : a > Limits::max() + b) overflow(a, " - ", b);
  return a - b;
}

std::int64_t checked_multiply(std::int64_t a, std::int64_t b) {
  const bool fits = a == 0 || b == 0 ? true
                    : a > 0          ? (b > 0 ? a <= Limits::max() / b : b >= Limits::min() / a)
                                     : (b > 0 ? a >= Limits::min() / b : b >= Limits::max() / a);
  if (!fits) overflow(a, " * ", b);
  return a * b;
}

std::int64_t checked_product(std::span<const std::int64_t> factors) {
  std::int64_t result = 1;
  for (std::int64_t factor : factors) result = checked_multiply(result, factor);
  return result;
}

std::int64_t checked_range(std::int64_t value, std::int64_t least, std::int64_t most, const char* what) {
  if (value < least || value > most)
    throw ValidationError(std::string("expected ") + what + " of " + std::to_string(least) + " to " +
                          std::to_string(most) + ", got " + std::to_string(value));
  return value;
}

int checked_int(std::int64_t value, const char* what) {
  return int(checked_range(value, std::numeric_limits<int>::min(), std::numeric_limits<int>::max(), what));
}

std::int64_t checked_whole(double value, const char* what) {
  constexpr double limit = 9223372036854775808.0;  // 2^63
  if (!(value >= -limit && value < limit))
    throw ValidationError(std::string("expected ") + what + " that is a number in range, got " + std::to_string(value));
  return std::int64_t(value);
}

std::size_t host_elements(std::int64_t count, const char* what) {
  return std::size_t(checked_range(count, 0, std::int64_t(1) << 26, what));
}

Budget::Budget(std::uint64_t file_bytes) noexcept {
  constexpr std::uint64_t base = std::uint64_t(256) << 20, factor = 64;
  total_ = rest_ = file_bytes > (std::numeric_limits<std::uint64_t>::max() - base) / factor
                       ? std::numeric_limits<std::uint64_t>::max()
                       : base + factor * file_bytes;
}

void Budget::spend(std::uint64_t bytes, const std::string& what) {
  if (bytes > rest_)
    throw ValidationError(what + " asks for " + std::to_string(bytes) + " bytes more than the " +
                          std::to_string(total_) + " that a file of this size may take");
  rest_ -= bytes;
}

}  // namespace dlprim
