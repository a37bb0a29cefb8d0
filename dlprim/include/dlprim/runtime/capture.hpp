// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/command_list.hpp>

#include <mutex>
#include <set>
#include <string>

namespace dlprim {

/// What any thread puts into a queue from when this is made until finish(): noted instead of run, and run by replay() as
/// often as wished, with the memory that it named. Memory allocated for the queue meanwhile stays the capture's own until
/// that is destroyed, even where it is given back; other memory must be kept by the caller. A queue has one at a time.
///
/// Work that cannot be noted, such as reading from the device, throws Error, and so does finish() behind it.
class Capture {
 public:
  /// Throws Error where the queue is captured or the calling thread records.
  explicit Capture(Queue& queue);
  Capture(const Capture&) = delete;
  virtual ~Capture();

  /// A number that 64-bit arguments of kernels have the place of one by, which each replay is given: the first call's
  /// is the first of these.
  std::uint64_t placeholder();
  /// Ends the capture. Throws Error where something could not be noted, or a placeholder is nowhere an argument.
  void finish();
  /// Runs the commands in their queue. `numbers` are those of the placeholders. Throws as commands do. Thread-safe.
  void replay(std::span<const std::uint64_t> numbers);

  Queue& queue() const noexcept { return queue_; }
  const CommandList& commands() const noexcept { return commands_; }

  // For those who run commands.
  void add_launch(Kernel& kernel, const NDRange& range, std::span<const detail::Argument> arguments);
  void add_copy(BufferRef to, BufferRef from, std::size_t bytes);
  void add_fill(BufferRef to, const void* pattern, std::size_t pattern_bytes, std::size_t bytes);
  void add_message(const char* message);
  [[noreturn]] void fail(const char* why);
  Block* take(std::size_t bytes);
  void allocated(Block* block);
  /// Whether a capture keeps a block that is given back.
  static bool keep(Block* block) noexcept;

 private:
  struct Place {
    std::byte* value;
    std::size_t number;
  };
  void end() noexcept;
  void hold(std::span<const BufferRef> buffers);

  Queue& queue_;
  std::mutex mutex_;
  CommandList commands_;
  CommandMemory memory_;
  std::map<::_cl_mem*, cl::Memory> used_;  // that commands name
  std::vector<std::uint64_t> placeholders_;
  std::vector<Place> places_;
  std::set<const char*> messages_;
  std::string failure_;
};

}  // namespace dlprim
