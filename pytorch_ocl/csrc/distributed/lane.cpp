// SPDX-License-Identifier: MIT
#include "lane.hpp"

#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <dlprim/runtime/parallel.hpp>

#include <algorithm>

#include "runtime/device.hpp"
#include "runtime/tensor.hpp"

namespace pytorch_ocl::distributed {

namespace {

// One moves while another is waited for.
constexpr std::size_t most_pending = 2;

at::Tensor bytes_of(std::size_t count, c10::Device device) {
  return at::empty({std::int64_t(count)}, at::TensorOptions().dtype(at::kByte).device(device));
}

}  // namespace

Lane::Lane(c10::Stream stream, const std::vector<SharedSegment>& segments, int rank, const Layout& layout,
           HostAccess access, bool to_host)
    : stream_(stream), segments_(segments), layout_(layout), to_host_(to_host) {
  const dlprim::DeviceInfo& info = translated([&] { return device(stream.device_index()).info(); });
  if (access == HostAccess::measured && (info.cpu || info.unified_memory)) return;  // its memory is the host's
  const c10::DeviceGuard guard(stream.device());
  direct_ = access != HostAccess::staged && register_segments() && (access == HostAccess::direct || is_fast(rank));
  if (direct_) return;
  registered_.clear();
  // To the device, one is filled while two move.
  for (std::size_t i = 0; i <= most_pending; i++) pinned_.push_back(pinned_bytes(layout.inputs + layout.results));
}

Lane::~Lane() {
  try {
    wait_for_all();
  } catch (...) {
    // Whoever used the lane has heard of it, or does not listen any more.
  }
}

bool Lane::register_segments() {
  dlprim::Device& owner = device(stream_.device_index());
  for (const SharedSegment& segment : segments_) {
    registered_.emplace_back(owner, segment.data(), segment.data_bytes());
    if (!registered_.back()) return false;
  }
  return true;
}

bool Lane::is_fast(int rank) const {
  const std::size_t bytes = std::min<std::size_t>(layout_.inputs, 4 << 20);
  const at::Tensor there = bytes_of(bytes, stream_.device());
  return translated([&] {
    device(stream_.device_index()).default_queue().finish();  // `there` may be used by other queues then
    return registered_[rank].is_fast(queue_of(stream_), buffer_of(there), bytes, to_host_);
  });
}

std::size_t Lane::offset(const Move& move, std::size_t slot) const {
  return (move.result ? layout_.result(slot) : layout_.input(slot)) + move.in_slot;
}

void Lane::begin(const Memory& tensor, const std::vector<Move>& moves, std::size_t slot, std::function<void()> done) {
  wait_for_room();
  Pending piece;
  piece.done = std::move(done);
  translated([&] {
    dlprim::Queue& queue = queue_of(stream_);
    std::byte* stage = direct_ ? nullptr : static_cast<std::byte*>(pinned_[next_++ % pinned_.size()].data_ptr());
    const dlprim::BufferRef whole = tensor.where;
    for (const Move& move : moves) {
      const dlprim::BufferRef there{whole.memory, whole.offset + move.in_tensor};
      std::byte* shared = segments_[move.rank].data() + offset(move, slot);
      std::byte* here = direct_ ? shared : stage;
      if (to_host_) {
        queue.read(here, there, move.bytes, false);
        if (!direct_) piece.copies.push_back({shared, here, move.bytes});
      } else {
        if (!direct_) dlprim::parallel_copy(here, shared, move.bytes);
        queue.write(there, here, move.bytes, false);
      }
      if (!direct_) stage += move.bytes;
    }
    if (!moves.empty()) piece.event = queue.record();
  });
  pending_.push_back(std::move(piece));
}

void Lane::end_oldest() {
  const Pending piece = std::move(pending_.front());
  pending_.pop_front();
  translated([&] { piece.event.wait(); });
  for (const Copy& copy : piece.copies) dlprim::parallel_copy(copy.to, copy.from, copy.bytes);
  piece.done();
}

void Lane::wait_for_room() {
  while (pending_.size() >= most_pending) end_oldest();
}

void Lane::wait_for_all() {
  while (!pending_.empty()) end_oldest();
}

}  // namespace pytorch_ocl::distributed
