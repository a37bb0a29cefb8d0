// SPDX-License-Identifier: MIT
// Memory that a rank owns for what it sends to others of its host.
#pragma once
#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "device_pieces.hpp"
#include "letter.hpp"

namespace pytorch_ocl::distributed {

/// The parts of a message that its pieces hold one after the other.
struct Parts {
  std::size_t bytes = 0, piece_bytes = 1;
  std::vector<PieceUse> pieces{};

  std::size_t count() const noexcept { return (bytes + piece_bytes - 1) / piece_bytes; }
  std::size_t begin(std::size_t part) const noexcept { return part * piece_bytes; }
  std::size_t size(std::size_t part) const noexcept { return std::min(piece_bytes, bytes - begin(part)); }
  bool on_device() const noexcept { return !pieces.empty() && pieces.front().piece >= PoolBoard::pieces; }
  std::uint32_t piece(std::size_t part) const noexcept { return pieces[part % pieces.size()].piece; }
  /// Its filling.
  std::uint32_t filling(std::size_t part) const noexcept {
    return pieces[part % pieces.size()].first + std::uint32_t(part / pieces.size());
  }
};

/// A rank's own pool: pieces of two sizes, made when they are needed and used again once what they held was taken. Those
/// of the host's memory have the first numbers, those of a device's the others.
class MailPool {
 public:
  /// Throws c10::Error where this system has no memory that processes share.
  explicit MailPool(std::size_t piece_bytes);
  /// Adds pieces of a device; once.
  void add(std::unique_ptr<DevicePieces> pieces);

  const PoolPlace& place() const noexcept { return place_; }
  /// Null where none were added.
  DevicePieces* device_pieces() const noexcept { return device_view_; }
  std::size_t piece_bytes(bool on_device) const noexcept {
    return on_device ? device_pieces()->place().piece_bytes : place_.piece_bytes;
  }
  /// Pieces for a message of so many parts: `most` and half of those that are free at most, as others may follow, and
  /// none where none is.
  std::vector<PieceUse> take(std::size_t parts, std::size_t most, bool on_device);
  /// Gives pieces back that nobody has heard of.
  void give_back(const Parts& parts) noexcept;
  /// Of a piece of the host.
  std::byte* memory(std::uint32_t piece) const noexcept;
  PoolBoard::Piece& counts(std::uint32_t piece) const noexcept { return board().piece[piece]; }
  /// Whether a rank has said that it reaches the host's pieces, or the device's.
  bool is_reached_by(int rank, bool on_device) const noexcept;
  /// Says that messages have stopped halfway.
  void fail() noexcept { segment_.header().failed.reach(1); }
  /// Whether the process of a rank that reaches it has ended.
  bool is_left_by(int rank) const;

 private:
  PoolBoard& board() const noexcept { return *reinterpret_cast<PoolBoard*>(segment_.data()); }
  bool make_piece(bool on_device);

  SharedSegment segment_;
  PoolPlace place_{};
  std::mutex mutex_;
  // By kind, of each piece there is: how often it has been, or is going to be, filled.
  std::array<std::vector<std::uint32_t>, 2> given_;
  std::unique_ptr<DevicePieces> device_;
  std::atomic<DevicePieces*> device_view_{nullptr};  // of other threads
};

/// Another rank's pool.
class PeerPool {
 public:
  /// Tells the owner that `rank`, in this process, reaches it. Throws c10::Error where it does not.
  PeerPool(const PoolPlace& place, int rank);
  /// Tries whether a device of this process reaches the pieces of the owner's, and tells it; once.
  void try_device(const DevicePlace& place, int rank, c10::Device device);

  std::size_t piece_bytes(bool on_device) const noexcept { return on_device ? device_->piece_bytes() : piece_bytes_; }
  std::byte* memory(std::uint32_t piece) const noexcept;
  /// Where the device reaches them.
  PeerPieces* device_pieces() const noexcept { return device_.get(); }
  PoolBoard::Piece& counts(std::uint32_t piece) const noexcept { return board().piece[piece]; }
  bool has_owner() const noexcept { return segment_.has_owner(); }
  /// Whether messages have stopped halfway.
  bool has_failed() const noexcept { return segment_.header().failed.has_reached(1); }

 private:
  PoolBoard& board() const noexcept { return *reinterpret_cast<PoolBoard*>(segment_.data()); }

  std::size_t piece_bytes_;
  SharedSegment segment_;
  bool has_tried_ = false;
  std::unique_ptr<PeerPieces> device_;
};

}  // namespace pytorch_ocl::distributed
