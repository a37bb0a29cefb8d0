// SPDX-License-Identifier: MIT
// What goes through Gloo with each message between two ranks of one host.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include "shared_segment.hpp"

namespace pytorch_ocl::distributed {

/// Tags of Gloo from here on are those of devices: their messages are sent later than those of the host that follow them.
/// The last of them are not programs': a body that follows its letter has one of its own, as receives may be waited for
/// in another order than letters came, and so has each collective that messages make up.
inline constexpr int device_tags = 1 << 30, inner_tags = 1 << 20;
inline constexpr int last_tag = device_tags - 2 * inner_tags - 1;
inline int body_tag(std::uint32_t number) { return device_tags + last_tag + 1 + int(number % inner_tags); }
inline int collective_tag(std::uint32_t number) { return body_tag(number) + inner_tags; }

/// The beginning of a rank's pool, where it and those that it sends to tell each other of its pieces.
struct PoolBoard {
  static constexpr int most_ranks = 64;
  static constexpr std::uint32_t pieces = 64;  ///< of memory of one kind

  /// A rank that reaches the pool, which says so.
  struct Taker {
    SharedCount reaches;  ///< 1: memory of the host, 2: of the owner's device as well
    std::int32_t process;
  };
  /// Fillings, and how many of them the receiver needs no more.
  struct Piece {
    SharedCount filled, taken;
  };
  std::array<Taker, most_ranks> takers;
  std::array<Piece, 2 * std::size_t(pieces)> piece;  ///< of the host's memory, then of the device's
};

/// Where others find a rank's pool.
struct PoolPlace {
  std::array<char, 40> place, secret;
  std::uint64_t piece_bytes;
};

/// The same of pieces in the memory of its device: the name of a FileServer, whose files are those of pieces by number.
struct DevicePlace {
  static constexpr std::uint32_t trial = 2 * PoolBoard::pieces;  ///< number of memory to try, which begins with `token`

  std::array<char, 64> socket;  ///< empty: there are none
  std::uint64_t piece_bytes, trial_bytes, token;
  std::uint32_t of_device;  ///< of a GPU; else the host's memory, as CPUs have it
};

/// A piece that holds parts of a message: every n-th where it has n pieces.
struct PieceUse {
  std::uint32_t piece, first;  ///< `first`: count of the filling with the first of them
};

/// A letter; behind it come the body or the pieces.
struct Letter {
  enum class Body : std::uint32_t {
    inlined,
    follows,  ///< under body_tag(number)
    in_pieces,
    on_device,  ///< in pieces of the sender's device
  };
  static constexpr std::size_t most_inlined = 64 << 10;
  static constexpr std::size_t most_bytes_behind = most_inlined;
  static_assert(sizeof(PieceUse) * PoolBoard::pieces <= most_bytes_behind);

  std::uint64_t bytes;  ///< of the tensor
  Body body;
  std::uint32_t number;  ///< of the body that follows, or of pieces
  PoolPlace pool;  ///< of the sender
  DevicePlace device;
};

}  // namespace pytorch_ocl::distributed
