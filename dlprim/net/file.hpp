// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace dlprim {

/// Throws ValidationError for what is no regular file, cannot be read or is larger than `largest`.
std::string read_file(const std::string& path, std::size_t largest);
/// Writes a file beside and puts it in the place of `path`, so that none is left half written. Throws ValidationError.
void write_file(const std::string& path, std::string_view contents);

}  // namespace dlprim
