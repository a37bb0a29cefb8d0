// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

namespace dlprim {

/// Sizes of a tensor's dimensions, outermost first; none for a single number.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<std::int64_t> sizes) : sizes_(sizes) {}
  explicit Shape(std::vector<std::int64_t> sizes) : sizes_(std::move(sizes)) {}
  explicit Shape(std::span<const std::int64_t> sizes) : sizes_(sizes.begin(), sizes.end()) {}

  int size() const noexcept { return int(sizes_.size()); }
  /// Throws ValidationError for dimensions that there are not.
  std::int64_t& operator[](int dim) { return sizes_[place(dim, size())]; }
  std::int64_t operator[](int dim) const { return sizes_[place(dim, size())]; }
  auto begin() noexcept { return sizes_.begin(); }
  auto end() noexcept { return sizes_.end(); }
  auto begin() const noexcept { return sizes_.begin(); }
  auto end() const noexcept { return sizes_.end(); }
  operator std::span<const std::int64_t>() const noexcept { return sizes_; }
  const std::vector<std::int64_t>& sizes() const noexcept { return sizes_; }
  bool operator==(const Shape& other) const = default;

  /// Number of elements. Throws ValidationError where it is beyond int64.
  std::int64_t total_size() const;
  /// Product of the sizes from dimension `begin` up to `end`. Throws as total_size.
  std::int64_t product(int begin, int end) const;
  /// A dimension counted from the end when negative. Throws ValidationError when it does not exist; `extra` allows as
  /// many dimensions behind the last.
  int axis(std::int64_t dim, int extra = 0) const;
  /// "[2, 3]"; long ones are cut.
  std::string text() const;

  void push_back(std::int64_t size) { sizes_.push_back(size); }
  void insert(int dim, std::int64_t value) {
    sizes_.insert(sizes_.begin() + std::ptrdiff_t(place(dim, size() + 1)), value);
  }
  void erase(int dim) { sizes_.erase(sizes_.begin() + std::ptrdiff_t(place(dim, size()))); }

 private:
  std::size_t place(int dim, int dims) const {
    if (dim < 0 || dim >= dims) no_dimension(dim);
    return std::size_t(dim);
  }
  [[noreturn]] void no_dimension(int dim) const;
  std::vector<std::int64_t> sizes_;
};

/// The shape that both broadcast to by NumPy's rules. Throws ValidationError.
Shape broadcast(const Shape& a, const Shape& b);

}  // namespace dlprim
