// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <string>

namespace dlprim {

/// The cache of compiled programs on disk: its file, how many programs it holds and their size in bytes.
struct ProgramCacheSummary {
  std::string file;
  std::int64_t programs = 0, bytes = 0;
};

ProgramCacheSummary program_cache_summary();
/// Deletes every compiled program; they are built again when needed.
void program_cache_clear();

}  // namespace dlprim
