// SPDX-License-Identifier: MIT
// What tells the copy engine of NVIDIA's Hopper how a matrix lies in memory (lib/tensor_maps.clh).
#pragma once
#include <array>
#include <cstdint>

namespace dlprim {

/// Rows of elements of 2 or 4 bytes, `stride` bytes apart, of which boxes of 128 bytes by `box_rows` are copied. As it
/// holds no address, which kernels add, it can be made without asking a device. Expects box_rows of at most 256.
struct MatrixInMemory {
  std::int64_t columns, rows, stride;
  int element_bytes, box_rows;
};

/// Whether maps can describe it: strides are multiples of 16 bytes below 2^40, sizes fit coordinates of 31 bits.
bool can_be_mapped(const MatrixInMemory& matrix);

struct alignas(64) TensorMap {
  std::array<std::uint32_t, 32> words{};
};

/// Expects a matrix that can be mapped.
TensorMap tensor_map(const MatrixInMemory& matrix);

}  // namespace dlprim
