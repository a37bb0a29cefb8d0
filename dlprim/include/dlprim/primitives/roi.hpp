// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/queue.hpp>
#include <dlprim/tensor_view.hpp>

namespace dlprim {

/// How regions of images become tensors of a fixed size.
struct RegionPooling {
  enum Kind : std::uint8_t {
    mean,     ///< the mean of bilinear samples in each bin (RoIAlign)
    largest,  ///< the largest weighted element that these samples read
    pool,     ///< the largest element of each bin, with coordinates rounded (RoIPool); 0 for an empty bin
  };
  Kind kind = mean;
  float scale = 1;      ///< from the boxes' coordinates to the image's
  int sampling = 0;     ///< samples along each axis of a bin; 0: as many as the bin has elements
  bool aligned = true;  ///< elements are centred at half coordinates, and small regions stay small
};

/// out [regions, C, height, width] from in [N, C, H, W]. `boxes` holds x1, y1, x2, y2 in each of its rows, for `pool`
/// with the image's number before them; other kinds read that from `batches` (int64 [regions]). All contiguous, of one
/// floating dtype. A number outside 0 ... N-1 is reported at the next synchronization (IndexError). Throws
/// ValidationError.
void region_pool(Queue& queue, const TensorView& in, const TensorView& boxes, const TensorView& batches,
                 const TensorView& out, const RegionPooling& how);
/// Adds the image's gradient to `grad_in` (float32, or float64 for float64 images; zeroed by the caller) with atomics.
void region_pool_backward(Queue& queue, const TensorView& grad_out, const TensorView& in, const TensorView& boxes,
                          const TensorView& batches, const TensorView& grad_in, const RegionPooling& how);

}  // namespace dlprim
