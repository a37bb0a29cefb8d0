// SPDX-License-Identifier: MIT
#include "staging.hpp"

#include <dlprim/runtime/environment.hpp>
#include <dlprim/runtime/host_memory.hpp>
#include <dlprim/runtime/parallel.hpp>
#include <dlprim/runtime/profile.hpp>

#include <algorithm>

#include "device_bridge.hpp"

namespace dlprim {

namespace {

constexpr std::size_t smallest_piece = std::size_t(256) << 10;
// Below this a driver's own copy takes less time than handing over pieces.
constexpr std::size_t worthwhile = std::size_t(1) << 20;

bool has_own_memory(const DeviceInfo& device) { return !device.cpu && !device.unified_memory; }

// What follows a command: the profiler hears of it, and the driver starts it.
Event under_way(cl_event made, const char* name, Queue& queue, std::size_t bytes) {
  Event event{cl::Event(made)};
  if (Profiler::enabled()) {
    clRetainEvent(event.get());  // the profiler releases it
    Profiler::record(event.get(), name, queue.device().index(), queue.id(), bytes);
  }
  queue.enqueued();
  queue.flush();
  return event;
}

}  // namespace

Staging::Staging(Device& device) : device_(device) {}

Staging::~Staging() = default;

std::size_t Staging::piece_of(std::size_t bytes) {
  const std::size_t quarter = (bytes / 4 + smallest_piece - 1) / smallest_piece * smallest_piece;
  return std::clamp(quarter, smallest_piece, largest_piece);
}

Event Staging::enqueue_read(Queue& queue, void* to, BufferRef from, std::size_t bytes) {
  cl_event event = nullptr;
  check(clEnqueueReadBuffer(queue.get(), from.memory, CL_FALSE, from.offset, bytes, to, 0, nullptr, &event),
        "clEnqueueReadBuffer");
  return under_way(event, "copy device to host", queue, bytes);
}

Event Staging::enqueue_write(Queue& queue, BufferRef to, const void* from, std::size_t bytes) {
  cl_event event = nullptr;
  check(clEnqueueWriteBuffer(queue.get(), to.memory, CL_FALSE, to.offset, bytes, from, 0, nullptr, &event),
        "clEnqueueWriteBuffer");
  return under_way(event, "copy host to device", queue, bytes);
}

bool Staging::serves_devices() const {
  return environment::choice("DLPRIM_STAGED_COPIES").value_or(has_own_memory(device_.info()));
}

bool Staging::serves(const void* host, std::size_t bytes) const {
  if (!serves_devices()) return false;
  return (bytes >= worthwhile || environment::is_on("DLPRIM_STAGED_COPIES")) && !device_.host_memory().contains(host);
}

void Staging::open(Lane& lane) {
  for (Slot& slot : lane.slots)
    if (!slot.memory) slot.memory = static_cast<std::byte*>(device_.host_memory().allocate(largest_piece));
}

// Expects the lane to the device to be locked.
void Staging::put(Queue& queue, std::size_t number, BufferRef to, const void* from, std::size_t bytes) {
  Slot& slot = to_device_.slots[number % to_device_.slots.size()];
  slot.event.wait();
  parallel_copy(slot.memory, from, bytes);
  slot.event = enqueue_write(queue, to, slot.memory, bytes);
}

void Staging::write(Queue& queue, BufferRef to, const void* from, std::size_t bytes) {
  std::lock_guard guard(to_device_.mutex);
  open(to_device_);
  const std::size_t piece = piece_of(bytes);
  for (std::size_t at = 0, number = 0; at < bytes; at += piece, number++)
    put(queue, number, to + at, static_cast<const std::byte*>(from) + at, std::min(piece, bytes - at));
}

// Calls take(memory, offset, size) with each piece in order, while later ones are on their way. Expects the lane to the
// host to be locked.
template <class Take>
void Staging::fetch(Queue& queue, BufferRef from, std::size_t bytes, const Take& take) {
  open(to_host_);
  auto& slots = to_host_.slots;
  const std::size_t piece = piece_of(bytes), pieces = (bytes + piece - 1) / piece;
  const auto size_of = [&](std::size_t i) { return std::min(piece, bytes - i * piece); };
  const auto request = [&](std::size_t i) {
    Slot& slot = slots[i % slots.size()];
    slot.event.wait();  // of a copy that failed half way
    slot.event = enqueue_read(queue, slot.memory, from + i * piece, size_of(i));
  };
  for (std::size_t i = 0; i < std::min(pieces, slots.size()); i++) request(i);
  for (std::size_t i = 0; i < pieces; i++) {
    Slot& slot = slots[i % slots.size()];
    slot.event.wait();
    take(slot.memory, i * piece, size_of(i));
    if (i + slots.size() < pieces) request(i + slots.size());
  }
}

void Staging::read(Queue& queue, void* to, BufferRef from, std::size_t bytes) {
  std::lock_guard guard(to_host_.mutex);
  fetch(queue, from, bytes, [&](const std::byte* memory, std::size_t at, std::size_t size) {
    parallel_copy(static_cast<std::byte*>(to) + at, memory, size);
  });
}

DeviceBridge* Staging::bridge(Queue& queue, BufferRef from, Queue& target, BufferRef to, std::size_t bytes) {
  std::lock_guard guard(bridges_mutex_);
  const auto [entry, is_new] = bridges_.try_emplace(target.device().index());
  if (is_new) {
    auto made = std::make_unique<DeviceBridge>(device_, target.device());
    if (*made && made->is_fast(queue, from, target, to, bytes)) entry->second = std::move(made);
  }
  return entry->second.get();
}

// Memory that one driver's context pinned is pageable to another's: without a bridge, every piece is copied once on the
// host.
void Staging::send(Queue& queue, BufferRef from, Queue& target, BufferRef to, std::size_t bytes) {
  if (bytes >= worthwhile)
    if (DeviceBridge* way = bridge(queue, from, target, to, bytes)) return way->send(queue, from, target, to, bytes);
  Staging& other = target.device().staging();
  std::scoped_lock guard(to_host_.mutex, other.to_device_.mutex);
  other.open(other.to_device_);
  std::size_t number = 0;
  fetch(queue, from, bytes, [&](const std::byte* memory, std::size_t at, std::size_t size) {
    other.put(target, number++, to + at, memory, size);
  });
}

}  // namespace dlprim
