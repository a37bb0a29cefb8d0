// SPDX-License-Identifier: MIT
#pragma once
#include <ATen/Dispatch_v2.h>
#include <c10/core/Scalar.h>
#include <dlprim/scalar.hpp>

namespace pytorch_ocl {

/// A number as dlprim takes it, kept exactly; `type` is the dtype it is meant for.
inline dlprim::Scalar to_scalar(const c10::Scalar& value, c10::ScalarType type) {
  if (value.isComplex()) {
    const auto number = value.toComplexDouble();
    return dlprim::Scalar(std::complex<double>(number.real(), number.imag()));
  }
  if (value.isBoolean()) return dlprim::Scalar(value.toBool());
  if (value.type() == at::kUInt64) return dlprim::Scalar(value.to<uint64_t>());
  if (value.isIntegral(false)) return dlprim::Scalar(value.toLong());
  const double real = value.toDouble();
  return c10::isIntegralType(type, false) ? dlprim::Scalar(std::int64_t(real)) : dlprim::Scalar(real);
}

/// Throws RuntimeError, as PyTorch does, for a number that `type` cannot hold.
inline void check_fits(const c10::Scalar& value, c10::ScalarType type) {
  AT_DISPATCH_V2(type, "fill_", AT_WRAP([&] { (void)value.to<scalar_t>(); }), AT_EXPAND(AT_ALL_TYPES_AND_COMPLEX),
                 AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES), at::kBool, at::kHalf, at::kBFloat16);
}

}  // namespace pytorch_ocl
