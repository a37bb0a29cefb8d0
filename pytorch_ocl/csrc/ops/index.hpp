// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

namespace pytorch_ocl {

/// What an operator (a literal) says of an index out of range, "%lld" standing for the index; lives as long as the
/// process. A negative dim or size is left out.
const char* bounds_message(const char* op, std::int64_t dim, std::int64_t size);

}  // namespace pytorch_ocl
