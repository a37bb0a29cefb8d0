// SPDX-License-Identifier: MIT
#ifndef _WIN32
#include <dlfcn.h>
#include <dlprim/error.hpp>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>

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
  struct stat status {};
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

}  // namespace dlprim
#endif
