// SPDX-License-Identifier: MIT
#ifdef _WIN32
#include <dlprim/error.hpp>
#include <io.h>
#include <windows.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <system_error>
#include <thread>

#include "compiler/serve.hpp"
#include "system.hpp"

namespace dlprim {

void* open_library(const char* name) noexcept { return reinterpret_cast<void*>(LoadLibraryA(name)); }

void* library_function(void* library, const char* name) noexcept {
  return reinterpret_cast<void*>(GetProcAddress(static_cast<HMODULE>(library), name));
}

bool is_terminal() noexcept { return _isatty(_fileno(stderr)) != 0; }

std::filesystem::path user_cache_folder() {
  if (const char* folder = std::getenv("LOCALAPPDATA")) return folder;
  return {};
}

// Drivers that need companions have not been met on Windows yet: programs are compiled in this process.
std::filesystem::path library_file() { return {}; }

std::int64_t process_id() noexcept { return std::int64_t(GetCurrentProcessId()); }

int memory_file(std::size_t) noexcept { return -1; }
int copy_file(int) noexcept { return -1; }
void close_file(int) noexcept {}
std::byte* map_file(int, std::size_t) noexcept { return nullptr; }
void unmap_file(std::byte*, std::size_t) noexcept {}

Companion::Companion(const std::filesystem::path& program, const std::string&) : connection_(-1) {
  throw std::system_error(std::make_error_code(std::errc::not_supported), program.string());
}

int serve_compiler(const char*) { return EXIT_FAILURE; }

Companion::~Companion() = default;
bool Companion::send(std::string_view) noexcept { return false; }
bool Companion::receive(std::span<char>, std::chrono::milliseconds) noexcept { return false; }

RegularFile::RegularFile(const std::filesystem::path& path)
    : path_(path), handle_(std::intptr_t(CreateFileW(path.c_str(), GENERIC_READ, FILE_SHARE_READ, nullptr,
                                                     OPEN_EXISTING, FILE_FLAG_OPEN_REPARSE_POINT, nullptr))) {
  const auto handle = reinterpret_cast<HANDLE>(handle_);
  if (handle == INVALID_HANDLE_VALUE) throw ValidationError("[file] cannot open '" + path.string() + "'");
  BY_HANDLE_FILE_INFORMATION about{};
  constexpr DWORD others = FILE_ATTRIBUTE_DIRECTORY | FILE_ATTRIBUTE_REPARSE_POINT | FILE_ATTRIBUTE_DEVICE;
  if (GetFileType(handle) != FILE_TYPE_DISK || !GetFileInformationByHandle(handle, &about) ||
      (about.dwFileAttributes & others)) {
    CloseHandle(handle);
    throw ValidationError("[file] '" + path.string() + "' is no regular file");
  }
  size_ = std::uint64_t(about.nFileSizeHigh) << 32 | about.nFileSizeLow;
}

RegularFile::~RegularFile() { CloseHandle(reinterpret_cast<HANDLE>(handle_)); }

void RegularFile::read(std::uint64_t offset, std::span<std::byte> to) const {
  while (!to.empty()) {
    OVERLAPPED place{};
    place.Offset = DWORD(offset), place.OffsetHigh = DWORD(offset >> 32);
    DWORD count = 0;
    const auto most = DWORD(std::min<std::size_t>(to.size(), std::size_t(1) << 30));
    if (!ReadFile(reinterpret_cast<HANDLE>(handle_), to.data(), most, &count, &place) || count == 0)
      throw ValidationError("[file] cannot read '" + path_.string() + "'");
    to = to.subspan(count), offset += count;
  }
}

unsigned scheduled_cpus() noexcept { return std::thread::hardware_concurrency(); }

std::uint64_t available_host_memory() {
  MEMORYSTATUSEX status{};
  status.dwLength = sizeof status;
  return GlobalMemoryStatusEx(&status) ? status.ullAvailPhys : 0;
}

static HANDLE open_to_lock(const std::filesystem::path& file) {
  return CreateFileW(file.c_str(), GENERIC_READ | GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE,
                     nullptr, OPEN_ALWAYS, FILE_ATTRIBUTE_NORMAL, nullptr);
}

FileLock::FileLock(const std::filesystem::path& file) {
  const HANDLE handle = open_to_lock(file);
  handle_ = reinterpret_cast<std::intptr_t>(handle);
  OVERLAPPED whole{};
  if (handle != INVALID_HANDLE_VALUE) LockFileEx(handle, LOCKFILE_EXCLUSIVE_LOCK, 0, MAXDWORD, MAXDWORD, &whole);
}

FileLock::~FileLock() {
  const auto handle = reinterpret_cast<HANDLE>(handle_);
  if (handle != INVALID_HANDLE_VALUE) CloseHandle(handle);
}

PlaceLock::PlaceLock(const std::filesystem::path& file, std::uint32_t place, std::chrono::milliseconds longest)
    : place_(place) {
  HANDLE handle = open_to_lock(file);
  OVERLAPPED at{};
  at.Offset = place;
  const auto end = std::chrono::steady_clock::now() + longest;
  while (handle != INVALID_HANDLE_VALUE &&
         !LockFileEx(handle, LOCKFILE_EXCLUSIVE_LOCK | LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &at)) {
    if (GetLastError() == ERROR_LOCK_VIOLATION && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(between_attempts);
      continue;
    }
    CloseHandle(handle);
    handle = INVALID_HANDLE_VALUE;
  }
  handle_ = reinterpret_cast<std::intptr_t>(handle);
}

PlaceLock::~PlaceLock() {
  const auto handle = reinterpret_cast<HANDLE>(handle_);
  if (handle != INVALID_HANDLE_VALUE) CloseHandle(handle);
}

}  // namespace dlprim
#endif
