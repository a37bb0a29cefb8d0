// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/device.hpp>

namespace dlprim {

/// Bytes of local memory that arrays declared in a kernel may take together, where those of its arguments are limited to
/// info().local_memory. NVIDIA's compiler takes such arrays beyond the 48 KB that the driver reports, up to what the chip
/// has: found out by building and running a kernel, once for each device. A simulated device has what it says; one that
/// counts as Hopper, what that has.
std::size_t static_local_memory(const Device& device);

}  // namespace dlprim
