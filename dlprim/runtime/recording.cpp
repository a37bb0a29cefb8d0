// SPDX-License-Identifier: MIT
#include <dlprim/runtime/recording.hpp>
#include <dlprim/runtime/status.hpp>

#include <algorithm>
#include <cstring>

#include "memory_address.hpp"

namespace dlprim {

namespace {
constexpr std::size_t alignment = 128;  // of memory, as far as kernels are chosen by it
thread_local Recording* recording = nullptr;

bool contains(const Recording::Piece& piece, const BufferRef& buffer) {
  return buffer.memory == piece.start.memory && buffer.offset >= piece.start.offset &&
         buffer.offset - piece.start.offset < piece.bytes;
}

bool overlap(const Recording::Piece& a, const Recording::Piece& b) {
  return contains(a, b.start) || contains(b, a.start);
}
}  // namespace

Recording::Recording(Queue& queue) : queue_(queue) {
  if (recording) throw Error("[recording] this thread records already");
  recording = this;
}

Recording::~Recording() {
  abandon();
  for (const auto& [bytes, block] : free_) queue_.device().allocator().release(block);
}

void Recording::abandon() noexcept {
  if (recording == this) recording = nullptr;
}

Recording* Recording::current() noexcept { return recording; }

void Recording::refuse(const char* why) {
  if (recording && recording->refusal_.empty()) recording->refusal_ = why;
}

void Recording::expect_queue(const Queue& queue) {
  if (&queue != &queue_) refuse("it runs on several streams");
}

void Recording::add_launch(const Queue& queue, Kernel& kernel, const NDRange& range,
                           std::span<const detail::Argument> arguments) {
  expect_queue(queue);
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

void Recording::add_copy(const Queue& queue, BufferRef to, BufferRef from, std::size_t bytes) {
  expect_queue(queue);
  Command& command = commands_.emplace_back();
  command.buffers = {to, from}, command.bytes = bytes;
}

void Recording::add_fill(const Queue& queue, BufferRef to, const void* pattern, std::size_t pattern_bytes,
                         std::size_t bytes) {
  expect_queue(queue);
  Command& command = commands_.emplace_back();
  const auto* start = static_cast<const std::byte*>(pattern);
  command.buffers = {to}, command.values.assign(start, start + pattern_bytes), command.bytes = bytes;
}

Block* Recording::take(std::size_t bytes, const Queue& queue) {
  if (&queue != &queue_) return nullptr;
  const auto found = free_.find(bytes);
  if (found == free_.end()) return nullptr;
  Block* block = found->second;
  free_.erase(found);
  return block;
}

bool Recording::keep(Block* block) noexcept {
  if (!own_.contains(block)) return false;
  free_.emplace(Allocator::size(block), block);
  return true;
}

bool Recording::is_own(const BufferRef& buffer) const {
  return std::any_of(free_.begin(), free_.end(), [&](const auto& entry) {
    return contains({Allocator::locate(Allocator::address(entry.second)), entry.first}, buffer);
  });
}

// Has replays put the memory they are given in the place of `buffer`, where it lies in that; returns what is wrong.
std::string Recording::bind(BufferRef& buffer, std::span<const Piece> given, std::span<const Piece> constant) {
  if (!buffer.memory) return {};
  for (std::size_t i = 0; i < given.size(); i++)
    if (contains(given[i], buffer)) {
      places_.push_back({&buffer, i, buffer.offset - given[i].start.offset});
      return {};
    }
  const auto holds = [&](const Piece& piece) { return contains(piece, buffer); };
  if (is_own(buffer) || std::any_of(constant.begin(), constant.end(), holds)) return {};
  if (!address::is_segment(buffer.memory)) {
    tables_.emplace_back(buffer.memory, true);
    return {};
  }
  return "it uses memory that is neither given to it nor its own";
}

std::string Recording::finish(std::span<const Piece> given, std::span<const Piece> constant) {
  abandon();
  for (std::size_t i = 0; i < given.size(); i++)
    for (std::size_t j = 0; j < i; j++)
      if (given[i].bytes && given[j].bytes && overlap(given[i], given[j])) return "its inputs overlap";
  for (const Piece& piece : given) offsets_.push_back(piece.start.offset);
  std::unordered_set<Block*> kept;
  for (const auto& [bytes, block] : free_) kept.insert(block);
  for (Block* block : own_) {
    const Piece whole{Allocator::locate(Allocator::address(block)), Allocator::size(block)};
    const auto within = [&](const Piece& piece) { return contains(whole, piece.start); };
    if (!kept.contains(block) && std::none_of(given.begin(), given.end(), within) && refusal_.empty())
      refusal_ = "it made memory that lives on";
  }
  own_.clear();
  for (Command& command : commands_)
    for (BufferRef& buffer : command.buffers)
      if (refusal_.empty()) refusal_ = bind(buffer, given, constant);
  return refusal_;
}

bool Recording::fits(std::span<const BufferRef> given) const noexcept {
  return std::equal(given.begin(), given.end(), offsets_.begin(), offsets_.end(),
                    [](const BufferRef& now, std::size_t was) { return now.offset % alignment == was % alignment; });
}

void Recording::run(const Command& command) {
  if (command.kernel) detail::launch(queue_, *command.kernel, command.range, {}, command.arguments);
  else if (command.values.empty()) queue_.copy(command.buffers[0], command.buffers[1], command.bytes);
  else queue_.fill(command.buffers[0], command.values.data(), command.values.size(), command.bytes);
}

void Recording::replay(std::span<const BufferRef> given) {
  std::lock_guard guard(mutex_);
  for (const Place& place : places_)
    *place.buffer = {given[place.given].memory, given[place.given].offset + place.offset};
  for (const char* message : messages_) queue_.status().arm(message);
  for (const Command& command : commands_) run(command);
}

}  // namespace dlprim
