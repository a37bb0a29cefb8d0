// SPDX-License-Identifier: MIT
#include "window_channel.hpp"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/StreamGuard.h>
#include <dlprim/runtime/copy_queue.hpp>

#include <algorithm>
#include <cstring>
#include <optional>
#include <thread>

#include "runtime/device.hpp"
#include "window_moves.hpp"

namespace pytorch_ocl::distributed {

namespace {

using Clock = std::chrono::steady_clock;

// How often the end of an exchange is looked for, at first and later: nobody waits for it but who keeps the host waiting.
constexpr auto first_pause = std::chrono::microseconds(50), last_pause = std::chrono::microseconds(1000);
// How often a rank that waits looks whether the others still live.
constexpr auto glance = std::chrono::milliseconds(50);

}  // namespace

struct WindowChannel::Watched {
  std::vector<Exchange> exchanges;
  ProgressPtr work;
  dlprim::Event ready, end;
  std::uint32_t last_call;
  std::chrono::milliseconds timeout;
  std::atomic<bool> reported{false};

  void report(const std::exception_ptr& error) {
    if (reported.exchange(true)) return;
    for (std::size_t i = 0; i < exchanges.size(); i++) work->end_part({}, error);
  }
};

WindowChannel::WindowChannel(std::vector<SharedSegment> segments, std::unique_ptr<Windows> windows, int rank)
    : Channel(std::move(segments), rank), windows_(std::move(windows)) {}

WindowChannel::~WindowChannel() { ending_ = true; }

bool WindowChannel::serves(c10::DeviceIndex device) const noexcept {
  std::lock_guard guard(mutex_);
  return devices_.contains(device);
}

WindowChannel::OfDevice& WindowChannel::of_device(c10::Device where) {
  std::lock_guard guard(mutex_);
  auto found = devices_.find(where.index());
  if (found == devices_.end()) {
    const std::int64_t queue = translated([&] { return queue_for_exchanges(device(where.index())).id(); });
    OfDevice made{c10::Stream(c10::Stream::UNSAFE, where, queue), windows_->peers(where.index(), rank_)};
    found = devices_.emplace(where.index(), std::move(made)).first;
  }
  return found->second;
}

c10::Stream WindowChannel::stream(c10::Device device) { return of_device(device).stream; }

WindowChannel::Enqueued WindowChannel::enqueue(const std::vector<Exchange>& exchanges, const dlprim::Event& ready) {
  check_open();
  try {
    std::lock_guard lock(order_mutex_);
    OfDevice& used = of_device(exchanges.front().input.device());
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const c10::StreamGuard guard(used.stream);
    dlprim::Queue& queue = queue_of(used.stream);
    translated([&] {
      // Kernels of one rank share its window, one after the other; queues of two devices can't wait for each other.
      if (last_used_ && last_used_ != &used) queue_of(last_used_->stream).record().wait();
      queue.wait(ready);
    });
    last_used_ = &used;
    WindowMoves moves(used.peers, used.stream, rank_, ranks_, next_);
    for (const Exchange& exchange : exchanges) {
      moves.run(exchange);
      copy_to_device(exchange.after, used.stream);
    }
    return {translated([&] { return queue.record(); }), next_ - 1};
  } catch (...) {
    close(std::current_exception());
    throw;
  }
}

void WindowChannel::watch(std::vector<Exchange> exchanges, ProgressPtr work, dlprim::Event ready, Enqueued enqueued,
                          std::chrono::milliseconds timeout) {
  std::shared_ptr<Watched> watched(new Watched{std::move(exchanges), std::move(work), std::move(ready),
                                               std::move(enqueued.end), enqueued.last_call, timeout},
                                   [this](Watched* ended) { reaper_.post([ended] { delete ended; }); });
  {
    std::lock_guard guard(mutex_);
    watched_.push_back(watched);
  }
  // Closed in the meantime: close() has reported to those that it found.
  if (closed_) watched->report(error());
  watcher_.post([this, watched = std::move(watched)]() mutable {
    follow(*watched);
    std::lock_guard guard(mutex_);
    std::erase(watched_, watched);
    watched.reset();
  });
}

void WindowChannel::start(Exchange exchange, ProgressPtr work, dlprim::Event ready, const Streams&,
                          std::chrono::milliseconds timeout) {
  std::vector<Exchange> one{std::move(exchange)};
  Enqueued enqueued = enqueue(one, ready);
  watch(std::move(one), std::move(work), std::move(ready), std::move(enqueued), timeout);
}

// Whoever waits for what is under way hears of the error before the kernels end, which then have made nothing of use.
void WindowChannel::close(std::exception_ptr error) noexcept {
  Channel::close(std::move(error));
  std::vector<std::shared_ptr<Watched>> all;
  std::vector<std::pair<dlprim::PeerExchange*, c10::DeviceIndex>> peers;
  {
    std::lock_guard guard(mutex_);
    all.assign(watched_.begin(), watched_.end());
    for (auto& [index, each] : devices_) peers.emplace_back(&each.peers, index);
  }
  for (const std::shared_ptr<Watched>& watched : all) watched->report(this->error());
  try {
    for (const auto& [each, index] : peers) translated([&] { each->abort(dlprim::copy_queue(device(index))); });
  } catch (...) {
    // A device that takes no more commands has no kernel that waits, either.
  }
}

void WindowChannel::check_call(const Watched& watched) {
  const c10::Device where = watched.exchanges.front().input.device();
  const auto found =
      translated([&] { return of_device(where).peers.mismatch(dlprim::copy_queue(device(where.index()))); });
  if (!found) return;
  Signature other;
  std::memcpy(static_cast<void*>(&other), found->call.data(), sizeof other);
  const auto differs =
      std::ranges::find_if(watched.exchanges, [&](const Exchange& exchange) { return exchange.signature() != other; });
  refuse((differs == watched.exchanges.end() ? watched.exchanges.front() : *differs).signature(), found->rank, other);
}

void WindowChannel::check_ranks(const Watched& watched, Clock::duration waited) {
  check_call(watched);
  for (int rank = 0; rank < ranks_; rank++) {
    const SharedHeader& header = segments_[rank].header();
    const bool gone = !segments_[rank].has_owner();
    if (rank == rank_ || header.received.has_reached(watched.last_call)) continue;
    const bool has_come = header.sent.has_reached(watched.last_call);
    check_rank(rank, gone, has_come ? Clock::duration::zero() : waited, watched.timeout);
  }
  TORCH_CHECK_WITH(DistBackendError, !Worker::halted(), "The interpreter has shut down");
}

void WindowChannel::follow(Watched& watched) {
  std::optional<Clock::time_point> began;
  Clock::time_point next_glance;
  auto pause = first_pause;
  try {
    while (!translated([&] { return watched.end.reached(); })) {
      std::this_thread::sleep_for(pause);
      pause = std::min(2 * pause, last_pause);
      const Clock::time_point now = Clock::now();
      if (!began && translated([&] { return watched.ready.reached(); })) {
        began = now, next_glance = now + glance;
        segments_[rank_].header().sent.reach(watched.last_call);
      }
      if (closed_ || !began || now < next_glance) continue;
      next_glance = now + glance;
      try {
        check_ranks(watched, now - *began);
      } catch (...) {
        close(std::current_exception());
      }
    }
  } catch (...) {
    close(std::current_exception());
  }
  segments_[rank_].header().received.reach(watched.last_call);
  watched.report(error());
}

}  // namespace pytorch_ocl::distributed
