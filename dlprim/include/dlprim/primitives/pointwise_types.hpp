// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/primitives/pointwise.hpp>

namespace dlprim {

/// What a row of the pointwise table computes in, as its second column says. Complex types need a complex expression
/// besides.
///   same      any type, and gives that type; so do the following
///   floats    floating and complex types; `wide` only such of 32 bits and more
///   numbers   any but bool
///   integers  integers; `bits` bool, too
///   truth, real, pair   any type: see ResultType
bool serves(PointwiseId id, DataType compute) noexcept;

}  // namespace dlprim
