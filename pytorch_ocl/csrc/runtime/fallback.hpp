// SPDX-License-Identifier: MIT
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <map>
#include <string>

namespace pytorch_ocl {

/// Runs an operator that has no kernel here on the CPU: warns once with its name and counts. Under
/// PYTORCH_OCL_FALLBACK=error, and where the CPU has no kernel either, raises NotImplementedError.
void cpu_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);

/// How often each operator ran on the CPU since the last reset.
std::map<std::string, std::int64_t> fallback_counts();
void reset_fallback_counts();

}  // namespace pytorch_ocl
