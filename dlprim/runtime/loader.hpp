// SPDX-License-Identifier: MIT
#pragma once

namespace dlprim {

/// A function of the OpenCL loader that is newer than 1.2; null where the loader has none of that name.
void* loader_function(const char* name) noexcept;

}  // namespace dlprim
