// SPDX-License-Identifier: MIT
#ifdef _WIN32
#include <windows.h>

#include "shared_library.hpp"

namespace dlprim {

void* open_library(const char* name) noexcept { return reinterpret_cast<void*>(LoadLibraryA(name)); }

void* library_function(void* library, const char* name) noexcept {
  return reinterpret_cast<void*>(GetProcAddress(static_cast<HMODULE>(library), name));
}

}  // namespace dlprim
#endif
