// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/primitives/peer_exchange.hpp>

#include "exchange.hpp"

namespace pytorch_ocl::distributed {

/// Enqueues exchanges as kernels that ranks' devices exchange and reduce parts by.
class WindowMoves {
 public:
  /// `next` counts the calls of `peers`.
  WindowMoves(dlprim::PeerExchange& peers, c10::Stream stream, int rank, int ranks, std::uint32_t& next);

  /// Raises DeviceError.
  void run(const Exchange& exchange);

 private:
  using Parts = dlprim::PeerParts;
  // A tensor by ranks, and this rank's part of it.
  struct Shares {
    Parts all, own;
  };
  Shares shares_of(const dlprim::BufferRef& to, std::size_t bytes, std::size_t item) const;
  void move(const Parts& from, const Parts& to, bool own) { move(from, to, own, ~0u); }
  void move(const Parts& from, const Parts& to, bool own, std::uint32_t senders);
  void gather(const Exchange& exchange);
  void broadcast(const Exchange& exchange);
  void reduce(const Exchange& exchange, const Parts& from, const Parts& to);
  void all_reduce(const Exchange& exchange);

  dlprim::PeerExchange& peers_;
  dlprim::Queue& queue_;
  const std::size_t rank_, ranks_;
  std::uint32_t& next_;
  dlprim::PeerCall call_{};  // of the exchange being enqueued
};

}  // namespace pytorch_ocl::distributed
