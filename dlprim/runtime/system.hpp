// SPDX-License-Identifier: MIT
// What differs between operating systems: one file of functions for each, system_<system>.cpp.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace dlprim {

/// Opens a shared library by name or path, without making its symbols visible to others; null if that fails.
void* open_library(const char* name) noexcept;
/// The address of a function of an open library; null if it has none of that name.
void* library_function(void* library, const char* name) noexcept;
/// Whether messages (stderr) go to a terminal.
bool is_terminal() noexcept;
/// CPUs that this process may be scheduled on; 0 where that is not known.
unsigned scheduled_cpus() noexcept;
/// Memory in bytes that programs can still take without swapping; 0 where that is not known.
std::uint64_t available_host_memory();
/// Where the user's programs keep what can be made again, without a name of ours; empty when there is no such place.
std::filesystem::path user_cache_folder();

/// The file that this code was loaded from, a shared library or program; empty where that is not known.
std::filesystem::path library_file();
/// Differs in a fork, which has none of the threads.
std::int64_t process_id() noexcept;

/// Memory of so many bytes as a file without a name, which other processes may map; -1 where there is none.
int memory_file(std::size_t bytes) noexcept;
/// Another descriptor of the same file, not for programs that this one starts; -1 where there is none left.
int copy_file(int file) noexcept;
void close_file(int file) noexcept;
/// The file's bytes as memory, changed with it; null where that fails.
std::byte* map_file(int file, std::size_t bytes) noexcept;
void unmap_file(std::byte* memory, std::size_t bytes) noexcept;

/// Another program that runs beside this process, with a connection in both directions as its standard input. It must go
/// to the background at once, and end when the connection does.
class Companion {
 public:
  /// Throws std::system_error where it cannot be started.
  Companion(const std::filesystem::path& program, const std::string& argument);
  Companion(const Companion&) = delete;
  ~Companion();
  /// False where it has ended.
  bool send(std::string_view bytes) noexcept;
  /// Fills `to`; false where it has ended, or leaves one waiting for longer than `limit`.
  bool receive(std::span<char> to, std::chrono::milliseconds limit) noexcept;

 private:
  int connection_;
};

/// A regular file open for reading. A symbolic link at the path's end, a folder, pipe or device is refused, without
/// waiting for anybody. Throws ValidationError.
class RegularFile {
 public:
  explicit RegularFile(const std::filesystem::path& path);
  RegularFile(const RegularFile&) = delete;
  ~RegularFile();
  std::uint64_t size() const noexcept { return size_; }
  /// Fills `to`. Throws ValidationError where the file has too few bytes.
  void read(std::uint64_t offset, std::span<std::byte> to) const;

 private:
  std::filesystem::path path_;
  std::intptr_t handle_;
  std::uint64_t size_ = 0;
};

/// Holds a file locked against other processes and other FileLocks; made where it does not exist. Waits for it; where
/// the file cannot be made or locked, nothing is held.
class FileLock {
 public:
  explicit FileLock(const std::filesystem::path& file);
  ~FileLock();
  FileLock(const FileLock&) = delete;

 private:
  std::intptr_t handle_;
};

/// Holds one byte of a file locked against other processes and other PlaceLocks, so that a piece of work is done by one
/// of them; other places can be held at the same time. Waits for it, `longest` at most; where the file cannot be made or
/// the place not be had, nothing is held. Systems other than Linux and Windows have no such locks.
class PlaceLock {
 public:
  PlaceLock() = default;  // holds nothing
  PlaceLock(const std::filesystem::path& file, std::uint32_t place, std::chrono::milliseconds longest);
  ~PlaceLock();
  PlaceLock(const PlaceLock&) = delete;

 private:
  static constexpr std::chrono::milliseconds between_attempts{2};
  std::intptr_t handle_ = -1;
  std::uint32_t place_ = 0;
};

}  // namespace dlprim
