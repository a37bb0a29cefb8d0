// SPDX-License-Identifier: MIT
#pragma once
#include <chrono>
#include <string>
#include <vector>

namespace pytorch_ocl::distributed {

/// Sends a file descriptor to processes of the same user on this host, through a socket without a name in any file
/// system.
class FileSender {
 public:
  /// Listens. Throws c10::Error.
  FileSender();
  FileSender(const FileSender&) = delete;
  ~FileSender();
  /// What receivers need.
  const std::string& name() const noexcept { return name_; }
  /// Sends `file` to the first `count` processes of this user that ask. Throws c10::Error where fewer do in time.
  void send(int file, int count, std::chrono::milliseconds timeout) const;

 private:
  int socket_ = -1;
  std::string name_;
};

/// Asks a FileSender of another process, or this one; receive() gets the descriptor, which may not have been sent yet.
class FileReceiver {
 public:
  /// Throws c10::Error where it is not there, or belongs to another user.
  FileReceiver(const std::string& name, std::chrono::milliseconds timeout);
  FileReceiver(FileReceiver&& other) noexcept : socket_(other.socket_) { other.socket_ = -1; }
  ~FileReceiver();
  /// The descriptor, which the caller closes. Throws c10::Error.
  int receive() const;

 private:
  int socket_ = -1;
};

}  // namespace pytorch_ocl::distributed
