// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <span>

namespace dlprim {

/// A file kept inside the library; `name` is its path relative to dlprim/kernels or dlprim/tuning/data.
struct EmbeddedFile {
  const char* name;
  const char* text;
  std::size_t size;
};

std::span<const EmbeddedFile> embedded_kernels();
/// What was measured on devices; see tuning/store.hpp.
std::span<const EmbeddedFile> embedded_tuning();

}  // namespace dlprim
