// SPDX-License-Identifier: MIT
// Biases that attention's kernels compute.
#pragma once
#include <dlprim/primitives/attention.hpp>
#include <dlprim/runtime/program.hpp>

namespace dlprim {

/// A number for a function's text and the types of its tensors, the same for equal ones, never 0: kernels are found by it.
std::uint32_t number_of(const AttentionFunction& function);

/// Defines what kernels/attention/attention.clh asks for to compute the bias by the function of a number.
void define_function(KernelSource& source, std::uint32_t number);

}  // namespace dlprim
