// SPDX-License-Identifier: MIT
// Rows of the pointwise table as text, for kernels of others that compute them. They include lib/types.clh,
// lib/activations.clh and lib/math.clh, and call define_compute.
#pragma once
#include <dlprim/primitives/pointwise.hpp>
#include <dlprim/runtime/program.hpp>

#include <string>

namespace dlprim {

/// Statements that set the variable `result`, of type T, to what a row of one output gives for real numbers. `inputs`
/// and `scalars` are OpenCL C expressions in place of the row's x0, x1, ... and w0, w1, ...
std::string assign_row(PointwiseId id, std::string_view result, std::span<const std::string> inputs,
                       std::span<const std::string> scalars = {});
inline std::string assign_row(PointwiseId id, std::string_view result, std::initializer_list<std::string> inputs,
                              std::initializer_list<std::string> scalars = {}) {
  return assign_row(id, result, std::span<const std::string>(inputs.begin(), inputs.size()),
                    std::span<const std::string>(scalars.begin(), scalars.size()));
}

/// Whether an expression calls functions of OpenCL C that CPUs' compilers do not turn into vector code where a loop calls
/// them. `loop_math`: lib/loop_math.clh replaces some of them.
bool calls_builtins(std::string_view expression, bool loop_math);

/// Defines what lib/math.clh is told of the type computed in.
void define_compute(KernelSource& source, DataType compute);

}  // namespace dlprim
