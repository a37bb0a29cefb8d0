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
    position_mean,  ///< as `mean`, aligned, each bin from channels of its own (position-sensitive RoIAlign)
    position_pool,  ///< the mean of each bin, with coordinates rounded, from channels of its own (R-FCN); 0 for no element
  };
  Kind kind = mean;
  double scale = 1;  ///< from the boxes' coordinates to the image's
  int sampling = 0;  ///< samples along each axis of a bin; 0: as many as the bin has elements
  bool aligned = true;  ///< elements are centred at half coordinates, and small regions stay small
  const char* missing = "[region_pool] image %lld does not exist";  ///< the error's text, which must outlive the queue
};

/// out [regions, C, height, width] from in [N, C, H, W]; for the position-sensitive kinds from in
/// [N, C * height * width, H, W], where bin (c, y, x) reads channel (c * height + y) * width + x. `boxes` [regions, 5]
/// holds the image's number, x1, y1, x2, y2 in each of its rows; or, for `mean` and `largest`, it is [regions, 4] without
/// the number, which is read from `batches` (int64 [regions]). `places` (int32, of out's shape; only for `pool`, and
/// optional) receives y * W + x of the largest elements, -1 for an empty bin. All contiguous, of one floating dtype. A
/// number outside 0 ... N-1 is reported at the next synchronization (IndexError). Throws ValidationError.
void region_pool(Queue& queue, const TensorView& in, const TensorView& boxes, const TensorView& batches,
                 const TensorView& out, const RegionPooling& how, const TensorView& places = {});
/// Adds the image's gradient to `grad_in` (float32, or float64 for float64 images; zeroed by the caller) with atomics.
void region_pool_backward(Queue& queue, const TensorView& grad_out, const TensorView& in, const TensorView& boxes,
                          const TensorView& batches, const TensorView& grad_in, const RegionPooling& how);

}  // namespace dlprim
