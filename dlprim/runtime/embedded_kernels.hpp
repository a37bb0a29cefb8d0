// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <span>

namespace dlprim {

/// A file kept inside the library; `name` is its path relative to the folder that was embedded.
struct EmbeddedFile {
  const char* name;
  const char* text;
  std::size_t size;
};

/// dlprim/kernels.
std::span<const EmbeddedFile> embedded_kernels();
/// driver_defects.tsv.
std::span<const EmbeddedFile> embedded_defects();
/// dlprim/tuning/data: what was measured on devices; see tuning/store.hpp.
std::span<const EmbeddedFile> embedded_tuning();

}  // namespace dlprim
