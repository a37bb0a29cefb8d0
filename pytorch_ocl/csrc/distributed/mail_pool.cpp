// SPDX-License-Identifier: MIT
#include "mail_pool.hpp"

#include <c10/util/Exception.h>

namespace pytorch_ocl::distributed {

namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t board_bytes = (sizeof(PoolBoard) + page - 1) / page * page;
// What takers say that they reach.
constexpr std::uint32_t reaches_host = 1, reaches_device = 2;

std::size_t offset_of(std::size_t piece, std::size_t piece_bytes) { return board_bytes + piece * piece_bytes; }

std::size_t segment_bytes(std::size_t piece_bytes) {
  return SharedSegment::header_bytes + offset_of(PoolBoard::pieces, piece_bytes);
}

}  // namespace

MailPool::MailPool(std::size_t piece_bytes) {
  place_.piece_bytes = (piece_bytes + page - 1) / page * page;
  segment_ = SharedSegment::make(segment_bytes(place_.piece_bytes), {}, SharedSegment::header_bytes + board_bytes);
  segment_.place().copy(place_.place.data(), place_.place.size() - 1);
  segment_.secret().copy(place_.secret.data(), place_.secret.size() - 1);
}

void MailPool::add(std::unique_ptr<DevicePieces> pieces) {
  device_ = std::move(pieces);
  device_view_ = device_.get();
}

std::byte* MailPool::memory(std::uint32_t piece) const noexcept {
  return segment_.data() + offset_of(piece, place_.piece_bytes);
}

bool MailPool::make_piece(bool on_device) {
  std::vector<std::uint32_t>& given = given_[on_device];
  if (given.size() == PoolBoard::pieces) return false;
  try {
    if (on_device) device_->make(std::uint32_t(given.size()));
    else segment_.take_memory(offset_of(given.size(), place_.piece_bytes), place_.piece_bytes);
  } catch (const c10::Error&) {
    return false;  // there is no more: others come free
  }
  given.push_back(0);
  return true;
}

std::vector<PieceUse> MailPool::take(std::size_t parts, std::size_t most, bool on_device) {
  std::lock_guard guard(mutex_);
  std::vector<std::uint32_t>& given = given_[on_device];
  const std::uint32_t first = on_device ? PoolBoard::pieces : 0;
  const auto is_free = [&](std::uint32_t i) { return counts(first + i).taken.has_reached(given[i]); };
  std::size_t free = PoolBoard::pieces - given.size();
  for (std::uint32_t i = 0; i < given.size(); i++) free += is_free(i);
  most = std::min({parts, most, std::max<std::size_t>(free / 2, 1)});
  std::vector<PieceUse> taken;
  for (std::uint32_t i = 0; taken.size() < most && (i < given.size() || make_piece(on_device)); i++)
    if (is_free(i)) taken.push_back({first + i, given[i] + 1});
  for (std::size_t i = 0; i < taken.size(); i++)  // it holds every n-th part
    given[taken[i].piece - first] += std::uint32_t((parts - i + taken.size() - 1) / taken.size());
  return taken;
}

void MailPool::give_back(const Parts& parts) noexcept {
  for (std::size_t part = parts.count() - parts.pieces.size(); part < parts.count(); part++)
    counts(parts.piece(part)).taken.reach(parts.filling(part));
}

bool MailPool::is_reached_by(int rank, bool on_device) const noexcept {
  return board().takers[std::size_t(rank)].reaches.has_reached(on_device ? reaches_device : reaches_host);
}

bool MailPool::is_left_by(int rank) const { return !is_running(board().takers[std::size_t(rank)].process); }

PeerPool::PeerPool(const PoolPlace& place, int rank)
    : piece_bytes_(place.piece_bytes),
      segment_(SharedSegment::open(segment_bytes(place.piece_bytes), place.place.data(), place.secret.data())) {
  PoolBoard::Taker& taker = board().takers[std::size_t(rank)];
  taker.process = this_process();
  taker.reaches.reach(reaches_host);
}

void PeerPool::try_device(const DevicePlace& place, int rank, c10::Device device) {
  if (has_tried_ || place.socket.front() == '\0') return;
  has_tried_ = true;
  try {
    device_ = std::make_unique<PeerPieces>(place, device);
  } catch (const c10::Error&) {
    return;  // the owner, which hears nothing, goes on with the host's memory
  }
  board().takers[std::size_t(rank)].reaches.reach(reaches_device);
}

std::byte* PeerPool::memory(std::uint32_t piece) const noexcept {
  return segment_.data() + offset_of(piece, piece_bytes_);
}

}  // namespace pytorch_ocl::distributed
