// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/queue.hpp>
#include <dlprim/tensor_view.hpp>

namespace dlprim {

/// Windows of a pooling over 1 to 3 spatial axes; arrays hold d, h, w, aligned at the end (one axis uses w alone).
struct PoolWindow {
  enum Kind : std::uint8_t {
    sliding,  ///< kernel, stride, pad, dilation
    adaptive,  ///< output o covers inputs floor(o I/O) ... ceil((o+1) I/O) - 1
    fractional,  ///< kernel alone; positions come from random numbers (Graham 2014)
  };
  Kind kind = sliding;
  std::array<int, 3> kernel{1, 1, 1}, stride{1, 1, 1}, pad{0, 0, 0}, dilation{1, 1, 1};
  bool count_include_pad = true;  ///< averages count padding
  int divisor = 0;  ///< averages divide by it when it is not 0
};

/// All tensors are (N, C, spatial...) of 3 to 5 dims and any strides; inputs and gradients are of one real dtype.
/// Sizes of the results are the caller's choice: a window that starts beyond the input is never asked for.
/// Throws ValidationError on mismatching dtypes, dims, batch or channels.

/// Maximum (NaN wins) and, when `indices` (int64) is defined, its position within the spatial volume of its channel.
/// `samples` (N, C, axes), numbers in [0, 1), for fractional windows only.
void max_pool(Queue& queue, const TensorView& in, const TensorView& out, const TensorView& indices,
              const PoolWindow& window, const TensorView& samples = {});
/// Gradient of max_pool for the same window.
void max_pool_backward(Queue& queue, const TensorView& grad_out, const TensorView& indices, const TensorView& grad_in,
                       const PoolWindow& window);
void average_pool(Queue& queue, const TensorView& in, const TensorView& out, const PoolWindow& window);
void average_pool_backward(Queue& queue, const TensorView& grad_out, const TensorView& grad_in,
                           const PoolWindow& window);
/// Puts every element of `in` at its index in `out`; the rest of `out` is left alone. An index outside `out` is
/// reported at the next synchronization (IndexError).
void max_unpool(Queue& queue, const TensorView& in, const TensorView& indices, const TensorView& out);

}  // namespace dlprim
