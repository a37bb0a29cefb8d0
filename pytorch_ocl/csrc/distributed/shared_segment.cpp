// SPDX-License-Identifier: MIT
#include "shared_segment.hpp"

#include <c10/util/Exception.h>

#include <atomic>
#include <cstdio>
#include <random>
#include <thread>
#include <utility>

#ifdef __linux__
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <fstream>
#endif

namespace pytorch_ocl::distributed {

namespace {

// A piece mostly arrives while one waits for it: sleeping costs more than to look again a few times. Looking for 200 us
// gained nothing on a host of 32 cores.
constexpr int looks = 100;

std::string hexadecimal(const std::array<std::uint64_t, 2>& secret) {
  std::array<char, 33> text{};
  std::snprintf(text.data(), text.size(), "%016llx%016llx", static_cast<unsigned long long>(secret[0]),
                static_cast<unsigned long long>(secret[1]));
  return text.data();
}

}  // namespace

bool SharedCount::has_reached(std::uint32_t count) const noexcept {
  return std::int32_t(std::atomic_ref(value_).load(std::memory_order_acquire) - count) >= 0;
}

void SharedSegment::swap(SharedSegment& other) noexcept {
  std::swap(file_, other.file_), std::swap(memory_, other.memory_), std::swap(bytes_, other.bytes_);
  std::swap(own_, other.own_), std::swap(named_, other.named_), std::swap(place_, other.place_);
}

std::string SharedSegment::secret() const { return hexadecimal(header().secret); }

#ifdef __linux__

namespace {

[[noreturn]] void fail(const std::string& what) { TORCH_CHECK(false, what, ": ", std::strerror(errno)); }

std::string contents(const char* path) {
  std::string line;
  std::getline(std::ifstream(path), line);
  return line;
}

void take(int file, std::size_t begin, std::size_t bytes) {
  if (const int code = posix_fallocate(file, off_t(begin), off_t(bytes))) {
    errno = code;
    fail("shared memory of " + std::to_string(bytes) + " bytes");
  }
}

// A lock of the process on the whole file. Forked children do not inherit it, and it ends with the process, however
// that ends.
struct flock whole_file() {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

int open_file(const std::string& folder, std::string& place) {
  if (folder.empty()) {
    const int file = int(syscall(SYS_memfd_create, "pytorch_ocl", 1u));  // 1: MFD_CLOEXEC
    if (file < 0) fail("memfd_create");
    place = "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(file);
    return file;
  }
  std::random_device random;
  place = folder + "/pytorch_ocl_" + hexadecimal({random() | std::uint64_t(random()) << 32, random()});
  const int file = ::open(place.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (file < 0) fail(place);
  return file;
}

}  // namespace

void SharedCount::reach(std::uint32_t count) noexcept {
  std::atomic_ref(value_).store(count, std::memory_order_release);
  syscall(SYS_futex, &value_, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void SharedCount::await(std::uint32_t count, std::chrono::milliseconds most) const noexcept {
  for (int i = 0; i < looks; i++) {
    if (has_reached(count)) return;
    std::this_thread::yield();
  }
  const std::uint32_t seen = std::atomic_ref(value_).load(std::memory_order_acquire);
  if (std::int32_t(seen - count) >= 0) return;
  timespec limit = {};
  limit.tv_sec = most.count() / 1000;
  limit.tv_nsec = most.count() % 1000 * 1000000;
  syscall(SYS_futex, &value_, FUTEX_WAIT, seen, &limit, nullptr, 0);
}

SharedSegment::~SharedSegment() {
  remove_name();
  if (memory_) munmap(memory_, bytes_);
  if (file_ >= 0) close(file_);
}

void SharedSegment::map(std::size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  if (memory == MAP_FAILED) fail("mmap");
  memory_ = static_cast<std::byte*>(memory);
  bytes_ = bytes;
}

void SharedSegment::take_memory(std::size_t begin, std::size_t bytes) { take(file_, header_bytes + begin, bytes); }

SharedSegment SharedSegment::make(std::size_t bytes, const std::string& folder, std::size_t taken) {
  SharedSegment segment;
  segment.file_ = open_file(folder, segment.place_);
  segment.own_ = true;
  segment.named_ = !folder.empty();
  // Where there is too little memory, using it would end the process: it is taken now.
  if (ftruncate(segment.file_, off_t(bytes)) != 0) fail("ftruncate");
  take(segment.file_, 0, taken);
  segment.map(bytes);
  std::random_device random;
  for (std::uint64_t& word : segment.header().secret) word = random() | std::uint64_t(random()) << 32;
  struct flock lock = whole_file();
  if (fcntl(segment.file_, F_SETLK, &lock) != 0) fail("fcntl");
  return segment;
}

SharedSegment SharedSegment::open(std::size_t bytes, const std::string& place, const std::string& secret) {
  struct stat found = {};
  if (stat(place.c_str(), &found) != 0) fail(place);
  TORCH_CHECK(S_ISREG(found.st_mode) && found.st_size == off_t(bytes), place, " is not the other rank's memory");
  SharedSegment segment;
  segment.place_ = place;
  segment.own_ = place.starts_with("/proc/" + std::to_string(getpid()) + "/");  // a rank of the same process
  segment.file_ = ::open(place.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (segment.file_ < 0) fail(place);
  segment.map(bytes);
  TORCH_CHECK(segment.secret() == secret, place, " is not the other rank's memory");
  return segment;
}

void SharedSegment::remove_name() noexcept {
  if (own_ && named_) unlink(place_.c_str());
  named_ = false;
}

bool SharedSegment::has_owner() const noexcept {
  struct flock lock = whole_file();
  return own_ || fcntl(file_, F_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

std::string host_identity() {
  std::array<char, 256> name{}, processes{};
  gethostname(name.data(), name.size() - 1);
  // Processes of other containers have other numbers here.
  if (readlink("/proc/self/ns/pid", processes.data(), processes.size() - 1) < 0) processes[0] = '\0';
  return std::string(name.data()) + ' ' + contents("/proc/sys/kernel/random/boot_id") + ' ' + processes.data();
}

std::int32_t this_process() noexcept { return std::int32_t(getpid()); }

bool is_running(std::int32_t process) {
  const std::string line = contents(("/proc/" + std::to_string(process) + "/stat").c_str());
  const std::size_t end = line.rfind(')');  // of its name; its state follows
  return end != std::string::npos && end + 2 < line.size() && line[end + 2] != 'Z' && line[end + 2] != 'X';
}

#else

void SharedCount::reach(std::uint32_t count) noexcept { value_ = count; }
void SharedCount::await(std::uint32_t, std::chrono::milliseconds) const noexcept {}
SharedSegment::~SharedSegment() = default;
void SharedSegment::map(std::size_t) {}
SharedSegment SharedSegment::make(std::size_t, const std::string&, std::size_t) {
  TORCH_CHECK(false, "shared memory is used on Linux only");
}
SharedSegment SharedSegment::open(std::size_t, const std::string&, const std::string&) {
  TORCH_CHECK(false, "shared memory is used on Linux only");
}
void SharedSegment::take_memory(std::size_t, std::size_t) {}
void SharedSegment::remove_name() noexcept {}
bool SharedSegment::has_owner() const noexcept { return true; }
std::string host_identity() { return {}; }
std::int32_t this_process() noexcept { return 0; }
bool is_running(std::int32_t) { return true; }

#endif

}  // namespace pytorch_ocl::distributed
