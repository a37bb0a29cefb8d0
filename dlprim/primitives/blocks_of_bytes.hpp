// SPDX-License-Identifier: MIT
// What tensors of bytes that kernels run through as one block must be.
#pragma once
#include <dlprim/primitives/bytes.hpp>
#include <dlprim/tensor_view.hpp>

#include <algorithm>

namespace dlprim {

/// Whether the elements fill a block of memory, in any order of the dimensions.
inline bool fills_block(const TensorView& t) {
  std::int64_t reach = 1;
  for (int i = 0; i < t.dims; i++) {
    if (t.stride(i) < 0 || (t.size(i) > 1 && t.stride(i) == 0)) return false;
    reach += (t.size(i) - 1) * t.stride(i);
  }
  return t.numel() == 0 || reach == t.numel();
}

/// Whether both have the same sizes, and elements at the same places.
inline bool lies_like(const TensorView& a, const TensorView& b) {
  if (!std::ranges::equal(a.shape(), b.shape())) return false;
  for (int i = 0; i < a.dims; i++)
    if (a.size(i) > 1 && a.stride(i) != b.stride(i)) return false;
  return true;
}

}  // namespace dlprim
