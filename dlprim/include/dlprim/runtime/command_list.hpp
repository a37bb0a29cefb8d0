// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/launch.hpp>
#include <dlprim/runtime/memory.hpp>

#include <deque>
#include <map>
#include <unordered_set>
#include <vector>

namespace dlprim {

/// Commands of a queue with copies of all their arguments, which can be run again.
class CommandList {
 public:
  void add_launch(Kernel& kernel, const NDRange& range, std::span<const detail::Argument> arguments);
  void add_copy(BufferRef to, BufferRef from, std::size_t bytes);
  void add_fill(BufferRef to, const void* pattern, std::size_t pattern_bytes, std::size_t bytes);
  /// Throws what the commands throw.
  void run(Queue& queue) const;
  std::size_t size() const noexcept { return commands_.size(); }
  /// The kernel's name, "copy" or "fill".
  std::string name(std::size_t command) const;

  /// Calls `visit` with every BufferRef&, which stays where it is while the list lives.
  template <class Visit>
  void each_buffer(Visit&& visit) {
    for (Command& command : commands_)
      for (BufferRef& buffer : command.buffers) visit(buffer);
  }
  /// Calls `visit` with the bytes of every kernel's plain arguments, each from a multiple of 16 on.
  template <class Visit>
  void each_value(Visit&& visit) {
    for (Command& command : commands_)
      if (command.kernel) visit(std::span<std::byte>(command.values));
  }

 private:
  struct Command {
    Kernel* kernel = nullptr;  // null: a copy or a fill
    NDRange range{1};
    std::vector<detail::Argument> arguments{};
    std::vector<std::byte> values{};  // arguments by value, or a fill's pattern
    std::vector<BufferRef> buffers{};  // of a copy: to and from
    std::size_t bytes = 0;
  };
  static void run(Queue& queue, const Command& command);

  std::deque<Command> commands_;
};

/// Blocks that were allocated for a list's commands: those given back stay with the list, for commands behind them.
class CommandMemory {
 public:
  /// A block of `bytes`, or little more, that was given back, or null.
  Block* take(std::size_t bytes);
  void allocated(Block* block) { all_.insert(block); }
  /// Whether the list keeps a block that is given back.
  bool keep(Block* block) noexcept;
  /// Blocks that are in use outside of the list.
  std::vector<Block*> in_use() const;
  /// Forgets these.
  void let_go() noexcept { all_.clear(); }
  const std::multimap<std::size_t, Block*>& kept() const noexcept { return kept_; }

 private:
  std::unordered_set<Block*> all_;
  std::multimap<std::size_t, Block*> kept_;  // by size
};

}  // namespace dlprim
