// SPDX-License-Identifier: MIT
#ifndef _WIN32
#include <dlfcn.h>

#include "shared_library.hpp"

namespace dlprim {

void* open_library(const char* name) noexcept { return dlopen(name, RTLD_NOW | RTLD_LOCAL); }
void* library_function(void* library, const char* name) noexcept { return dlsym(library, name); }

}  // namespace dlprim
#endif
