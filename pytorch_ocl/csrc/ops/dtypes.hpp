// SPDX-License-Identifier: MIT
// Which dtypes an operator serves: as PyTorch, which refuses the others by name.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

namespace pytorch_ocl {

/// Kinds of dtypes, to be joined by |.
namespace served {
inline constexpr unsigned bool_ = 1, bytes_ = 2, integers_ = 2 | 4, floating_ = 8, complex_ = 16;
}

inline unsigned kind_of(at::ScalarType type) {
  if (type == at::kBool) return served::bool_;
  if (type == at::kByte) return served::bytes_;
  if (c10::isComplexType(type)) return served::complex_;
  return c10::isFloatingType(type) ? served::floating_ : served::integers_ & ~served::bytes_;
}

/// Raises NotImplementedError, worded as PyTorch's, unless the dtype is of one of the `kinds`.
inline void check_dtype(at::ScalarType type, unsigned kinds, const char* op) {
  TORCH_CHECK_NOT_IMPLEMENTED(kind_of(type) & kinds, '"', op, "\" not implemented for '", type, "'");
}
inline void check_dtype(const at::TensorBase& tensor, unsigned kinds, const char* op) {
  check_dtype(tensor.scalar_type(), kinds, op);
}

}  // namespace pytorch_ocl
