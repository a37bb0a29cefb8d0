// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <span>

namespace dlprim {

/// A file of dlprim/kernels, kept inside the library; `name` is its path relative to that folder.
struct EmbeddedFile {
  const char* name;
  const char* text;
  std::size_t size;
};

std::span<const EmbeddedFile> embedded_kernels();

}  // namespace dlprim
