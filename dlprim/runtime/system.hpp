// SPDX-License-Identifier: MIT
// What differs between operating systems: one file of functions for each, system_<system>.cpp.
#pragma once
#include <filesystem>

namespace dlprim {

/// Opens a shared library by name or path, without making its symbols visible to others; null if that fails.
void* open_library(const char* name) noexcept;
/// The address of a function of an open library; null if it has none of that name.
void* library_function(void* library, const char* name) noexcept;
/// Whether messages (stderr) go to a terminal.
bool is_terminal() noexcept;
/// Where the user's programs keep what can be made again, without a name of ours; empty when there is no such place.
std::filesystem::path user_cache_folder();

}  // namespace dlprim
