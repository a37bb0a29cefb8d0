// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/dtype.hpp>
#include <dlprim/net/context.hpp>
#include <dlprim/net/shape.hpp>
#include <dlprim/tensor_view.hpp>

#include <cstddef>
#include <memory>
#include <ranges>

namespace dlprim {

/// The element type of a C++ number type.
template <class T>
constexpr DataType data_type_of();

/// Numbers of one type in device memory from the caching allocator. Copies share the memory, as do the views made of a
/// tensor. Small ones that come from the host (shapes, axes) reach the device only when a kernel needs them.
class Tensor {
 public:
  /// No tensor: defined() is false.
  Tensor() = default;
  /// Uninitialized memory. Throws ValidationError for negative sizes and OutOfMemoryError.
  Tensor(const Context& context, const Shape& shape, DataType dtype = DataType::float32);
  Tensor(Queue& queue, DataType dtype, const Shape& shape);
  /// Contiguous elements copied from the host.
  static Tensor from_host(DataType dtype, const Shape& shape, const void* elements);
  static Tensor from_integers(std::span<const std::int64_t> values);  ///< int64, one dimension

  /// The same elements in memory of another owner: `queue`'s device, or the host while they are few.
  Tensor clone(Queue& queue) const;

  bool defined() const noexcept { return storage_ != nullptr; }
  DataType dtype() const noexcept { return dtype_; }
  const Shape& shape() const noexcept { return shape_; }
  std::int64_t numel() const noexcept { return shape_.total_size(); }
  std::size_t bytes() const noexcept { return std::size_t(numel()) * size_of(dtype_); }

  /// Copies contiguous elements of the tensor's dtype. With `sync` false the host memory must stay until
  /// ExecutionContext::finish.
  void to_device(const ExecutionContext& context, const void* elements, bool sync = true);
  void to_host(const ExecutionContext& context, void* elements, bool sync = true) const;
  /// The same for a vector, array or span. Throws ValidationError when its type or length differs.
  template <std::ranges::contiguous_range R>
  void to_device(const ExecutionContext& context, const R& elements, bool sync = true) {
    check(data_type_of<std::ranges::range_value_t<R>>(), std::ranges::size(elements));
    to_device(context, static_cast<const void*>(std::ranges::data(elements)), sync);
  }
  template <std::ranges::contiguous_range R>
  void to_host(const ExecutionContext& context, R& elements, bool sync = true) const {
    check(data_type_of<std::ranges::range_value_t<R>>(), std::ranges::size(elements));
    to_host(context, static_cast<void*>(std::ranges::data(elements)), sync);
  }

  /// What primitives take; brings host elements to the device first.
  TensorView view(Queue& queue) const;
  /// The elements in row-major order, waiting for the device unless they are known on the host.
  std::vector<std::byte> read(Queue& queue) const;
  /// The same of a tensor that on_host(); ValidationError otherwise.
  std::vector<std::byte> host() const;
  /// Whether read() need not wait.
  bool on_host() const noexcept;
  /// Another view of the same memory: sizes, strides and the offset of its first element, in elements. Throws
  /// ValidationError for views that reach beyond the memory.
  Tensor strided(const Shape& shape, std::vector<std::int64_t> strides, std::int64_t offset = 0) const;
  /// The same memory read as another type of equal width.
  Tensor reinterpreted(DataType dtype) const;
  /// Type and sizes without the elements; not defined().
  Tensor released() const {
    Tensor result = *this;
    result.storage_ = nullptr;
    return result;
  }
  const std::vector<std::int64_t>& strides() const noexcept { return strides_; }
  bool is_contiguous() const noexcept;

 private:
  struct Storage;
  void check(DataType dtype, std::size_t elements) const;
  std::shared_ptr<Storage> storage_;
  DataType dtype_ = DataType::float32;
  Shape shape_;
  std::vector<std::int64_t> strides_;
  std::int64_t offset_ = 0;
};

/// Row-major strides.
std::vector<std::int64_t> contiguous_strides(const Shape& shape);

template <class T>
constexpr DataType data_type_of() {
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<U, double>) return DataType::float64;
  else if constexpr (std::is_same_v<U, float>) return DataType::float32;
  else if constexpr (std::is_same_v<U, bool>) return DataType::boolean;
  else {
    static_assert(std::is_integral_v<U>, "numbers only");
    constexpr DataType with_sign[] = {DataType::int8, DataType::int16, DataType::int32, DataType::int64};
    constexpr DataType without[] = {DataType::uint8, DataType::uint16, DataType::uint32, DataType::uint64};
    constexpr int width = sizeof(U) == 1 ? 0 : sizeof(U) == 2 ? 1 : sizeof(U) == 4 ? 2 : 3;
    return std::is_signed_v<U> ? with_sign[width] : without[width];
  }
}

}  // namespace dlprim
