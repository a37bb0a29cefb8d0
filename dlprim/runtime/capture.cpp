// SPDX-License-Identifier: MIT
#include <dlprim/runtime/capture.hpp>
#include <dlprim/runtime/recording.hpp>
#include <dlprim/runtime/status.hpp>

#include <algorithm>
#include <cstring>

namespace dlprim {

namespace {
// Of the memory of all captures, which is given back by any thread.
std::mutex& memory_mutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

// Sequence numbers scattered over 64 bits (splitmix64, Steele and others 2014): no argument has one of these by chance.
std::uint64_t scattered(std::uint64_t n) {
  n *= 0x9e3779b97f4a7c15u;
  n = (n ^ (n >> 30)) * 0xbf58476d1ce4e5b9u;
  n = (n ^ (n >> 27)) * 0x94d049bb133111ebu;
  return n ^ (n >> 31);
}
}  // namespace

Capture::Capture(Queue& queue) : queue_(queue) {
  if (Recording::current()) throw Error("[graph] this thread records already");
  if (!queue.begin_capture(*this)) throw Error("[graph] the stream is being captured already");
}

Capture::~Capture() {
  end();
  {
    std::lock_guard guard(memory_mutex());
    for (Block* block : memory_.in_use()) Allocator::set_keeper(block, nullptr);
    for (const auto& [bytes, block] : memory_.kept()) Allocator::set_keeper(block, nullptr);
  }
  for (const auto& [bytes, block] : memory_.kept()) queue_.device().allocator().release(block);
}

void Capture::end() noexcept { queue_.end_capture(*this); }

std::uint64_t Capture::placeholder() {
  static std::atomic<std::uint64_t> made{0};
  std::lock_guard guard(mutex_);
  return placeholders_.emplace_back(scattered(++made));
}

void Capture::finish() {
  end();
  std::lock_guard guard(mutex_);
  if (!failure_.empty()) throw Error("[graph] the capture failed before: " + failure_);
  commands_.each_value([&](std::span<std::byte> values) {
    for (std::size_t at = 0; at + sizeof(std::uint64_t) <= values.size(); at += sizeof(std::uint32_t)) {
      std::uint64_t value;
      std::memcpy(&value, values.data() + at, sizeof value);
      const auto found = std::find(placeholders_.begin(), placeholders_.end(), value);
      if (found != placeholders_.end())
        places_.push_back({values.data() + at, std::size_t(found - placeholders_.begin())});
    }
  });
  for (std::size_t i = 0; i < placeholders_.size(); i++)
    if (std::none_of(places_.begin(), places_.end(), [&](const Place& place) { return place.number == i; }))
      throw Error("[graph] random numbers of this kind cannot be drawn in a graph");
}

void Capture::replay(std::span<const std::uint64_t> numbers) {
  std::lock_guard guard(mutex_);
  for (const Place& place : places_) std::memcpy(place.value, &numbers[place.number], sizeof(std::uint64_t));
  for (const char* message : messages_) queue_.status().arm(message);
  commands_.run(queue_);
}

// Before the allocator may give it back to the driver.
void Capture::hold(std::span<const BufferRef> buffers) {
  for (const BufferRef& buffer : buffers)
    if (buffer.memory && !used_.contains(buffer.memory)) used_.emplace(buffer.memory, cl::Memory(buffer.memory, true));
}

void Capture::add_launch(Kernel& kernel, const NDRange& range, std::span<const detail::Argument> arguments) {
  std::lock_guard guard(mutex_);
  for (const detail::Argument& argument : arguments)
    if (argument.kind == detail::Argument::buffers) hold({static_cast<const BufferRef*>(argument.data), argument.size});
  commands_.add_launch(kernel, range, arguments);
}

void Capture::add_copy(BufferRef to, BufferRef from, std::size_t bytes) {
  std::lock_guard guard(mutex_);
  const BufferRef both[] = {to, from};
  hold(both);
  commands_.add_copy(to, from, bytes);
}

void Capture::add_fill(BufferRef to, const void* pattern, std::size_t pattern_bytes, std::size_t bytes) {
  std::lock_guard guard(mutex_);
  hold({&to, 1});
  commands_.add_fill(to, pattern, pattern_bytes, bytes);
}

void Capture::add_message(const char* message) {
  std::lock_guard guard(mutex_);
  messages_.insert(message);
}

void Capture::fail(const char* why) {
  std::lock_guard guard(mutex_);
  failure_ = why;
  throw Error("operation not permitted when stream is capturing a graph: " + failure_);
}

Block* Capture::take(std::size_t bytes) {
  std::lock_guard guard(memory_mutex());
  return memory_.take(bytes);
}

void Capture::allocated(Block* block) {
  std::lock_guard guard(memory_mutex());
  memory_.allocated(block);
  Allocator::set_keeper(block, this);
}

bool Capture::keep(Block* block) noexcept {
  std::lock_guard guard(memory_mutex());
  Capture* capture = Allocator::keeper(block);
  return capture && capture->memory_.keep(block);
}

}  // namespace dlprim
