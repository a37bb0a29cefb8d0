// SPDX-License-Identifier: MIT
// Blocks of packed weights as GGUF files have them, taken apart on the host.
#pragma once
#include <cstddef>
#include <cstdint>

#include "tensors.hpp"

namespace dlprim {

/// How the device holds weights of a type: numbers q of `bits`, and for each `group` of them a scale s and perhaps a
/// number z: a weight is s (q - middle) + z. With a `table` q names one of its 16 numbers, which takes its place.
struct PackedLayout {
  int bits, group, middle;
  bool zeros;
  const float* table = nullptr;
};
/// Null for types whose weights are numbers.
const PackedLayout* packed_layout(WeightType type) noexcept;

/// Takes `blocks` blocks apart. `data` gets the numbers (two of four bits in a byte, the first in the low bits, those of a
/// table in the high ones), `scales` and `zeros` one element for each group.
void unpack_blocks(WeightType type, const std::byte* from, std::int64_t blocks, std::uint8_t* data, float* scales,
                   float* zeros);

float half_to_float(std::uint16_t half) noexcept;
std::uint16_t float_to_half(float value) noexcept;  ///< to nearest, ties to even

}  // namespace dlprim
