// SPDX-License-Identifier: MIT
#include "disk_cache.hpp"

#include <dlprim/runtime/environment.hpp>

#include <sqlite3.h>

#include <ctime>
#include <string_view>

namespace dlprim {

namespace {

constexpr int busy_milliseconds = 10000;
constexpr auto longest_build = std::chrono::seconds(30);

std::filesystem::path default_folder() {
  if (const char* folder = environment::text("DLPRIM_CACHE_DIR")) return folder;
  if (const auto folder = user_cache_folder(); !folder.empty()) return folder / "dlprim";
  return std::filesystem::temp_directory_path() / "dlprim-cache";
}

std::int64_t limit_bytes() { return environment::number("DLPRIM_CACHE_LIMIT").value_or(1024) << 20; }

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
  std::string_view text(int column) const {
    return {static_cast<const char*>(sqlite3_column_blob(handle, column)),
            std::size_t(sqlite3_column_bytes(handle, column))};
  }
  bool failed() const { return code != SQLITE_OK && code != SQLITE_DONE && code != SQLITE_ROW; }
};

// Codes that a file with wrong contents leads to.
bool is_damage(int code) {
  return code == SQLITE_CORRUPT || code == SQLITE_NOTADB || code == SQLITE_IOERR || code == SQLITE_ERROR;
}

}  // namespace

DiskCache& DiskCache::instance() {
  static auto* cache = new DiskCache(default_folder(), environment::is_on("DLPRIM_CACHE_DISABLE"));
  return *cache;
}

DiskCache::DiskCache(const std::filesystem::path& folder, bool disabled)
    : file_(folder / "programs.db"), disabled_(disabled) {}

DiskCache::~DiskCache() { close(); }

bool DiskCache::open() {
  if (database_ || disabled_) return database_ != nullptr;
  std::error_code ignored;
  std::filesystem::create_directories(file_.parent_path(), ignored);
  const FileLock lock(lock_file());
  if (is_damage(connect())) {
    remove_files();
    connect();
  }
  disabled_ = !database_;
  if (database_) trim();
  return database_ != nullptr;
}

// Opens the file; returns SQLite's code, and leaves no connection where it is an error.
int DiskCache::connect() {
  int code = sqlite3_open(file_.string().c_str(), &database_);
  if (code == SQLITE_OK) {
    sqlite3_busy_timeout(database_, busy_milliseconds);
    for (const char* statement :
         {"PRAGMA journal_mode=WAL", "PRAGMA synchronous=NORMAL",
          "CREATE TABLE IF NOT EXISTS programs(key BLOB PRIMARY KEY, binary BLOB NOT NULL, checksum INTEGER NOT NULL, "
          "used INTEGER NOT NULL)",
          "SELECT key, binary, checksum, used FROM programs LIMIT 1"})
      if (!run(statement)) {
        code = sqlite3_errcode(database_);
        break;
      }
  }
  if (code != SQLITE_OK) close();
  return code;
}

// Expects the lock to be held: nobody else is opening the files. Processes that have them open go on with what they have.
void DiskCache::remove_files() {
  std::error_code ignored;
  for (const char* suffix : {"-wal", "-shm", ""}) std::filesystem::remove(file_.string() + suffix, ignored);
}

std::filesystem::path DiskCache::lock_file() const { return file_.parent_path() / "programs.lock"; }

void DiskCache::close() {
  sqlite3_close(database_);
  database_ = nullptr;
}

bool DiskCache::run(const char* statement) {
  return sqlite3_exec(database_, statement, nullptr, nullptr, nullptr) == SQLITE_OK;
}

// After an error inside the file. Another process may have put a new file in its place meanwhile, and the error may have
// passed: only a file that is damaged now is thrown away. The next use opens what is there, or starts anew.
void DiskCache::recover(int code) {
  if (!is_damage(code)) return;
  close();
  const FileLock lock(lock_file());
  int now = connect();
  if (now == SQLITE_OK) {
    Statement check(database_, "PRAGMA quick_check(1)");
    const bool sound = check.step() && check.text(0) == "ok";
    if (!sound) now = check.failed() ? check.code : SQLITE_CORRUPT;
  }  // statements end before their connection
  close();
  if (is_damage(now)) remove_files();
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
      const std::string_view blob = select.text(0);
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

PlaceLock DiskCache::building(const std::string& key) const {
  return PlaceLock(file_.parent_path() / "builds.lock", std::uint32_t(checksum(key)) >> 1, longest_build);
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
