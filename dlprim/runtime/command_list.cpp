// SPDX-License-Identifier: MIT
#include <dlprim/runtime/command_list.hpp>

#include <algorithm>
#include <cstring>

namespace dlprim {

void CommandList::add_launch(Kernel& kernel, const NDRange& range, std::span<const detail::Argument> arguments) {
  Command& command = commands_.emplace_back();
  command.kernel = &kernel, command.range = range;
  std::size_t values = 0, buffers = 0;
  for (const detail::Argument& argument : arguments) {
    if (argument.kind == detail::Argument::buffers) buffers += argument.size;
    else if (argument.data) values += (argument.size + 15) / 16 * 16;
  }
  command.values.resize(values), command.buffers.resize(buffers);
  std::byte* value = command.values.data();
  BufferRef* buffer = command.buffers.data();
  for (const detail::Argument& argument : arguments) {
    detail::Argument kept = argument;
    if (argument.kind == detail::Argument::buffers) {
      kept.data = buffer;
      buffer = std::copy_n(static_cast<const BufferRef*>(argument.data), argument.size, buffer);
    } else if (argument.data) {
      kept.data = value;
      std::memcpy(value, argument.data, argument.size);
      value += (argument.size + 15) / 16 * 16;
    }
    command.arguments.push_back(kept);
  }
}

void CommandList::add_copy(BufferRef to, BufferRef from, std::size_t bytes) {
  Command& command = commands_.emplace_back();
  command.buffers = {to, from}, command.bytes = bytes;
}

void CommandList::add_fill(BufferRef to, const void* pattern, std::size_t pattern_bytes, std::size_t bytes) {
  Command& command = commands_.emplace_back();
  const auto* start = static_cast<const std::byte*>(pattern);
  command.buffers = {to}, command.values.assign(start, start + pattern_bytes), command.bytes = bytes;
}

std::string CommandList::name(std::size_t command) const {
  const Command& one = commands_[command];
  return one.kernel ? one.kernel->name() : one.values.empty() ? "copy" : "fill";
}

void CommandList::run(Queue& queue, const Command& command) {
  if (command.kernel) detail::launch(queue, *command.kernel, command.range, {}, command.arguments);
  else if (command.values.empty()) queue.copy(command.buffers[0], command.buffers[1], command.bytes);
  else queue.fill(command.buffers[0], command.values.data(), command.values.size(), command.bytes);
}

void CommandList::run(Queue& queue) const {
  for (const Command& command : commands_) run(queue, command);
}

Block* CommandMemory::take(std::size_t bytes) {
  const auto found = kept_.lower_bound(bytes);
  if (found == kept_.end() || found->first - bytes > bytes / 4) return nullptr;
  Block* block = found->second;
  kept_.erase(found);
  return block;
}

bool CommandMemory::keep(Block* block) noexcept {
  if (!all_.contains(block)) return false;
  kept_.emplace(Allocator::size(block), block);
  return true;
}

std::vector<Block*> CommandMemory::in_use() const {
  std::unordered_set<Block*> rest = all_;
  for (const auto& [bytes, block] : kept_) rest.erase(block);
  return {rest.begin(), rest.end()};
}

}  // namespace dlprim
