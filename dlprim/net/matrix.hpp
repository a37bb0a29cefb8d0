// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <vector>

namespace dlprim {

/// Of an n x n matrix, row after row, by elimination with row exchanges.
double determinant(std::vector<double> matrix, std::size_t n);

}  // namespace dlprim
