// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <bit>
#include <cstddef>

namespace dlprim {

/// The OpenCL C type of a word of so many bytes, a power of 2 up to 64, in which elements of any dtype are moved.
/// Throws std::out_of_range for others.
inline const char* word_type(std::size_t bytes) {
  constexpr std::array types{"uchar", "ushort", "uint", "uint2", "uint4", "uint8", "uint16"};
  return types.at(std::size_t(std::bit_width(bytes)) - 1);
}

}  // namespace dlprim
