// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/error.hpp>

#include <cstdint>
#include <limits>
#include <string>

namespace dlprim {

/// `value` in the 32 bits that kernels have for it. Throws ValidationError "[op] expected `what` below 2^31, got ...".
inline std::int32_t narrow(const char* op, const char* what, std::int64_t value) {
  if (value > std::numeric_limits<std::int32_t>::max() || value < std::numeric_limits<std::int32_t>::min())
    throw ValidationError(std::string("[") + op + "] expected " + what + " below 2^31, got " + std::to_string(value));
  return std::int32_t(value);
}

}  // namespace dlprim
