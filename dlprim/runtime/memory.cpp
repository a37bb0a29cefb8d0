// SPDX-License-Identifier: MIT
#include <dlprim/runtime/capture.hpp>
#include <dlprim/runtime/memory.hpp>
#include <dlprim/runtime/recording.hpp>
#include <dlprim/runtime/submission.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <list>
#include <mutex>
#include <set>
#include <vector>

#include "free_memory.hpp"
#include "memory_address.hpp"
#include "simulate.hpp"

namespace dlprim {

namespace {
constexpr std::size_t minimum = 512;  // every block is a multiple, which also aligns it
constexpr std::size_t small_limit = std::size_t(1) << 20;  // larger blocks come from the large pool
constexpr std::size_t small_segment = std::size_t(2) << 20;
constexpr std::size_t large_limit = std::size_t(10) << 20;  // larger blocks get a segment of their own
constexpr std::size_t large_segment = std::size_t(20) << 20;
constexpr std::size_t segment_multiple = std::size_t(2) << 20;

std::size_t round_up(std::size_t value, std::size_t multiple) { return (value + multiple - 1) / multiple * multiple; }

std::string human(std::uint64_t bytes) {
  char text[32];
  if (bytes < 1024) return std::to_string(bytes) + " bytes";
  const char* units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = double(bytes) / 1024;
  int unit = 0;
  while (value >= 1024 && unit < 5) value /= 1024, unit++;
  std::snprintf(text, sizeof text, "%.2f %s", value, units[unit]);
  return text;
}

std::atomic<void (*)(const MemoryEvent&)> event_hook{nullptr};

bool is_exhaustion(cl_int code) {
  return code == CL_MEM_OBJECT_ALLOCATION_FAILURE || code == CL_OUT_OF_RESOURCES || code == CL_OUT_OF_HOST_MEMORY ||
         code == CL_INVALID_BUFFER_SIZE;
}
}  // namespace

struct Segment : address::Segment {
  cl::Buffer buffer;
  std::int64_t queue = 0, pool = 0;  // 0: of no MemoryPool
  bool small = false;
  Block* first = nullptr;
};

// A piece of a segment; the pieces of a segment form a list in address order.
struct Block {
  Segment* segment;
  std::size_t offset, size, requested = 0;
  bool used = false;
  Block *previous = nullptr, *next = nullptr;
  std::set<Queue*> other_queues{};  // that used it besides the segment's own
  int pending = 0;  // events to be reached before it is free
  std::uint64_t capture = 0;  // that it was allocated in
};

void MemoryStat::add(std::int64_t amount) noexcept {
  current += amount;
  peak = std::max(peak, current);
  (amount > 0 ? allocated : freed) += amount > 0 ? amount : -amount;
}

struct Allocator::Pool {
  struct Order {
    bool operator()(const Block* a, const Block* b) const noexcept {
      if (a->segment->pool != b->segment->pool) return a->segment->pool < b->segment->pool;
      if (a->segment->queue != b->segment->queue) return a->segment->queue < b->segment->queue;
      if (a->size != b->size) return a->size < b->size;
      return a->segment->base + a->offset < b->segment->base + b->offset;
    }
  };
  using Free = std::set<Block*, Order>;

  Device& device;
  std::mutex mutex;
  Free small, large;
  std::list<std::pair<Event, Block*>> waiting;
  std::set<Segment*> segments;
  double fraction = 1;
  MemoryStats stats;

  explicit Pool(Device& device) : device(device) {}
  std::uint64_t capacity() const { return std::uint64_t(double(device.info().global_memory) * fraction); }
  Free& free_of(const Segment& segment) { return segment.small ? small : large; }

  Block* find(std::size_t size, std::int64_t queue, std::int64_t pool) {
    Segment probe_segment;
    probe_segment.queue = queue, probe_segment.pool = pool;
    Block probe{&probe_segment, 0, size};
    Free& blocks = size <= small_limit ? small : large;
    auto found = blocks.lower_bound(&probe);
    if (found == blocks.end() || (*found)->segment->queue != queue || (*found)->segment->pool != pool) return nullptr;
    Block* block = *found;
    blocks.erase(found);
    return block;
  }

  // Cuts what `size` does not need off a free block and keeps it.
  void split(Block* block, std::size_t size) {
    const std::size_t rest = block->size - size;
    if (rest < (block->segment->small ? minimum : small_limit + 1)) return;
    auto* tail = new Block{block->segment, block->offset + size, rest};
    tail->previous = block, tail->next = block->next;
    if (block->next) block->next->previous = tail;
    block->next = tail;
    block->size = size;
    free_of(*block->segment).insert(tail);
  }

  // Joins `other`, a free neighbour, into `block`.
  void merge(Block* block, Block* other) {
    if (!other || other->used || other->pending) return;
    free_of(*block->segment).erase(other);
    if (other == block->previous) {
      block->offset = other->offset;
      block->previous = other->previous;
      if (block->previous) block->previous->next = block;
      else block->segment->first = block;
    } else {
      block->next = other->next;
      if (block->next) block->next->previous = block;
    }
    block->size += other->size;
    delete other;
  }

  void make_free(Block* block) {
    tell(MemoryEvent::released, *block);
    stats.active_bytes.add(-std::int64_t(block->size));
    merge(block, block->previous);
    merge(block, block->next);
    free_of(*block->segment).insert(block);
  }

  void collect_waiting(bool wait) {
    for (auto entry = waiting.begin(); entry != waiting.end();) {
      if (wait) entry->first.wait();
      else if (!entry->first.reached()) {
        ++entry;
        continue;
      }
      Block* block = entry->second;
      entry = waiting.erase(entry);
      if (--block->pending == 0) make_free(block);
    }
  }

  void tell(MemoryEvent::Kind kind, std::uint64_t address, std::size_t size, std::int64_t queue) const noexcept {
    if (auto* hook = event_hook.load(std::memory_order_relaxed)) hook({kind, &device, address, size, queue});
  }
  void tell(MemoryEvent::Kind kind, const Block& block) const noexcept {
    tell(kind, block.segment->base + block.offset, block.size, block.segment->queue);
  }

  // Memory that the device has no room for, as null; throws DeviceError for any other failure.
  cl::Buffer new_buffer(std::size_t bytes, Queue& queue) {
    cl_int code = CL_SUCCESS;
    cl::Buffer buffer(clCreateBuffer(device.context()(), CL_MEM_READ_WRITE, bytes, nullptr, &code));
    const char* call = "clCreateBuffer";
    // Some drivers commit memory at its first use only: use it now, where exhaustion can still be handled.
    const cl_int zero = 0;
    if (code == CL_SUCCESS) {
      call = "clEnqueueFillBuffer";
      code = clEnqueueFillBuffer(queue.handle(), buffer(), &zero, sizeof zero, 0, sizeof zero, 0, nullptr, nullptr);
    }
    if (code == CL_SUCCESS) return buffer;
    if (!is_exhaustion(code)) check(code, call);
    // A device that has failed may report this, too; then it cannot finish its work either.
    check(clFinish(queue.get()), "clFinish");
    return {};
  }

  // A new segment as one free block, or null when the device has no room.
  Block* new_segment(std::size_t size, Queue& queue, std::int64_t pool) {
    const bool is_small = size <= small_limit;
    const std::size_t bytes = is_small              ? small_segment
                              : size <= large_limit ? large_segment
                                                    : round_up(size, segment_multiple);
    if (std::uint64_t(stats.reserved_bytes.current) + bytes > capacity()) return nullptr;
    if (simulation() && bytes > device.info().max_allocation) return nullptr;
    auto segment = std::make_unique<Segment>();
    segment->buffer = new_buffer(bytes, queue);
    if (!segment->buffer()) return nullptr;
    if (pool != 0) check(clFinish(queue.handle()), "clFinish");  // it may be used first by another queue
    segment->device = &device, segment->memory = segment->buffer(), segment->size = bytes;
    segment->queue = queue.id(), segment->pool = pool, segment->small = is_small;
    if (!address::publish(*segment)) return nullptr;
    segment->first = new Block{segment.get(), 0, bytes};
    segments.insert(segment.get());
    stats.segments.add(1);
    stats.reserved_bytes.add(std::int64_t(bytes));
    tell(MemoryEvent::segment_allocated, *segment->first);
    return segment.release()->first;
  }

  void release_segments() {
    if (Submission* submission = device.submission()) submission->wait();  // commands on their way name the buffers
    collect_waiting(true);
    for (Free* blocks : {&small, &large})
      for (auto entry = blocks->begin(); entry != blocks->end();) {
        Block* block = *entry;
        if (block->previous || block->next || block->segment->pool != 0) {
          ++entry;
          continue;
        }
        entry = blocks->erase(entry);
        tell(MemoryEvent::segment_released, *block);
        stats.segments.add(-1);
        stats.reserved_bytes.add(-std::int64_t(block->segment->size));
        address::retract(*block->segment);
        segments.erase(block->segment);
        delete block->segment;
        delete block;
      }
  }

  [[noreturn]] void exhausted(std::size_t bytes) {
    stats.out_of_memory++;
    const auto total = capacity();
    const auto reserved = std::uint64_t(stats.reserved_bytes.current);
    tell(MemoryEvent::exhausted, total - std::min<std::uint64_t>(total, reserved), bytes, 0);
    throw OutOfMemoryError(
        "OpenCL out of memory. Tried to allocate " + human(bytes) + ". Device " + std::to_string(device.index()) +
        " (" + device.info().name + ") has a total capacity of " + human(total) + " of which " +
        human(total - std::min<std::uint64_t>(total, reserved)) + " is free. Of the memory reserved here, " +
        human(std::uint64_t(stats.allocated_bytes.current)) + " is allocated and " +
        human(reserved - std::uint64_t(stats.allocated_bytes.current)) + " is reserved but unallocated.");
  }
};

Allocator::Allocator(Device& device) : device_(device), pool_(std::make_unique<Pool>(device)) {}
Allocator::~Allocator() = default;

Block* Allocator::allocate(std::size_t bytes, Queue& queue) {
  std::shared_ptr<MemoryPool> own;  // may be the last that holds it: then it ends without the lock
  std::uint64_t captured = 0;
  if (const CapturePin capture(queue); capture) own = capture->pool(), captured = capture->id();
  Pool& pool = *pool_;
  std::lock_guard guard(pool.mutex);
  if (bytes > pool.capacity()) pool.exhausted(bytes);
  const std::size_t size = round_up(std::max(bytes, minimum), minimum);
  Recording* recording = Recording::current();
  if (recording)
    if (Block* kept = recording->take(size, queue)) return kept;
  Queue& user = own ? own->queue() : queue;
  const std::int64_t number = own ? own->id() : 0;
  if (!pool.waiting.empty()) pool.collect_waiting(false);
  Block* block = pool.find(size, user.id(), number);
  if (!block) block = pool.new_segment(size, user, number);
  if (!block) {
    pool.stats.retries++;
    pool.release_segments();
    block = pool.new_segment(size, user, number);
  }
  if (!block) pool.exhausted(bytes);
  pool.split(block, size);
  block->used = true;
  block->requested = bytes;
  block->capture = captured;
  if (&user != &queue) block->other_queues.insert(&queue);
  pool.stats.allocations.add(1);
  pool.stats.allocated_bytes.add(std::int64_t(block->size));
  pool.stats.active_bytes.add(std::int64_t(block->size));
  pool.stats.requested_bytes.add(std::int64_t(bytes));
  pool.tell(MemoryEvent::allocated, *block);
  if (recording) recording->allocated(block);
  return block;
}

void Allocator::release(Block* block) noexcept {
  if (Recording* recording = Recording::current(); recording && recording->keep(block)) return;
  Pool& pool = *pool_;
  std::lock_guard guard(pool.mutex);
  pool.tell(MemoryEvent::release_requested, *block);
  block->used = false;
  pool.stats.allocations.add(-1);
  pool.stats.allocated_bytes.add(-std::int64_t(block->size));
  pool.stats.requested_bytes.add(-std::int64_t(block->requested));
  try {
    for (Queue* queue : block->other_queues) {
      if (const CapturePin capture(*queue); capture && capture->id() == block->capture) continue;  // in one order
      pool.waiting.emplace_back(queue->mark_enqueued(), block);
      block->pending++;
    }
  } catch (const std::exception&) {
    // The device has failed: nothing that runs on it can use the block any more.
  }
  block->other_queues.clear();
  if (block->pending == 0) pool.make_free(block);
}

// Free blocks are sorted by their pool.
void Allocator::end_pool(std::int64_t pool) noexcept {
  std::lock_guard guard(pool_->mutex);
  for (Segment* segment : pool_->segments) {
    if (segment->pool != pool) continue;
    std::vector<Pool::Free::node_type> free;
    for (Block* block = segment->first; block; block = block->next)
      if (auto node = pool_->free_of(*segment).extract(block)) free.push_back(std::move(node));
    segment->pool = 0;
    for (auto& node : free) pool_->free_of(*segment).insert(std::move(node));
  }
}

MemoryPool::MemoryPool(Queue& queue) : queue_(queue) {
  static std::atomic<std::int64_t> made{0};
  id_ = ++made;
}

void MemoryPool::add_queue(Queue& queue) {
  std::lock_guard guard(mutex_);
  if (&queue != &queue_ && std::ranges::find(others_, &queue) == others_.end()) others_.push_back(&queue);
}

// Later work of the first queue comes after what that still does with the memory, but not after the others'.
MemoryPool::~MemoryPool() {
  for (Queue* other : others_) {
    try {
      other->mark_enqueued().wait();
    } catch (const std::exception&) {
      // The device has failed: nothing that runs on it can use the memory any more.
    }
  }
  queue().device().allocator().end_pool(id_);
}

void Allocator::record_queue(Block* block, Queue& queue) {
  std::lock_guard guard(pool_->mutex);
  if (block->segment->queue != queue.id()) block->other_queues.insert(&queue);
}

void Allocator::empty_cache() {
  std::lock_guard guard(pool_->mutex);
  pool_->release_segments();
}

MemoryStats Allocator::stats() const {
  std::lock_guard guard(pool_->mutex);
  return pool_->stats;
}

namespace {
std::array<MemoryStat*, 6> all_of(MemoryStats& s) {
  return {&s.allocations, &s.segments, &s.allocated_bytes, &s.reserved_bytes, &s.active_bytes, &s.requested_bytes};
}
}  // namespace

void Allocator::reset_peak_stats() {
  std::lock_guard guard(pool_->mutex);
  for (MemoryStat* stat : all_of(pool_->stats)) stat->reset_peak();
}

void Allocator::reset_accumulated_stats() {
  std::lock_guard guard(pool_->mutex);
  for (MemoryStat* stat : all_of(pool_->stats)) stat->reset_totals();
  pool_->stats.retries = pool_->stats.out_of_memory = 0;
}

void Allocator::set_fraction(double fraction) {
  if (!(fraction >= 0 && fraction <= 1))
    throw ValidationError("[allocator] expected a fraction from 0 to 1, got " + std::to_string(fraction));
  std::lock_guard guard(pool_->mutex);
  pool_->fraction = fraction;
}

void Allocator::on_event(void (*hook)(const MemoryEvent&)) noexcept { event_hook = hook; }

std::uint64_t Allocator::free_bytes() const {
  const std::uint64_t total = device_.info().global_memory;
  std::lock_guard guard(pool_->mutex);
  const std::uint64_t untaken = total - std::min(total, std::uint64_t(pool_->stats.reserved_bytes.current));
  // A limit of the user's may leave less than the device has.
  return std::min(untaken, free_memory(device_).value_or(untaken));
}

double Allocator::fraction() const {
  std::lock_guard guard(pool_->mutex);
  return pool_->fraction;
}

std::vector<SegmentInfo> Allocator::segments() const {
  std::lock_guard guard(pool_->mutex);
  std::vector<SegmentInfo> all;
  for (const Segment* segment : pool_->segments) {
    SegmentInfo& info = all.emplace_back(SegmentInfo{segment->base, segment->size, segment->queue, segment->small, {}});
    for (const Block* block = segment->first; block; block = block->next)
      info.pieces.push_back({segment->base + block->offset, block->size, block->used ? block->requested : 0,
                             block->used, block->pending > 0});
  }
  return all;
}

void* Allocator::address(const Block* block) noexcept {
  return reinterpret_cast<void*>(block->segment->base + block->offset);
}

std::size_t Allocator::size(const Block* block) noexcept { return block->size; }

Device& Allocator::device(const Block* block) noexcept { return *block->segment->device; }

BufferRef Allocator::locate(const void* pointer) noexcept {
  const auto value = reinterpret_cast<std::uintptr_t>(pointer);
  const address::Segment* segment = address::find(value);
  return segment ? BufferRef{segment->memory, std::size_t(value - segment->base)} : BufferRef{};
}

Device* Allocator::device_of(const void* pointer) noexcept {
  const address::Segment* segment = address::find(reinterpret_cast<std::uintptr_t>(pointer));
  return segment ? segment->device : nullptr;
}

Workspace::Workspace(Queue& queue, std::size_t bytes) : allocator_(&queue.device().allocator()) {
  if (bytes) block_ = allocator_->allocate(bytes, queue);
}

Workspace::Workspace(Workspace&& other) noexcept : allocator_(other.allocator_), block_(other.block_) {
  other.block_ = nullptr;
}

Workspace& Workspace::operator=(Workspace&& other) noexcept {
  std::swap(allocator_, other.allocator_);
  std::swap(block_, other.block_);
  return *this;
}

Workspace::~Workspace() {
  if (block_) allocator_->release(block_);
}

BufferRef Workspace::data() const noexcept {
  return block_ ? BufferRef{block_->segment->memory, block_->offset} : BufferRef{};
}

}  // namespace dlprim
