// SPDX-License-Identifier: MIT
#include "disk_cache.hpp"

#include <sqlite3.h>

#include <cstdlib>
#include <ctime>
#include <string_view>

#include "system.hpp"

namespace dlprim {

namespace {

constexpr int busy_milliseconds = 10000;

std::filesystem::path default_folder() {
  if (const char* folder = std::getenv("DLPRIM_CACHE_DIR")) return folder;
  if (const auto folder = user_cache_folder(); !folder.empty()) return folder / "dlprim";
  return std::filesystem::temp_directory_path() / "dlprim-cache";
}

std::int64_t limit_bytes() {
  const char* text = std::getenv("DLPRIM_CACHE_LIMIT");
  const long long mebibytes = text ? std::atoll(text) : 1024;
  return std::max(mebibytes, 1LL) << 20;
}

// FNV-1a, 64 bits: notices a binary that was cut or altered on disk.
std::int64_t checksum(std::string_view data) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (unsigned char c : data) hash = (hash ^ c) * 0x100000001b3;
  return std::int64_t(hash);
}

struct Statement {
  sqlite3_stmt* handle = nullptr;
  int code;
  Statement(sqlite3* database, const char* text) : code(sqlite3_prepare_v2(database, text, -1, &handle, nullptr)) {}
  ~Statement() { sqlite3_finalize(handle); }
  void bind(int index, std::string_view blob) {
    sqlite3_bind_blob64(handle, index, blob.data(), blob.size(), SQLITE_STATIC);
  }
  void bind(int index, std::int64_t value) { sqlite3_bind_int64(handle, index, value); }
  bool step() {
    return code == SQLITE_OK && (code = sqlite3_step(handle), code == SQLITE_ROW ? (code = SQLITE_OK, true) : false);
  }
  bool failed() const { return code != SQLITE_OK && code != SQLITE_DONE && code != SQLITE_ROW; }
};

}  // namespace

DiskCache& DiskCache::instance() {
  static auto* cache = new DiskCache(default_folder());
  return *cache;
}

DiskCache::DiskCache(const std::filesystem::path& folder) : file_(folder / "programs.db") {
  const char* off = std::getenv("DLPRIM_CACHE_DISABLE");
  disabled_ = off && *off && std::string_view(off) != "0";
}

DiskCache::~DiskCache() { close(); }

bool DiskCache::open() {
  if (database_ || disabled_) return database_ != nullptr;
  std::error_code ignored;
  std::filesystem::create_directories(file_.parent_path(), ignored);
  for (int attempt = 0; attempt < 2; attempt++) {
    if (sqlite3_open(file_.string().c_str(), &database_) == SQLITE_OK) {
      sqlite3_busy_timeout(database_, busy_milliseconds);
      if (run("PRAGMA journal_mode=WAL") && run("PRAGMA synchronous=NORMAL") &&
          run("CREATE TABLE IF NOT EXISTS programs(key BLOB PRIMARY KEY, binary BLOB NOT NULL, checksum INTEGER NOT "
              "NULL, used INTEGER NOT NULL)")) {
        trim();
        return true;
      }
    }
    const int code = sqlite3_errcode(database_);
    close();
    if (code != SQLITE_NOTADB && code != SQLITE_CORRUPT) break;
    for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(file_.string() + suffix, ignored);
  }
  disabled_ = true;
  return false;
}

void DiskCache::close() {
  sqlite3_close(database_);
  database_ = nullptr;
}

bool DiskCache::run(const char* statement) {
  return sqlite3_exec(database_, statement, nullptr, nullptr, nullptr) == SQLITE_OK;
}

// After an error inside the file: throw the file away, so that the next use starts a new one.
void DiskCache::recover(int code) {
  if (code != SQLITE_CORRUPT && code != SQLITE_NOTADB && code != SQLITE_IOERR && code != SQLITE_ERROR) return;
  close();
  std::error_code ignored;
  for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(file_.string() + suffix, ignored);
}

void DiskCache::trim() {
  std::int64_t total = 0;
  {
    Statement sum(database_, "SELECT COALESCE(SUM(LENGTH(binary)), 0) FROM programs");
    if (sum.step()) total = sqlite3_column_int64(sum.handle, 0);
  }
  if (total <= limit_bytes()) return;
  Statement drop(database_,
                 "DELETE FROM programs WHERE key IN (SELECT key FROM (SELECT key, SUM(LENGTH(binary)) OVER (ORDER BY "
                 "used DESC, key) AS running FROM programs) WHERE running > ?)");
  drop.bind(1, limit_bytes() / 2);
  drop.step();
}

std::optional<std::string> DiskCache::load(const std::string& key) {
  std::lock_guard guard(mutex_);
  if (!open()) return std::nullopt;
  std::optional<std::string> binary;
  int code;
  {
    Statement select(database_, "SELECT binary, checksum, used FROM programs WHERE key = ?");
    select.bind(1, key);
    if (select.step()) {
      std::string_view blob(static_cast<const char*>(sqlite3_column_blob(select.handle, 0)),
                            std::size_t(sqlite3_column_bytes(select.handle, 0)));
      if (checksum(blob) == sqlite3_column_int64(select.handle, 1)) binary = std::string(blob);
      const std::int64_t now = std::time(nullptr), used = sqlite3_column_int64(select.handle, 2);
      if (binary && now - used > 86400) {
        Statement touch(database_, "UPDATE programs SET used = ? WHERE key = ?");
        touch.bind(1, now), touch.bind(2, key);
        touch.step();
      }
    }
    code = select.failed() ? select.code : SQLITE_OK;
  }
  recover(code);
  return binary;
}

void DiskCache::store(const std::string& key, const std::string& binary) {
  std::lock_guard guard(mutex_);
  if (!open()) return;
  int code;
  {
    Statement insert(database_, "INSERT OR REPLACE INTO programs VALUES(?, ?, ?, ?)");
    insert.bind(1, key), insert.bind(2, binary), insert.bind(3, checksum(binary)), insert.bind(4, std::time(nullptr));
    insert.step();
    code = insert.failed() ? insert.code : SQLITE_OK;
  }
  recover(code);
}

void DiskCache::erase(const std::string& key) {
  std::lock_guard guard(mutex_);
  if (!open()) return;
  Statement remove(database_, "DELETE FROM programs WHERE key = ?");
  remove.bind(1, key);
  remove.step();
}

void DiskCache::clear() {
  std::lock_guard guard(mutex_);
  if (!open()) return;
  run("DELETE FROM programs");
  run("VACUUM");
}

ProgramCacheSummary DiskCache::summary() {
  std::lock_guard guard(mutex_);
  ProgramCacheSummary summary{file_.string()};
  if (!open()) return summary;
  // Programs have digests as keys; measured choices say what they are.
  Statement count(database_, "SELECT COALESCE(SUM(SUBSTR(key, 1, 6) <> CAST('choice' AS BLOB)), 0), "
                             "COALESCE(SUM(LENGTH(binary)), 0) FROM programs");
  if (count.step()) {
    summary.programs = sqlite3_column_int64(count.handle, 0);
    summary.bytes = sqlite3_column_int64(count.handle, 1);
  }
  return summary;
}

ProgramCacheSummary program_cache_summary() { return DiskCache::instance().summary(); }

void program_cache_clear() { DiskCache::instance().clear(); }

}  // namespace dlprim
