// SPDX-License-Identifier: MIT
// How a work-group transforms lines of one length, and how longer lines are taken apart.
#pragma once
#include <dlprim/runtime/device.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

namespace dlprim::fft_detail {

/// A kernel's work: `lanes` work-items share a line, `lines` lines a group.
struct PassShape {
  std::uint32_t length = 1;
  std::uint16_t lanes = 1, lines = 1;
  std::uint16_t items = 1;  ///< numbers that a work-item keeps
  bool split = false;       ///< parts are exchanged one after the other, in half the local memory
  int stages = 0;
  std::array<std::uint8_t, 16> radices{};
};

/// What a pass needs beyond a length.
struct PassNeeds {
  bool doubles = false;
  bool columns = false;  ///< neighbouring work-items take neighbouring lines
  bool whole = false;    ///< local memory must hold whole complex numbers
  bool mixed = false;    ///< neighbouring work-items take neighbouring numbers of a line at one end of the pass
  bool chirped = false;  ///< numbers are multiplied by Bluestein's factors, which take registers, too
};

/// The shape of a pass, or nothing where a length has prime factors above 13 or a group cannot hold enough lines.
std::optional<PassShape> pass_shape(const Device& device, std::uint32_t length, const PassNeeds& needs);

/// The length of the first part of a line that is split in two, such that a group can hold its columns. Throws
/// NotImplementedError where there is none.
std::uint32_t first_part(const Device& device, std::uint32_t length, bool doubles, bool chirped);

/// Whether all prime factors are 13 at most.
bool is_smooth(std::uint64_t length);

/// The least length from `least` on that Bluestein's convolution takes.
std::uint64_t padded_length(std::uint64_t least);

/// Numbers of local memory for `count` of them, one free after every `pad`.
inline std::size_t padded(std::size_t count, std::size_t pad) { return count + (count - 1) / pad; }
/// The same for `lines` of them, which neighbouring work-items read at once without meeting the same banks.
inline std::size_t padded_row(std::size_t length, std::size_t lines, std::size_t pad) {
  const std::size_t row = padded(length, pad), offset = std::max<std::size_t>(1, pad / lines);
  return row + (offset + pad - row % pad) % pad;
}
/// After how many numbers of `bytes` one is free, so that work-items with strides of powers of two meet other banks.
inline std::size_t padding(std::size_t bytes) { return 128 / bytes; }

}  // namespace dlprim::fft_detail
