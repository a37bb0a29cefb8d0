// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/queue.hpp>

#include <array>

namespace dlprim {

enum class PadMode : std::uint8_t { reflect, replicate };

/// out[n, z, y, x] = in at the coordinates less `before` (of z, y, x; negative cuts off), reflected at or clamped to
/// the border. Contiguous, [batch, depth, height, width], equal dtypes (any).
void pad(Queue& queue, const TensorView& out, const TensorView& in, std::array<std::int64_t, 3> before, PadMode mode);
/// Sum of `grad_out` over the elements that `pad` makes from each element of its input; floating or complex dtypes.
void pad_backward(Queue& queue, const TensorView& grad_in, const TensorView& grad_out,
                  std::array<std::int64_t, 3> before, PadMode mode);

/// Sliding windows over height and width.
struct Windows {
  std::array<std::int64_t, 2> kernel, stride{1, 1}, padding{0, 0}, dilation{1, 1};
};

/// columns[b, ky, kx, wy, wx] = image[b, wy * stride + ky * dilation - padding, ...], 0 outside the image. Contiguous,
/// image [batch, height, width], equal dtypes (any).
void unfold(Queue& queue, const TensorView& columns, const TensorView& image, const Windows& windows);
/// Sum of the columns over all windows that show an element; floating or complex dtypes.
void fold(Queue& queue, const TensorView& image, const TensorView& columns, const Windows& windows);

}  // namespace dlprim
