// SPDX-License-Identifier: MIT
// Pieces of a rank's pool in the memory of its device, which other devices reach.
#pragma once
#include <c10/core/Device.h>
#include <dlprim/runtime/peer_memory.hpp>

#include <array>
#include <map>
#include <mutex>

#include "file_passing.hpp"
#include "letter.hpp"

namespace pytorch_ocl::distributed {

/// A rank's own, by numbers from 0. What they hold is copied by commands of the device.
class DevicePieces {
 public:
  /// Throws c10::Error where the device has no such memory.
  DevicePieces(c10::Device device, std::size_t piece_bytes);

  c10::Device device() const noexcept { return device_; }
  const DevicePlace& place() const noexcept { return place_; }
  /// Throws c10::Error where there is no memory left.
  void make(std::uint32_t piece);
  const cl::Buffer& buffer(std::uint32_t piece) const noexcept { return pieces_[piece].buffer; }

 private:
  struct Piece {
    dlprim::PeerMemory memory{};
    cl::Buffer buffer{};
  };
  Piece take(std::size_t bytes) const;
  int file(std::uint32_t number) const;

  c10::Device device_;
  DevicePlace place_{};
  mutable std::mutex mutex_;  // of who makes pieces and who gives them to others
  std::array<Piece, PoolBoard::pieces> pieces_;
  Piece trial_;
  FileServer server_;  // last: its thread uses the others
};

/// Another rank's.
class PeerPieces {
 public:
  /// Throws c10::Error where a device of this process does not reach them.
  PeerPieces(const DevicePlace& place, c10::Device device);

  c10::Device device() const noexcept { return device_; }
  std::size_t piece_bytes() const noexcept { return place_.piece_bytes; }
  /// Throws c10::Error.
  const cl::Buffer& buffer(std::uint32_t piece);

 private:
  struct Piece {
    dlprim::PeerMemory memory{};
    cl::Buffer buffer{};
  };
  Piece get(std::uint32_t number, std::size_t bytes) const;

  DevicePlace place_;
  c10::Device device_;
  std::mutex mutex_;
  std::map<std::uint32_t, Piece> pieces_;
};

}  // namespace pytorch_ocl::distributed
