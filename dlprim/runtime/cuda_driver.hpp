// SPDX-License-Identifier: MIT
// Of CUDA's driver API, what takes memory that can be exported: OpenCL can import such memory, but not export its own.
#pragma once
#include <array>
#include <cstddef>
#include <optional>

namespace dlprim {

/// Takes memory of the GPU with this UUID, without a CUDA context; `bytes` is rounded up. The file descriptor stands for
/// it: the memory is given back when all descriptors are closed and nothing that imported it is left. Empty where this
/// machine's driver or GPU cannot do so, or has no memory left.
std::optional<int> take_exportable(const std::array<unsigned char, 16>& uuid, std::size_t& bytes) noexcept;

}  // namespace dlprim
