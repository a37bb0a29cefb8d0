// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/command_list.hpp>

#include <mutex>
#include <set>
#include <string>

namespace dlprim {

/// Commands of a queue that are run again, as often as wished, without the code that led to them: they may read and
/// write other memory than when they were recorded where that is named. What they used in between stays theirs.
///
/// A recording starts when it is made and is of what the making thread does until finish(). Commands run while they are
/// recorded. Whoever does something that cannot be done again, such as reading from the device, calls refuse().
class Recording {
 public:
  struct Piece {
    BufferRef start;
    std::size_t bytes;
  };

  /// Throws Error where the calling thread records already.
  explicit Recording(Queue& queue);
  Recording(const Recording&) = delete;
  ~Recording();

  /// Ends the recording. `given` is what replays name anew, inputs and results: pieces that do not overlap. `constant`
  /// pieces stay what they are; the caller keeps them. Returns why there can be no replay, or nothing.
  std::string finish(std::span<const Piece> given, std::span<const Piece> constant);
  /// Ends the recording where something failed.
  void abandon() noexcept;
  /// Whether `given` may stand for the recorded pieces: kernels were chosen by where their memory is aligned.
  bool fits(std::span<const BufferRef> given) const noexcept;
  /// Runs the commands again. Throws as they did. Thread-safe.
  void replay(std::span<const BufferRef> given);
  Queue& queue() const noexcept { return queue_; }
  std::size_t commands() const noexcept { return commands_.size(); }

  /// What the calling thread records into, or null.
  static Recording* current() noexcept;
  /// Says why what the calling thread records cannot be replayed; does nothing where it does not record.
  static void refuse(const char* why);

  // For those who run commands.
  void add_launch(const Queue& queue, Kernel& kernel, const NDRange& range,
                  std::span<const detail::Argument> arguments);
  void add_copy(const Queue& queue, BufferRef to, BufferRef from, std::size_t bytes);
  void add_fill(const Queue& queue, BufferRef to, const void* pattern, std::size_t pattern_bytes, std::size_t bytes);
  void add_message(const char* message) { messages_.insert(message); }
  /// Memory that was released within the recording, or null.
  Block* take(std::size_t bytes, const Queue& queue);
  void allocated(Block* block) { memory_.allocated(block); }
  /// Whether the recording keeps a block that is released.
  bool keep(Block* block) noexcept { return memory_.keep(block); }

 private:
  struct Place {
    BufferRef* buffer;
    std::size_t given, offset;
  };

  void expect_queue(const Queue& queue);
  bool is_own(const BufferRef& buffer) const;
  std::string bind(BufferRef& buffer, std::span<const Piece> given, std::span<const Piece> constant);

  Queue& queue_;
  CommandList commands_;
  std::vector<Place> places_;
  std::vector<std::size_t> offsets_;  // of the given pieces
  std::set<const char*> messages_;
  CommandMemory memory_;
  std::vector<cl::Memory> tables_;  // memory of no Allocator that commands read
  std::string refusal_;
  std::mutex mutex_;
};

}  // namespace dlprim
