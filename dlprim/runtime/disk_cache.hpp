// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/cache.hpp>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "system.hpp"

struct sqlite3;

namespace dlprim {

/// Compiled programs on disk: one SQLite file (WAL) shared by all processes of a user, least recently used entries
/// dropped above the size limit. A file that is damaged or cannot be used is replaced or done without, never an
/// error; one that other processes use is not touched while it is sound.
///
/// DLPRIM_CACHE_DIR names the folder (default: the user's cache folder / dlprim), DLPRIM_CACHE_DISABLE=1 disables it,
/// DLPRIM_CACHE_LIMIT sets the limit in MiB (default 1024).
class DiskCache {
 public:
  static DiskCache& instance();
  std::optional<std::string> load(const std::string& key);
  void store(const std::string& key, const std::string& binary);
  void erase(const std::string& key);
  /// Held by who builds the program of a key, so that others wait for it instead of building it as well: for a while,
  /// as the builder may have been stopped.
  PlaceLock building(const std::string& key) const;
  bool is_used() const { return !disabled_; }
  void clear();
  ProgramCacheSummary summary();

  explicit DiskCache(const std::filesystem::path& folder, bool disabled = false);
  ~DiskCache();

 private:
  bool open();
  int connect();
  void remove_files();
  std::filesystem::path lock_file() const;
  void close();
  bool run(const char* statement);
  void recover(int code);
  void trim();
  std::mutex mutex_;
  std::filesystem::path file_;
  sqlite3* database_ = nullptr;
  bool disabled_;  // or could not be opened
};

}  // namespace dlprim
