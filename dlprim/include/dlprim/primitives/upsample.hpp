// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/queue.hpp>
#include <dlprim/tensor_view.hpp>

namespace dlprim {

/// How resample reads its input. Cubic is Keys' kernel (a = -0.75, or -0.5 with antialias).
enum class ResampleMode : std::uint8_t { nearest, nearest_exact, linear, cubic, lanczos };

struct Resampling {
  ResampleMode mode = ResampleMode::nearest;
  bool align_corners = false;  ///< linear and cubic
  bool antialias = false;  ///< linear, cubic and lanczos (always): the filter widens when the image shrinks
  /// Inputs an output along d, h, w, aligned at the end; 0: from the sizes.
  std::array<double, 3> scale{};
};

/// Resizes the spatial axes of (N, C, spatial...) tensors of 3 to 5 dims, any strides, one real dtype (nearest: any).
/// Throws ValidationError on mismatching dtype, dims, batch or channels.
void resample(Queue& queue, const TensorView& in, const TensorView& out, const Resampling& how);
/// Gradient of resample, written to all of `grad_in`.
void resample_backward(Queue& queue, const TensorView& grad_out, const TensorView& grad_in, const Resampling& how);

}  // namespace dlprim
