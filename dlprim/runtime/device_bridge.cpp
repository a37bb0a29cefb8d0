// SPDX-License-Identifier: MIT
#include "device_bridge.hpp"

#include <algorithm>

#include "staging.hpp"

namespace dlprim {

namespace {

// Pieces that are read while one is written.
constexpr std::size_t ahead = 3;

}  // namespace

DeviceBridge::DeviceBridge(Device& source, Device& target)
    : memory_(host_pages(slots * Staging::largest_piece)),
      from_source_(source, memory_.get(), slots * Staging::largest_piece),
      to_target_(target, memory_.get(), slots * Staging::largest_piece) {}

DeviceBridge::~DeviceBridge() {
  try {
    for (Slot& slot : slots_) slot.read.wait(), slot.written.wait();
  } catch (const std::exception&) {
    // The device is lost, and its copies with it.
  }
}

std::byte* DeviceBridge::slot_memory(std::size_t number) const {
  return memory_.get() + number % slots * Staging::largest_piece;
}

bool DeviceBridge::is_fast(Queue& queue, BufferRef from, Queue& target, BufferRef to, std::size_t bytes) {
  std::lock_guard guard(mutex_);
  const std::size_t piece = std::min(bytes, Staging::largest_piece);
  return from_source_.is_fast(queue, from, piece, true) && to_target_.is_fast(target, to, piece, false);
}

void DeviceBridge::send(Queue& queue, BufferRef from, Queue& target, BufferRef to, std::size_t bytes) {
  std::lock_guard guard(mutex_);
  const std::size_t piece = Staging::piece_of(bytes), pieces = (bytes + piece - 1) / piece;
  const auto size_of = [&](std::size_t i) { return std::min(piece, bytes - i * piece); };
  const auto read = [&](std::size_t i) {
    Slot& slot = slots_[i % slots];
    slot.read.wait();  // of a copy that failed half way
    slot.written.wait();
    slot.read = Staging::enqueue_read(queue, slot_memory(i), from + i * piece, size_of(i));
  };
  for (std::size_t i = 0; i < std::min(pieces, ahead); i++) read(i);
  for (std::size_t i = 0; i < pieces; i++) {
    if (i + ahead < pieces) read(i + ahead);
    Slot& slot = slots_[i % slots];
    slot.read.wait();
    slot.written = Staging::enqueue_write(target, to + i * piece, slot_memory(i), size_of(i));
  }
}

}  // namespace dlprim
