// SPDX-License-Identifier: MIT
#pragma once

namespace dlprim {

/// Opens a shared library by name or path, without making its symbols visible to others; null if that fails.
void* open_library(const char* name) noexcept;
/// The address of a function of an open library; null if it has none of that name.
void* library_function(void* library, const char* name) noexcept;

}  // namespace dlprim
