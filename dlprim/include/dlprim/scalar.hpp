// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/dtype.hpp>

#include <complex>
#include <concepts>

namespace dlprim {

/// A number of any kind, given to kernels as an argument: integers keep all 64 bits, reals are double.
class Scalar {
 public:
  constexpr Scalar() noexcept : integer_(0) {}
  template <std::integral I>
  constexpr Scalar(I value) noexcept : integer_(std::int64_t(value)) {}
  template <std::floating_point F>
  constexpr Scalar(F value) noexcept : kind_(Kind::real), real_(value) {}
  template <class F>
  constexpr Scalar(std::complex<F> value) noexcept
      : kind_(Kind::complex), real_(value.real()), imaginary_(value.imag()) {}

  double real() const noexcept { return kind_ == Kind::integer ? double(integer_) : real_; }
  double imaginary() const noexcept { return imaginary_; }
  /// The value as an integer; reals are truncated, those outside the range give its nearest end, NaN gives 0.
  std::int64_t integer() const noexcept;
  bool is_zero() const noexcept { return kind_ == Kind::integer ? integer_ == 0 : real_ == 0 && imaginary_ == 0; }

  /// Writes the value as kernels hold it in compute_type(type); returns the bytes written, at most 16.
  std::size_t store(DataType type, void* to) const noexcept;

 private:
  enum class Kind : std::uint8_t { integer, real, complex };
  Kind kind_ = Kind::integer;
  union {
    std::int64_t integer_;
    double real_;
  };
  double imaginary_ = 0;
};

}  // namespace dlprim
