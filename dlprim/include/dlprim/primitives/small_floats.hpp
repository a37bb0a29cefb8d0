// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/queue.hpp>

#include <optional>
#include <string_view>

namespace dlprim {

/// Floating numbers of 8 bits, which tensors of uint8 hold: s exponent mantissa (e8m0fnu: an exponent alone). "fn" has no
/// infinities, "uz" neither these nor a negative zero, whose place is the only NaN's.
enum class SmallFloat : std::uint8_t { e4m3fn, e5m2, e4m3fnuz, e5m2fnuz, e4m3fn_saturating, e8m0fnu };

/// Converts elements, broadcasting `from` to the shape of `to`, strides as they are. `from_kind` and `to_kind` say what
/// the bytes of a uint8 operand stand for. By way of float32, as PyTorch does: rounded to nearest even (e8m0fnu: half
/// upward), what is too large becomes NaN or, in e5m2, infinite, or the largest
/// number where the name says so. Throws ValidationError.
void convert(Queue& queue, const TensorView& to, std::optional<SmallFloat> to_kind, const TensorView& from,
             std::optional<SmallFloat> from_kind);

}  // namespace dlprim
