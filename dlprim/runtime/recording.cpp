// SPDX-License-Identifier: MIT
#include <dlprim/runtime/recording.hpp>
#include <dlprim/runtime/status.hpp>

#include <algorithm>

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
  for (const auto& [bytes, block] : memory_.kept()) queue_.device().allocator().release(block);
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
  commands_.add_launch(kernel, range, arguments);
}

void Recording::add_copy(const Queue& queue, BufferRef to, BufferRef from, std::size_t bytes) {
  expect_queue(queue);
  commands_.add_copy(to, from, bytes);
}

void Recording::add_fill(const Queue& queue, BufferRef to, const void* pattern, std::size_t pattern_bytes,
                         std::size_t bytes) {
  expect_queue(queue);
  commands_.add_fill(to, pattern, pattern_bytes, bytes);
}

Block* Recording::take(std::size_t bytes, const Queue& queue) {
  return &queue == &queue_ ? memory_.take(bytes) : nullptr;
}

bool Recording::is_own(const BufferRef& buffer) const {
  return std::any_of(memory_.kept().begin(), memory_.kept().end(), [&](const auto& entry) {
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
  for (Block* block : memory_.in_use()) {
    const Piece whole{Allocator::locate(Allocator::address(block)), Allocator::size(block)};
    const auto within = [&](const Piece& piece) { return contains(whole, piece.start); };
    if (std::none_of(given.begin(), given.end(), within) && refusal_.empty()) refusal_ = "it made memory that lives on";
  }
  memory_.let_go();
  commands_.each_buffer([&](BufferRef& buffer) {
    if (refusal_.empty()) refusal_ = bind(buffer, given, constant);
  });
  return refusal_;
}

bool Recording::fits(std::span<const BufferRef> given) const noexcept {
  return std::equal(given.begin(), given.end(), offsets_.begin(), offsets_.end(),
                    [](const BufferRef& now, std::size_t was) { return now.offset % alignment == was % alignment; });
}

void Recording::replay(std::span<const BufferRef> given) {
  std::lock_guard guard(mutex_);
  for (const Place& place : places_)
    *place.buffer = {given[place.given].memory, given[place.given].offset + place.offset};
  for (const char* message : messages_) queue_.status().arm(message);
  commands_.run(queue_);
}

}  // namespace dlprim
