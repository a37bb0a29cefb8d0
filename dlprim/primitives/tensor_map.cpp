// SPDX-License-Identifier: MIT
#include "tensor_map.hpp"

namespace dlprim {

bool can_be_mapped(const MatrixInMemory& matrix) {
  constexpr std::int64_t coordinates = std::int64_t(1) << 31, distances = std::int64_t(1) << 40;
  return matrix.stride > 0 && matrix.stride % 16 == 0 && matrix.stride < distances && matrix.columns > 0 &&
         matrix.columns < coordinates && matrix.rows > 0 && matrix.rows < coordinates;
}

// The format was found by comparing what the driver's cuTensorMapEncodeTiled writes for many parameters.
TensorMap tensor_map(const MatrixInMemory& matrix) {
  constexpr std::uint32_t rank = 4, float32 = 7, bfloat16 = 10, swizzle_128 = 3, promote_to_128 = 2;
  constexpr std::uint32_t far_stride = 1 << 20, near_stride = 16;
  TensorMap map;
  auto& w = map.words;
  // Words 0 and 1 are the address. Elements are not looked at, but for their size.
  w[2] = (rank - 1) << 4 | (matrix.element_bytes == 4 ? float32 : bfloat16) << 7 | swizzle_128 << 13 |
         promote_to_128 << 17;
  w[3] = std::uint32_t(matrix.stride >> 4), w[7] = std::uint32_t(matrix.stride >> 36);
  w[4] = far_stride >> 4, w[5] = near_stride >> 4;
  w[8] = std::uint32_t(matrix.columns - 1), w[9] = std::uint32_t(matrix.rows - 1);
  w[10] = (1 << 28) - 1, w[11] = (1 << 16) - 1;
  w[13] = std::uint32_t(128 / matrix.element_bytes - 1) << 24, w[14] = std::uint32_t(matrix.box_rows - 1);
  w[16] = std::uint32_t(128 * matrix.box_rows), w[18] = 1024;
  return map;
}

}  // namespace dlprim
