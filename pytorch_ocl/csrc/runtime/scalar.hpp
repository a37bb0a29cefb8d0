// SPDX-License-Identifier: MIT
#pragma once
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
  if (value.isIntegral(false)) return dlprim::Scalar(value.toLong());
  const double real = value.toDouble();
  return c10::isIntegralType(type, false) ? dlprim::Scalar(std::int64_t(real)) : dlprim::Scalar(real);
}

}  // namespace pytorch_ocl
