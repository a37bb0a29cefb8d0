// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

namespace pytorch_ocl {

/// PyTorch's words for an index out of range, "%lld" standing for the index; lives as long as the process. A negative
/// dim or size is left out.
const char* bounds_message(std::int64_t dim, std::int64_t size);

}  // namespace pytorch_ocl
