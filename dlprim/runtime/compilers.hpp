// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/device.hpp>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace dlprim {

class Companion;

/// For the begin of main(): a program that calls it compiles by further processes of its own where dlprim_compiler does not
/// lie beside it. Started as such a process, it serves as one and does not return.
void answer_as_compiler(int count, char** arguments);

/// Who compiles for a device. NVIDIA's driver compiles one program at a time in a process, so that others are compiled by
/// further processes: the program dlprim_compiler beside this library, or this one (answer_as_compiler), up to 12, three
/// for four CPUs, and one for each 8 GiB of the device's memory, of which each takes some hundred MiB. They are started when they are needed,
/// some of them with the first program, and end after ten seconds without work. Once one has answered, this process leaves
/// all programs to them. Other drivers compile several programs at once in this process.
/// DLPRIM_COMPILERS=n says how many processes there may be, on any device; 0: none.
class Compilers {
 public:
  explicit Compilers(const Device& device);
  ~Compilers();

  /// The right to compile one program, here or in another process.
  class Turn {
   public:
    explicit Turn(Compilers& compilers);
    Turn(const Turn&) = delete;
    ~Turn();
    /// The binary of `text`, PTX for `target` where that is given; empty where this process has to compile it.
    std::string elsewhere(const std::string& options, const std::string& target, const std::string& text);

   private:
    Compilers& compilers_;
    std::unique_ptr<Companion> companion_;
  };

  /// The binary of `text`, built by a process that is started for it alone; empty where that ends, finds an error, or is
  /// none.
  std::string trial(const std::string& options, const std::string& text);

  /// Ends the processes that have nothing to do.
  void close_idle();

 private:
  bool may_own() const;
  void start_ahead();
  void take_own(std::unique_lock<std::mutex>& guard);
  std::unique_ptr<Companion> start() noexcept;

  std::string device_;
  bool limited_;
  unsigned most_;
  std::mutex mutex_;
  std::condition_variable free_;
  bool own_ = false;  // this process compiles
  bool answered_ = false;  // another one has
  unsigned running_ = 0;  // other processes
  std::vector<std::unique_ptr<Companion>> idle_;
};

}  // namespace dlprim
