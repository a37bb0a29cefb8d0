// SPDX-License-Identifier: MIT
#ifndef _WIN32
#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>

#include "system.hpp"

namespace dlprim {

void* open_library(const char* name) noexcept { return dlopen(name, RTLD_NOW | RTLD_LOCAL); }
void* library_function(void* library, const char* name) noexcept { return dlsym(library, name); }
bool is_terminal() noexcept { return isatty(STDERR_FILENO) != 0; }

std::filesystem::path user_cache_folder() {
  if (const char* folder = std::getenv("XDG_CACHE_HOME")) return folder;
  if (const char* folder = std::getenv("HOME")) return std::filesystem::path(folder) / ".cache";
  return {};
}

}  // namespace dlprim
#endif
