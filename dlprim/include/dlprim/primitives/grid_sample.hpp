// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/queue.hpp>
#include <dlprim/tensor_view.hpp>

namespace dlprim {

/// How images are read between and beyond their elements; values as PyTorch numbers them.
struct GridSampling {
  enum Mode : std::uint8_t { bilinear, nearest, cubic };
  enum Padding : std::uint8_t { zeros, border, reflection };
  Mode mode = bilinear;
  Padding padding = zeros;
  bool align_corners = false;
};

/// Reads `in` (N, C, H, W) or (N, C, D, H, W) at the positions of `grid` (N, out spatial..., 2 or 3), which hold x, y,
/// z in -1 ... 1, into `out` (N, C, out spatial...). One floating dtype, any strides; cubic for two axes only. Throws
/// ValidationError for other shapes.
void grid_sample(Queue& queue, const TensorView& in, const TensorView& grid, const TensorView& out,
                 const GridSampling& how);

/// Gradients. Adds to `grad_in` (float32, or float64 for float64 images; zeroed by the caller) with atomics, and writes
/// `grad_grid` (contiguous, the image's dtype). Either may be undefined.
void grid_sample_backward(Queue& queue, const TensorView& grad_out, const TensorView& in, const TensorView& grid,
                          const TensorView& grad_in, const TensorView& grad_grid, const GridSampling& how);

}  // namespace dlprim
