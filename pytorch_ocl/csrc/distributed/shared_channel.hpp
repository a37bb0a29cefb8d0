// SPDX-License-Identifier: MIT
// Collectives of ranks on one host, through memory that they share.
#pragma once
#include <array>
#include <atomic>
#include <limits>
#include <map>
#include <memory>

#include "channel.hpp"
#include "lane.hpp"
#include "worker.hpp"

namespace pytorch_ocl::distributed {

/// A channel through memory of the host. Three threads work on different pieces at once: one copies inputs to this rank's
/// segment, one reduces this rank's share of all inputs, one copies the results of all ranks to their place, or, between
/// two devices, the other's inputs, which it combines with its own there. Ranks wait for each other on counters in the
/// segments.
class SharedChannel final : public Channel {
 public:
  /// `on_devices`: sums of floating types over two ranks are made by the devices; the same on all ranks.
  SharedChannel(std::vector<SharedSegment> segments, int rank, const Layout& layout, HostAccess access,
                bool on_devices);
  /// Ends what is under way, at the latest when ranks have not moved on for some seconds.
  ~SharedChannel() override;

  void start(Exchange exchange, ProgressPtr work, dlprim::Event ready, const Streams& streams,
             std::chrono::milliseconds timeout) override;
  bool serves(c10::DeviceIndex device) const noexcept override { return served_[std::size_t(device)]; }

 private:
  struct Running;
  using Counter = SharedCount SharedHeader::*;
  using RunningPtr = std::shared_ptr<Running>;

  void send(Running& running);
  void combine(Running& running);
  void receive(Running& running);
  void receive_pieces(Running& running);
  void combine_pieces(Running& running);
  void run_stage(Running& running, void (SharedChannel::*stage)(Running&));
  void reduce_share(const Running& running, std::uint32_t piece, std::size_t slot);
  bool reduces_on_devices(const Exchange& exchange) const;
  void check_signatures(const Running& running, std::size_t slot) const;

  /// Waits until this rank has done `count` pieces, without limit: its device may be busy.
  void await_own(Counter counter, std::uint32_t count) const;
  /// Waits for all ranks; throws when one is gone or does not move for the exchange's timeout.
  void await_all(const Running& running, Counter counter, std::uint32_t count) const;
  /// The copies of a device, in both directions.
  struct Lanes {
    Lanes(const SharedChannel& channel, const Streams& streams, HostAccess access);
    Lane to_host, to_device;
  };
  Lanes& lanes(const Streams& streams);

  std::array<std::atomic<bool>, std::numeric_limits<c10::DeviceIndex>::max() + 1> served_{};
  Layout layout_;
  HostAccess access_;
  bool on_devices_;
  std::uint32_t next_ = 0;  // piece, counted from the beginning of the channel
  std::map<c10::DeviceIndex, std::unique_ptr<Lanes>> lanes_;
  // Drops what Python knows, which may wait for a thread that has the interpreter and waits for the next exchange.
  Worker reaper_{"pt_ocl_free"};
  Worker sender_{"pt_ocl_send"}, reducer_{"pt_ocl_reduce"}, receiver_{"pt_ocl_recv"};  // last: they use the others
};

}  // namespace pytorch_ocl::distributed
