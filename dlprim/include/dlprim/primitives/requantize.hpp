// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/queue.hpp>

#include <optional>

namespace dlprim {

/// Bytes of numbers: y = saturate(rint(x / scale) + zero) or, with a second x, of the sum of both times their factors,
/// and an offset, in place of the quotient. Ties go to even; NaN gives some byte.
struct Requantize {
  float scale = 1;  ///< of one x
  float factors[2]{1, 1}, offset = 0;  ///< of two
  float zero = 0;  ///< within the limits of y's type
  BufferRef scale_memory{}, zero_memory{};  ///< instead of scale and zero: float32 and y's type, on the device
};

/// Whether requantize takes these on the device: on CPUs tensors that lie alike, in one block without gaps; the second
/// x may be a vector along the last dimension of row-major ones.
bool can_requantize(const Device& device, std::span<const TensorView> x, const TensorView& y);

/// x: one or two tensors of float32, uint8 or int8; y uint8 or int8 of their sizes. Throws ValidationError for others,
/// and where can_requantize does not hold.
void requantize(Queue& queue, std::span<const TensorView> x, const TensorView& y, const Requantize& options);

}  // namespace dlprim
