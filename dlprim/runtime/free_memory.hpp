// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/device.hpp>

#include <optional>

namespace dlprim {

/// Bytes of a device's memory that nobody uses now. OpenCL does not tell: AMD's drivers have an extension, NVIDIA's a
/// library for management (NVML), and for devices that compute in the host's memory the operating system knows.
std::optional<std::uint64_t> free_memory(const Device& device);

}  // namespace dlprim
