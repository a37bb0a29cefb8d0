// SPDX-License-Identifier: MIT
// Dot products that CPUs have instructions for and OpenCL C has no words for. The first call of a process may start
// another one, which tries whether the device's compiler knows them; none does where DLPRIM_COMPILERS is 0.
#pragma once
#include <dlprim/runtime/device.hpp>

namespace dlprim {

/// How kernels can have those of pairs of bfloat16: BFLOAT16_DOT of kernels/lib/bfloat16_dot.clh, or 0 where the
/// device's CPU has none or its compiler does not know them.
int bfloat16_dot(const Device& device);

/// The same of four bytes, by kernels/lib/byte_dot.clh.
int byte_dot(const Device& device);

}  // namespace dlprim
