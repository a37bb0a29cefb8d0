// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/primitives/reduce.hpp>

namespace dlprim {

/// Sums that are the gradients of bias and weight of every norm: inputs gy, x, mean, 1 / std; outputs the sum of gy and
/// of gy * (x - mean) / std.
const ReduceProgram& norm_sums_program();

}  // namespace dlprim
