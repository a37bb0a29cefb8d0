// SPDX-License-Identifier: MIT
#ifndef _WIN32
#include <dlfcn.h>
#include <dlprim/error.hpp>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
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

std::filesystem::path library_file() {
  Dl_info info{};
  const void* code = reinterpret_cast<const void*>(&library_file);
  if (!dladdr(code, &info) || !info.dli_fname) return {};
  const std::filesystem::path name = info.dli_fname;
  if (name.is_absolute()) return name;
  // A program's name as it was called, which may stand for a file of PATH: never one of the working folder.
  std::error_code unknown;
  return std::filesystem::read_symlink("/proc/self/exe", unknown);
}

std::int64_t process_id() noexcept { return getpid(); }

int memory_file([[maybe_unused]] std::size_t bytes) noexcept {
#ifdef __linux__
  constexpr unsigned close_on_exec = 1;
  const int file = int(syscall(SYS_memfd_create, "dlprim", close_on_exec));
  if (file < 0) return -1;
  // Takes the memory now: where it is too small, using it would end the process.
  if (posix_fallocate(file, 0, off_t(bytes)) == 0) return file;
  close(file);
#endif
  return -1;
}

int copy_file(int file) noexcept { return fcntl(file, F_DUPFD_CLOEXEC, 0); }
void close_file(int file) noexcept { close(file); }

std::byte* map_file(int file, std::size_t bytes) noexcept {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
}

void unmap_file(std::byte* memory, std::size_t bytes) noexcept { munmap(memory, bytes); }

Companion::Companion(const std::filesystem::path& program, const std::string& argument) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw std::system_error(errno, std::generic_category(), "socketpair");
  connection_ = ends[0];
  std::string path = program.string(), given = argument;
  char* const arguments[] = {path.data(), given.data(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 34)
  posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
#endif
  pid_t child = 0;
  int code = posix_spawn(&child, path.c_str(), &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  int status = 0;
  if (code == 0)
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  if (code == 0 && status != 0) code = ECHILD;
  if (code == 0) return;
  close(connection_);
  throw std::system_error(code, std::generic_category(), path);
}

Companion::~Companion() { close(connection_); }

bool Companion::send(std::string_view bytes) noexcept {
  while (!bytes.empty()) {
    const ssize_t count = ::send(connection_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes.remove_prefix(std::size_t(count));
  }
  return true;
}

bool Companion::receive(std::span<char> to, std::chrono::milliseconds limit) noexcept {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!to.empty()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
    pollfd wanted{connection_, POLLIN, 0};
    const int ready = left > 0 ? poll(&wanted, 1, int(left)) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    const ssize_t count = read(connection_, to.data(), to.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    to = to.subspan(std::size_t(count));
  }
  return true;
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

static int open_to_lock(const std::filesystem::path& file) {
  return open(file.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
}

FileLock::FileLock(const std::filesystem::path& file) : handle_(open_to_lock(file)) {
  while (handle_ >= 0 && flock(int(handle_), LOCK_EX) != 0) {
    if (errno == EINTR) continue;
    close(int(handle_));
    handle_ = -1;
  }
}

FileLock::~FileLock() {
  if (handle_ >= 0) close(int(handle_));
}

// Locks of an open file, not of a process: threads wait for each other too, and closing another one changes nothing.
static bool set_lock([[maybe_unused]] int handle, [[maybe_unused]] short type, [[maybe_unused]] std::uint32_t place) {
#ifdef F_OFD_SETLK
  struct flock lock{};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = place;
  lock.l_len = 1;
  return fcntl(handle, F_OFD_SETLK, &lock) == 0;
#else
  errno = ENOSYS;
  return false;
#endif
}

PlaceLock::PlaceLock(const std::filesystem::path& file, std::uint32_t place, std::chrono::milliseconds longest)
    : handle_(open_to_lock(file)), place_(place) {
  const auto end = std::chrono::steady_clock::now() + longest;
  while (handle_ >= 0 && !set_lock(int(handle_), F_WRLCK, place)) {
    const bool taken = errno == EAGAIN || errno == EACCES || errno == EINTR;
    if (taken && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(between_attempts);
      continue;
    }
    close(int(handle_));
    handle_ = -1;
  }
}

PlaceLock::~PlaceLock() {
  if (handle_ < 0) return;
  set_lock(int(handle_), F_UNLCK, place_);  // children that were forked meanwhile have the file open
  close(int(handle_));
}

}  // namespace dlprim
#endif
