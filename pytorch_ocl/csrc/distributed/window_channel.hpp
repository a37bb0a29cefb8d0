// SPDX-License-Identifier: MIT
#pragma once
#include <deque>
#include <map>
#include <memory>

#include "channel.hpp"
#include "windows.hpp"
#include "worker.hpp"

namespace pytorch_ocl::distributed {

/// A channel through memory that the ranks' devices reach. An exchange is kernels of all ranks' devices that wait for each
/// other (dlprim::PeerExchange) and, in reductions, those of tensors' operators: it is enqueued on a stream as any work is,
/// and no thread takes part in it. One thread watches whether the other ranks still live.
class WindowChannel final : public Channel {
 public:
  WindowChannel(std::vector<SharedSegment> segments, std::unique_ptr<Windows> windows, int rank);
  /// Ends what is under way, at the latest when ranks have not moved on for some seconds.
  ~WindowChannel() override;

  void start(Exchange exchange, ProgressPtr work, dlprim::Event ready, const Streams& streams,
             std::chrono::milliseconds timeout) override;
  bool serves(c10::DeviceIndex device) const noexcept override;

  /// The stream that a device's exchanges run on.
  c10::Stream stream(c10::Device device);
  /// When exchanges have been done, and the last call of PeerExchange that they made.
  struct Enqueued {
    dlprim::Event end;
    std::uint32_t last_call;
  };
  /// Enqueues exchanges, which read their inputs after `ready`. Throws what ends the channel.
  Enqueued enqueue(const std::vector<Exchange>& exchanges, const dlprim::Event& ready);
  /// To be called next: keeps the exchanges' tensors until their end. Then, or when the channel is closed, `work` gets the
  /// ends of all its parts.
  void watch(std::vector<Exchange> exchanges, ProgressPtr work, dlprim::Event ready, Enqueued enqueued,
             std::chrono::milliseconds timeout);

 private:
  struct Watched;
  struct OfDevice {
    c10::Stream stream;
    dlprim::PeerExchange peers;
  };
  OfDevice& of_device(c10::Device device);
  void close(std::exception_ptr error) noexcept override;
  void follow(Watched& watched);
  void check_ranks(const Watched& watched, std::chrono::steady_clock::duration waited);
  void check_call(const Watched& watched);

  std::unique_ptr<Windows> windows_;
  std::mutex order_mutex_;  // of who enqueues, whom devices may keep waiting
  std::uint32_t next_ = 1;  // call of PeerExchange; the first has shown that windows work
  OfDevice* last_used_ = nullptr;
  mutable std::mutex mutex_;  // of the rest, held for a moment only
  std::map<c10::DeviceIndex, OfDevice> devices_;
  std::deque<std::shared_ptr<Watched>> watched_;
  Worker reaper_{"pt_ocl_free"}, watcher_{"pt_ocl_watch"};  // last: they use the others
};

}  // namespace pytorch_ocl::distributed
