// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/dtype.hpp>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>

struct _cl_mem;

namespace dlprim {

/// Device memory: an OpenCL buffer and an offset in bytes into it. Not owning; a null buffer stands for "no memory".
struct BufferRef {
  ::_cl_mem* memory = nullptr;
  std::size_t offset = 0;
};

inline constexpr int max_dims = 16;

/// A strided view of device memory, not owning: what every primitive takes. Strides are in elements and may be 0
/// (broadcast); `data` points at the element of index 0.
struct TensorView {
  BufferRef data;
  DataType dtype = DataType::float32;
  int dims = 0;
  std::array<std::int64_t, max_dims> sizes{};
  std::array<std::int64_t, max_dims> strides{};

  TensorView() = default;
  /// A contiguous (row-major) view.
  TensorView(BufferRef data, DataType dtype, std::span<const std::int64_t> sizes);
  TensorView(BufferRef data, DataType dtype, std::initializer_list<std::int64_t> sizes)
      : TensorView(data, dtype, std::span<const std::int64_t>(sizes.begin(), sizes.size())) {}
  /// A strided view; sizes and strides have equal length, at most max_dims (ValidationError otherwise).
  TensorView(BufferRef data, DataType dtype, std::span<const std::int64_t> sizes,
             std::span<const std::int64_t> strides);

  bool defined() const noexcept { return data.memory != nullptr; }
  std::int64_t numel() const noexcept;
  bool is_contiguous() const noexcept;  ///< row-major without gaps
  bool is_channels_last() const noexcept;  ///< N, spatial..., C order without gaps (3 to 5 dims)
  std::int64_t size(int dim) const noexcept { return sizes[dim < 0 ? dim + dims : dim]; }
  std::int64_t stride(int dim) const noexcept { return strides[dim < 0 ? dim + dims : dim]; }
  std::span<const std::int64_t> shape() const noexcept { return {sizes.data(), std::size_t(dims)}; }
  /// The same memory with other sizes, row-major. Only for contiguous views of equal numel.
  TensorView reshaped(std::initializer_list<std::int64_t> new_sizes) const;
  /// Index `start` .. of dimension `dim`, `length` long.
  TensorView narrowed(int dim, std::int64_t start, std::int64_t length) const noexcept;
};

}  // namespace dlprim
