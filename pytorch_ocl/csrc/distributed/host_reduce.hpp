// SPDX-License-Identifier: MIT
#pragma once
#include <c10/core/ScalarType.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <cstddef>
#include <vector>

namespace pytorch_ocl::distributed {

using Operation = c10d::ReduceOp::RedOpType;

/// Whether reduce() knows an operation on a dtype: SUM, PRODUCT, MIN and MAX of all but complex numbers and float8, SUM
/// of complex numbers, AVG of what has fractions.
bool can_reduce(c10::ScalarType type, Operation operation);

/// result[i] = the sources' elements i reduced, from left to right. Numbers of 16 bits are added and multiplied in
/// float32 and rounded once. MIN and MAX of floating point give NaN where a source has one. Elements of bool are true or
/// false, as c10d has them. Runs on several threads of the host.
void reduce(c10::ScalarType type, Operation operation, void* result, const std::vector<const void*>& sources,
            std::size_t count);

}  // namespace pytorch_ocl::distributed
