// SPDX-License-Identifier: MIT
#ifdef _WIN32
#include <io.h>
#include <windows.h>

#include <cstdio>
#include <cstdlib>

#include "system.hpp"

namespace dlprim {

void* open_library(const char* name) noexcept { return reinterpret_cast<void*>(LoadLibraryA(name)); }

void* library_function(void* library, const char* name) noexcept {
  return reinterpret_cast<void*>(GetProcAddress(static_cast<HMODULE>(library), name));
}

bool is_terminal() noexcept { return _isatty(_fileno(stderr)) != 0; }

std::filesystem::path user_cache_folder() {
  if (const char* folder = std::getenv("LOCALAPPDATA")) return folder;
  return {};
}

}  // namespace dlprim
#endif
