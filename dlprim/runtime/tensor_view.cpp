// SPDX-License-Identifier: MIT
#include <dlprim/error.hpp>
#include <dlprim/tensor_view.hpp>

#include <algorithm>
#include <string>

namespace dlprim {

TensorView::TensorView(BufferRef data, DataType dtype, std::span<const std::int64_t> sizes,
                       std::span<const std::int64_t> strides)
    : data(data), dtype(dtype), dims(int(sizes.size())) {
  if (sizes.size() != strides.size() || sizes.size() > std::size_t(max_dims))
    throw ValidationError("[tensor] expected equally many sizes and strides, at most " + std::to_string(max_dims) +
                          ", got " + std::to_string(sizes.size()) + " and " + std::to_string(strides.size()));
  std::copy(sizes.begin(), sizes.end(), this->sizes.begin());
  std::copy(strides.begin(), strides.end(), this->strides.begin());
}

TensorView::TensorView(BufferRef data, DataType dtype, std::span<const std::int64_t> sizes)
    : TensorView(data, dtype, sizes, sizes) {
  std::int64_t stride = 1;
  for (int d = dims - 1; d >= 0; d--) {
    strides[d] = stride;
    stride *= std::max<std::int64_t>(this->sizes[d], 1);
  }
}

std::int64_t TensorView::numel() const noexcept {
  std::int64_t count = 1;
  for (int d = 0; d < dims; d++) count *= sizes[d];
  return count;
}

bool TensorView::is_contiguous() const noexcept {
  std::int64_t expected = 1;
  for (int d = dims - 1; d >= 0; d--) {
    if (sizes[d] != 1 && strides[d] != expected) return numel() == 0;
    expected *= sizes[d];
  }
  return true;
}

bool TensorView::is_channels_last() const noexcept {
  if (dims < 3 || dims > 5) return false;
  std::int64_t expected = 1;
  auto matches = [&](int d) {
    const bool ok = sizes[d] == 1 || strides[d] == expected;
    expected *= sizes[d];
    return ok;
  };
  if (!matches(1)) return false;
  for (int d = dims - 1; d >= 2; d--)
    if (!matches(d)) return false;
  return matches(0);
}

TensorView TensorView::reshaped(std::initializer_list<std::int64_t> new_sizes) const {
  TensorView result(data, dtype, new_sizes);
  if (!is_contiguous() || result.numel() != numel())
    throw ValidationError("[reshape] expected a contiguous tensor of " + std::to_string(result.numel()) +
                          " elements, got " + std::to_string(numel()));
  return result;
}

TensorView TensorView::narrowed(int dim, std::int64_t start, std::int64_t length) const noexcept {
  TensorView result = *this;
  result.data.offset += std::size_t(start * strides[dim]) * size_of(dtype);
  result.sizes[dim] = length;
  return result;
}

}  // namespace dlprim
