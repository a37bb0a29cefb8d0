// SPDX-License-Identifier: MIT
#include "file_passing.hpp"

#include <c10/util/Exception.h>
#include <c10/util/thread_name.h>

#ifdef __linux__
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <random>
#endif

namespace pytorch_ocl::distributed {

#ifdef __linux__

namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void fail(const char* what) { TORCH_CHECK(false, what, ": ", std::strerror(errno)); }

// Linux's abstract names begin with a zero.
std::pair<sockaddr_un, socklen_t> address_of(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  TORCH_CHECK(name.size() + 1 < sizeof address.sun_path, "the name of a socket is too long");
  name.copy(address.sun_path + 1, name.size());
  return {address, socklen_t(offsetof(sockaddr_un, sun_path) + 1 + name.size())};
}

bool is_this_users(int connection) {
  ucred other{};
  socklen_t size = sizeof other;
  return getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &other, &size) == 0 && other.uid == geteuid();
}

void set_timeout(int connection, std::chrono::milliseconds timeout) {
  timeval limit{};
  limit.tv_sec = timeout.count() / 1000;
  limit.tv_usec = timeout.count() % 1000 * 1000;
  setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

// A message of one byte with room for a descriptor.
struct Message {
  char byte = 0;
  iovec piece{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> room{};
  msghdr header{};

  Message() {
    header.msg_iov = &piece;
    header.msg_iovlen = 1;
    header.msg_control = room.data();
    header.msg_controllen = room.size();
  }
};

bool send_file(int connection, int file) {
  Message message;
  cmsghdr* control = CMSG_FIRSTHDR(&message.header);
  control->cmsg_level = SOL_SOCKET;
  control->cmsg_type = SCM_RIGHTS;
  control->cmsg_len = CMSG_LEN(sizeof file);
  std::memcpy(CMSG_DATA(control), &file, sizeof file);
  return sendmsg(connection, &message.header, MSG_NOSIGNAL) == 1;
}

}  // namespace

FileSender::FileSender() {
  std::random_device random;
  for (int i = 0; i < 4; i++) {
    std::array<char, 9> digits{};
    std::snprintf(digits.data(), digits.size(), "%08x", random());
    name_ += digits.data();
  }
  name_ = "pytorch_ocl_" + name_;
  socket_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket_ < 0) fail("socket");
  const auto [address, size] = address_of(name_);
  if (bind(socket_, reinterpret_cast<const sockaddr*>(&address), size) != 0 || listen(socket_, SOMAXCONN) != 0) {
    close(socket_);
    fail("a socket of this host");
  }
}

FileSender::~FileSender() { close(socket_); }

void FileSender::send(int file, int count, std::chrono::milliseconds timeout) const {
  const auto end = Clock::now() + timeout;
  while (count > 0) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    pollfd wanted{socket_, POLLIN, 0};
    TORCH_CHECK(left > 0, "not all ranks asked for the device's memory in time");
    if (poll(&wanted, 1, int(left)) <= 0) continue;
    const int connection = accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (connection < 0) continue;
    if (is_this_users(connection) && send_file(connection, file)) count--;
    close(connection);
  }
}

FileServer::FileServer(std::function<int(std::uint32_t)> file_of) : file_of_(std::move(file_of)) {
  thread_ = std::thread([this] { serve(); });
}

FileServer::~FileServer() {
  ending_ = true;
  shutdown(sender_.socket_, SHUT_RDWR);  // wakes the thread
  thread_.join();
}

// Who asks and then says nothing keeps others waiting for a moment.
void FileServer::serve() {
  c10::setThreadName("pt_ocl_files");
  while (!ending_) {
    const int connection = accept4(sender_.socket_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) {
      if (!ending_) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      continue;
    }
    set_timeout(connection, std::chrono::seconds(1));
    std::uint32_t number = 0;
    if (is_this_users(connection) && recv(connection, &number, sizeof number, MSG_WAITALL) == sizeof number)
      if (const int file = file_of_(number); file >= 0) send_file(connection, file);
    close(connection);
  }
}

FileReceiver::FileReceiver(const std::string& name, std::chrono::milliseconds timeout) {
  socket_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket_ < 0) fail("socket");
  set_timeout(socket_, timeout);
  const auto [address, size] = address_of(name);
  const bool connected = connect(socket_, reinterpret_cast<const sockaddr*>(&address), size) == 0;
  if (connected && is_this_users(socket_)) return;
  const int code = connected ? EPERM : errno;
  close(socket_);
  errno = code;
  fail("another rank's socket");
}

FileReceiver::~FileReceiver() {
  if (socket_ >= 0) close(socket_);
}

void FileReceiver::ask(std::uint32_t number) const {
  if (::send(socket_, &number, sizeof number, MSG_NOSIGNAL) != sizeof number) fail("another rank's socket");
}

int FileReceiver::receive() const {
  Message message;
  if (recvmsg(socket_, &message.header, MSG_CMSG_CLOEXEC) != 1) fail("another rank's memory");
  const cmsghdr* control = CMSG_FIRSTHDR(&message.header);
  TORCH_CHECK(control && control->cmsg_type == SCM_RIGHTS && control->cmsg_len == CMSG_LEN(sizeof(int)),
              "another rank sent no memory");
  int file = -1;
  std::memcpy(&file, CMSG_DATA(control), sizeof file);
  return file;
}

#else

FileSender::FileSender() { TORCH_CHECK(false, "memory of devices is shared on Linux only"); }
FileSender::~FileSender() = default;
void FileSender::send(int, int, std::chrono::milliseconds) const {}
FileServer::FileServer(std::function<int(std::uint32_t)>) {}
FileServer::~FileServer() = default;
void FileServer::serve() {}
void FileReceiver::ask(std::uint32_t) const {}
FileReceiver::FileReceiver(const std::string&, std::chrono::milliseconds) {}
FileReceiver::~FileReceiver() = default;
int FileReceiver::receive() const { return socket_; }

#endif

}  // namespace pytorch_ocl::distributed
