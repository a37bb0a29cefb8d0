// SPDX-License-Identifier: MIT
// Arithmetic on numbers that files give: what would overflow, or ask for more than fits, is a ValidationError.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace dlprim {

std::int64_t checked_add(std::int64_t a, std::int64_t b);
std::int64_t checked_subtract(std::int64_t a, std::int64_t b);
std::int64_t checked_multiply(std::int64_t a, std::int64_t b);
std::int64_t checked_product(std::span<const std::int64_t> factors);
/// The smallest integer not below a / b, for a of 0 or more and b above 0.
constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0); }
/// A number within [least, most]; the error calls it `what`.
std::int64_t checked_range(std::int64_t value, std::int64_t least, std::int64_t most, const char* what);
/// A number of type int.
int checked_int(std::int64_t value, const char* what);
/// A real number without its fraction; an error when it is NaN or does not fit.
std::int64_t checked_whole(double value, const char* what);
/// How many elements a list on the host may have that an operator makes from numbers: 2^26. Longer ones are data, which
/// belongs on the device. Gives `count`.
std::size_t host_elements(std::int64_t count, const char* what);

/// Bytes that reading a file may take: a small file may promise no more than 256 MiB and 64 times its own size.
class Budget {
 public:
  explicit Budget(std::uint64_t file_bytes) noexcept;
  /// Throws ValidationError, which begins with `what`, when nothing is left.
  void spend(std::uint64_t bytes, const std::string& what);

 private:
  std::uint64_t total_, rest_;
};

}  // namespace dlprim
