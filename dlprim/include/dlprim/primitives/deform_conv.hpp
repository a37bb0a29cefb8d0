// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/queue.hpp>
#include <dlprim/tensor_view.hpp>

namespace dlprim {

/// How a deformable convolution walks: rows, then columns.
struct Deformation {
  std::int64_t kernel[2] = {1, 1}, stride[2] = {1, 1}, pad[2] = {0, 0}, dilation[2] = {1, 1};
};

/// The tensors of a deformable convolution, contiguous and of one floating dtype.
struct DeformedImage {
  TensorView in;      ///< [N, C, H, W]
  TensorView
      shifts;  ///< [N, groups * kh * kw * 2, oh, ow]: rows, then columns added to each position; groups divides C
  TensorView mask;  ///< [N, groups * kh * kw, oh, ow], factors; or undefined
};

/// columns [N, C * kh * kw, oh * ow] (contiguous, the image's dtype): what a convolution multiplies with its weights,
/// read bilinearly, with zeros outside of the image. Throws ValidationError.
void deformed_columns(Queue& queue, const DeformedImage& image, const TensorView& columns, const Deformation& how);

/// Gradients from that of the columns: adds to `grad_in` (float32, or float64 for float64 images; zeroed by the caller)
/// with atomics, and writes `grad_shifts` and, where there is a mask, `grad_mask` (contiguous, as the shifts and mask).
void deformed_columns_backward(Queue& queue, const TensorView& grad_columns, const DeformedImage& image,
                               const TensorView& grad_in, const TensorView& grad_shifts, const TensorView& grad_mask,
                               const Deformation& how);

}  // namespace dlprim
