// SPDX-License-Identifier: MIT
#include <dlprim/runtime/capture.hpp>
#include <dlprim/runtime/recording.hpp>
#include <dlprim/runtime/status.hpp>

#include <algorithm>
#include <cstring>

namespace dlprim {

namespace {
// Sequence numbers scattered over 64 bits (splitmix64, Steele and others 2014): no argument has one of these by chance.
constexpr std::uint64_t factors[] = {0x9e3779b97f4a7c15u, 0xbf58476d1ce4e5b9u, 0x94d049bb133111ebu};

std::uint64_t scattered(std::uint64_t n) {
  n *= factors[0];
  n = (n ^ (n >> 30)) * factors[1];
  n = (n ^ (n >> 27)) * factors[2];
  return n ^ (n >> 31);
}

// Of an odd number modulo 2^64, by Newton's iteration.
constexpr std::uint64_t inverse(std::uint64_t odd) {
  std::uint64_t x = odd;
  for (int i = 0; i < 6; i++) x *= 2 - odd * x;
  return x;
}

std::uint64_t gathered(std::uint64_t n) {
  n = (n ^ (n >> 31) ^ (n >> 62)) * inverse(factors[2]);
  n = (n ^ (n >> 27) ^ (n >> 54)) * inverse(factors[1]);
  return (n ^ (n >> 30) ^ (n >> 60)) * inverse(factors[0]);
}

std::atomic<std::uint64_t> placeholders_made{0};
}  // namespace

Capture::Capture(Queue& queue, std::shared_ptr<MemoryPool> pool, Later)
    : queue_(queue), pool_(std::move(pool)), tie_(std::make_shared<CaptureTie>()) {
  static std::atomic<std::uint64_t> made{0};
  id_ = ++made;
  if (!pool_) pool_ = std::make_shared<MemoryPool>(queue);
  if (&pool_->queue().device() != &queue.device()) throw Error("[graph] the memory pool is of another device");
  pool_->add_queue(queue);
}

Capture::Capture(Queue& queue, std::shared_ptr<MemoryPool> pool) : Capture(queue, std::move(pool), Later()) { begin(); }

void Capture::begin() {
  if (Recording::current()) throw Error("[graph] this thread records already");
  tie_->capture = this;
  if (!queue_.begin_capture(*this)) throw Error("[graph] the stream is being captured already");
}

Capture::~Capture() {
  end();
  try {
    queue_.submit();  // commands on their way name the memory
  } catch (const std::exception&) {
    // Nor do they reach a device that has failed.
  }
}

void Capture::end() noexcept {
  {
    std::lock_guard guard(tie_->mutex);
    tie_->capture = nullptr;
  }
  queue_.end_capture(*this);
  for (Queue* queue : joined_) queue->end_capture(*this);
}

void Capture::join(CaptureTie& tie, Queue& queue) {
  std::lock_guard guard(tie.mutex);
  if (!tie.capture) throw Error("operation not permitted on an event last recorded in a capturing stream");
  tie.capture->add_queue(queue);
}

void Capture::add_queue(Queue& queue) {
  if (queue.capture() == this) return;
  if (&queue.device() != &queue_.device()) fail("a stream of another device waits for it");
  queue.run_once("it waits for another stream that is captured");
  if (!queue.begin_capture(*this)) fail("a stream that is captured waits for it");
  joined_.push_back(&queue);
}

std::uint64_t Capture::new_number() { return scattered(++placeholders_made); }

std::uint64_t Capture::placeholder() {
  std::lock_guard guard(mutex_);
  return placeholders_.emplace_back(new_number());
}

bool Capture::is_placeholder(std::uint64_t number) noexcept {
  const std::uint64_t n = gathered(number);
  return n > 0 && n <= placeholders_made;
}

void Capture::finish() {
  end();
  std::lock_guard guard(mutex_);
  if (!failure_.empty()) throw Error("[graph] the capture failed before: " + failure_);
  commands_.each_value([&](std::span<std::byte> values) {
    for (std::size_t at = 0; at + sizeof(std::uint64_t) <= values.size(); at += sizeof(std::uint32_t)) {
      std::uint64_t value;
      std::memcpy(&value, values.data() + at, sizeof value);
      if (!is_placeholder(value)) continue;
      const auto found = std::find(placeholders_.begin(), placeholders_.end(), value);
      if (found == placeholders_.end()) throw Error("[graph] random numbers of another graph cannot be drawn in it");
      places_.push_back({values.data() + at, std::size_t(found - placeholders_.begin())});
    }
  });
  for (std::size_t i = 0; i < placeholders_.size(); i++)
    if (std::none_of(places_.begin(), places_.end(), [&](const Place& place) { return place.number == i; }))
      throw Error("[graph] random numbers of this kind cannot be drawn in a graph");
}

void Capture::replay(std::span<const std::uint64_t> numbers, Queue& in) {
  pool_->add_queue(in);
  std::lock_guard guard(mutex_);
  if (const CapturePin outer(in); outer) {
    outer->keep(pool_);
    for (const auto& [status, message] : messages_) outer->add_message(*status, message);
  }
  for (const Place& place : places_) std::memcpy(place.value, &numbers[place.number], sizeof(std::uint64_t));
  for (const auto& [status, message] : messages_) {
    status->arm(message);
    in.status().watch(*status);
  }
  commands_.run(in);
}

void Capture::keep(std::shared_ptr<MemoryPool> pool) {
  std::lock_guard guard(mutex_);
  kept_.push_back(std::move(pool));
}

BufferRef Capture::zeroed_counters() {
  std::lock_guard guard(mutex_);
  if (!counters_()) counters_ = Queue::new_counters(queue_.device());
  return {counters_(), 0};
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

void Capture::add_message(QueueStatus& status, const char* message) {
  std::lock_guard guard(mutex_);
  messages_.emplace(&status, message);
}

void Capture::fail(const char* why) {
  std::lock_guard guard(mutex_);
  failure_ = why;
  throw Error("operation not permitted when stream is capturing a graph: " + failure_);
}

}  // namespace dlprim
