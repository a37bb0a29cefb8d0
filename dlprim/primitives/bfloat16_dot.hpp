// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/device.hpp>

namespace dlprim {

/// How kernels can have the dot products of bfloat16 that a device's CPU has: BFLOAT16_DOT of kernels/lib/bfloat16_dot.clh,
/// or 0 where it has none or its compiler does not know them. The first call of a process may start another one, which
/// tries it out; none does where DLPRIM_COMPILERS is 0.
int bfloat16_dot(const Device& device);

}  // namespace dlprim
