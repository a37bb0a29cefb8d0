// SPDX-License-Identifier: MIT
#ifndef _WIN32
#include <dlfcn.h>
#include <dlprim/error.hpp>
#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <system_error>
#include <thread>

#include "system.hpp"

namespace dlprim {

void* open_library(const char* name) noexcept { return dlopen(name, RTLD_NOW | RTLD_LOCAL); }
void* library_function(void* library, const char* name) noexcept { return dlsym(library, name); }
bool is_terminal() noexcept { return isatty(STDERR_FILENO) != 0; }

std::filesystem::path user_cache_folder() {
  if (const char* folder = std::getenv("XDG_CACHE_HOME")) return folder;
  if (const char* folder = std::getenv("HOME")) return std::filesystem::path(folder) / ".cache";
  return {};
}

RegularFile::RegularFile(const std::filesystem::path& path)
    : path_(path), handle_(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY)) {
  struct stat status{};
  if (handle_ < 0)
    throw ValidationError("[file] cannot open '" + path.string() + "': " + std::generic_category().message(errno));
  if (fstat(int(handle_), &status) != 0 || !S_ISREG(status.st_mode)) {
    close(int(handle_));
    throw ValidationError("[file] '" + path.string() + "' is no regular file");
  }
  size_ = std::uint64_t(status.st_size);
}

RegularFile::~RegularFile() { close(int(handle_)); }

void RegularFile::read(std::uint64_t offset, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t count = pread(int(handle_), to.data(), to.size(), off_t(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) throw ValidationError("[file] cannot read '" + path_.string() + "'");
    to = to.subspan(std::size_t(count)), offset += std::uint64_t(count);
  }
}

unsigned scheduled_cpus() noexcept {
#ifdef __linux__
  // Larger sets for machines with more CPUs than cpu_set_t has bits for.
  for (int count = 1024; count <= 1 << 16; count *= 4) {
    cpu_set_t* set = CPU_ALLOC(count);
    if (!set) break;
    const bool read = sched_getaffinity(0, CPU_ALLOC_SIZE(count), set) == 0;
    const int found = read ? CPU_COUNT_S(CPU_ALLOC_SIZE(count), set) : 0;
    CPU_FREE(set);
    if (found > 0) return unsigned(found);
  }
#endif
  return std::thread::hardware_concurrency();
}

std::uint64_t available_host_memory() {
  std::ifstream lines("/proc/meminfo");
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("MemAvailable:")) return std::strtoull(line.c_str() + 13, nullptr, 10) << 10;
  return 0;
}

FileLock::FileLock(const std::filesystem::path& file)
    : handle_(open(file.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600)) {
  while (handle_ >= 0 && flock(int(handle_), LOCK_EX) != 0) {
    if (errno == EINTR) continue;
    close(int(handle_));
    handle_ = -1;
  }
}

FileLock::~FileLock() {
  if (handle_ >= 0) close(int(handle_));
}

}  // namespace dlprim
#endif
