// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/net/tensor.hpp>

#include <cstddef>
#include <vector>

namespace dlprim {

/// Of an n x n matrix, row after row, by elimination with row exchanges.
double determinant(std::vector<double> matrix, std::size_t n);
/// Ones on the diagonal of a square matrix, zeros elsewhere.
Tensor identity_matrix(Queue& queue, DataType dtype, std::int64_t size);

}  // namespace dlprim
