// SPDX-License-Identifier: MIT
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
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
  friend class FileServer;
  int socket_ = -1;
  std::string name_;
};

/// Gives files to processes of the same user on this host for as long as it lives, in a thread of its own.
class FileServer {
 public:
  /// `file_of` gives the descriptor of a number that is asked for, or -1, at any time. Throws c10::Error.
  explicit FileServer(std::function<int(std::uint32_t)> file_of);
  ~FileServer();
  const std::string& name() const noexcept { return sender_.name(); }

 private:
  void serve();

  FileSender sender_;
  std::function<int(std::uint32_t)> file_of_;
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

/// Asks a FileSender of another process, or this one; receive() gets the descriptor, which may not have been sent yet.
class FileReceiver {
 public:
  /// Throws c10::Error where it is not there, or belongs to another user.
  FileReceiver(const std::string& name, std::chrono::milliseconds timeout);
  FileReceiver(FileReceiver&& other) noexcept : socket_(other.socket_) { other.socket_ = -1; }
  ~FileReceiver();
  /// Of a FileServer: says what is wanted, before receive().
  void ask(std::uint32_t number) const;
  /// The descriptor, which the caller closes. Throws c10::Error.
  int receive() const;

 private:
  int socket_ = -1;
};

}  // namespace pytorch_ocl::distributed
