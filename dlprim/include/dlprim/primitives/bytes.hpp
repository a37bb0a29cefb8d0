// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/dtype.hpp>

namespace dlprim {

/// Whether numbers of this type are what quantized tensors hold.
constexpr bool is_byte(DataType type) noexcept { return type == DataType::uint8 || type == DataType::int8; }
/// The lowest of such numbers; the highest is 255 above it.
constexpr int lowest_byte(DataType type) noexcept { return type == DataType::int8 ? -128 : 0; }

}  // namespace dlprim
