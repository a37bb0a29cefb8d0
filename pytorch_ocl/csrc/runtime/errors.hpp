// SPDX-License-Identifier: MIT
#pragma once
#include <c10/util/Exception.h>
#include <dlprim/error.hpp>

#include <utility>

namespace pytorch_ocl {

/// Throws the PyTorch error that says the same as the dlprim exception being handled: IndexError,
/// NotImplementedError, torch.OutOfMemoryError, otherwise RuntimeError.
[[noreturn]] void rethrow_as_torch_error();

/// Calls `function`, translating what dlprim throws: for calls that PyTorch makes outside of operators.
template <class Function>
decltype(auto) translated(Function&& function) {
  try {
    return std::forward<Function>(function)();
  } catch (const dlprim::Error&) {
    rethrow_as_torch_error();
  }
}

}  // namespace pytorch_ocl
