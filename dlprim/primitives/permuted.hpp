// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/tensor_view.hpp>

namespace dlprim {

/// The view with its dimensions in the given order.
inline TensorView permuted(const TensorView& view, std::span<const int> order) {
  TensorView result = view;
  for (int d = 0; d < view.dims; d++)
    result.sizes[d] = view.sizes[order[d]], result.strides[d] = view.strides[order[d]];
  return result;
}

}  // namespace dlprim
