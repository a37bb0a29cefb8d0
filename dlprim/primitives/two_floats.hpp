// SPDX-License-Identifier: MIT
#pragma once
#include <cmath>

namespace dlprim {

/// A number given to kernels as the sum of two floats, which REAL_OF (lib/types.clh) adds in the type computed in: 48
/// bits of it, on devices without double, too. In kernels it is a float2.
struct alignas(8) TwoFloats {
  float high = 0, low = 0;
  TwoFloats() = default;
  explicit TwoFloats(double value) : high(float(value)), low(std::isfinite(high) ? float(value - double(high)) : 0.f) {}
};

}  // namespace dlprim
