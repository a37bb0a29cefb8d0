// SPDX-License-Identifier: MIT
#include "shared_channel.hpp"

#include <ATen/ops/empty.h>
#include <c10/core/StreamGuard.h>

#include <algorithm>

#include "device_reduce.hpp"
#include "runtime/device.hpp"
#include "runtime/tensor.hpp"

namespace pytorch_ocl::distributed {

namespace {

using Clock = std::chrono::steady_clock;

// How often a rank that waits looks whether the others still live.
constexpr auto glance = std::chrono::milliseconds(50);

}  // namespace

struct SharedChannel::Running {
  Exchange exchange;
  Plan plan;
  std::uint32_t first;
  ProgressPtr work;
  dlprim::Event ready;
  Lanes& lanes;
  std::chrono::milliseconds timeout;
};

SharedChannel::SharedChannel(std::vector<SharedSegment> segments, int rank, const Layout& layout, HostAccess access,
                             bool on_devices)
    : Channel(std::move(segments), rank), layout_(layout), access_(access), on_devices_(on_devices) {}

SharedChannel::~SharedChannel() { ending_ = true; }

SharedChannel::Lanes::Lanes(const SharedChannel& channel, const Streams& streams, HostAccess access)
    : to_host(streams.to_host, channel.segments_, channel.rank_, channel.layout_, access, true),
      to_device(streams.to_device, channel.segments_, channel.rank_, channel.layout_, access, false) {}

SharedChannel::Lanes& SharedChannel::lanes(const Streams& streams) {
  std::unique_ptr<Lanes>& found = lanes_[streams.to_host.device_index()];
  if (!found) {
    // Only an empty segment can be used for measuring.
    const HostAccess access = access_ == HostAccess::measured && next_ != 0 ? HostAccess::staged : access_;
    found.reset(new Lanes(*this, streams, access));
    served_[std::size_t(streams.to_host.device_index())] = true;
  }
  return *found;
}

// Whether two devices exchange inputs, each for its own results. Devices of one kind round alike.
bool SharedChannel::reduces_on_devices(const Exchange& exchange) const {
  if (ranks_ != 2 || !exchange.reduces()) return false;
  const bool adds = exchange.operation == Operation::SUM || exchange.operation == Operation::AVG;
  return on_devices_ && adds && exchange.input.is_floating_point();
}

void SharedChannel::start(Exchange exchange, ProgressPtr work, dlprim::Event ready, const Streams& streams,
                          std::chrono::milliseconds timeout) {
  exchange.on_devices = reduces_on_devices(exchange);
  const Plan plan(exchange, layout_, rank_, ranks_);
  Lanes& copies = lanes(streams);
  const RunningPtr running(
      new Running{std::move(exchange), plan, next_, std::move(work), std::move(ready), copies, timeout},
      [this](Running* ended) { reaper_.post([ended] { delete ended; }); });
  next_ += plan.pieces();
  sender_.post([this, running] { run_stage(*running, &SharedChannel::send); });
  reducer_.post([this, running] { run_stage(*running, &SharedChannel::combine); });
  receiver_.post([this, running] { receive(*running); });
}

void SharedChannel::await_own(Counter counter, std::uint32_t count) const {
  const SharedCount& own = segments_[rank_].header().*counter;
  while (!own.has_reached(count)) {
    check_open();
    own.await(count, glance);
  }
}

void SharedChannel::await_all(const Running& running, Counter counter, std::uint32_t count) const {
  const auto start = Clock::now();
  for (int rank = 0; rank < ranks_; rank++) {
    const SharedCount& count_there = segments_[rank].header().*counter;
    while (!count_there.has_reached(count)) {
      check_open();
      count_there.await(count, glance);
      if (count_there.has_reached(count)) break;
      const bool gone = !segments_[rank].has_owner();
      if (gone && count_there.has_reached(count)) break;  // it had ended all that was asked of it
      check_rank(rank, gone, Clock::now() - start, running.timeout);
    }
  }
}

// A stage of an exchange; what it throws ends the channel, and the last stage hears of it.
void SharedChannel::run_stage(Running& running, void (SharedChannel::*stage)(Running&)) {
  try {
    check_open();
    (this->*stage)(running);
  } catch (...) {
    close(std::current_exception());
  }
}

void SharedChannel::send(Running& running) {
  translated([&] { running.ready.wait(); });
  Lane& lane = running.lanes.to_host;
  SharedHeader& header = segments_[rank_].header();
  const Signature signature = running.exchange.signature();
  for (std::uint32_t piece = 0; piece < running.plan.pieces(); piece++) {
    const std::uint32_t number = running.first + piece;
    // Pieces that wait for others' progress must not keep this rank's own from them.
    if (!std::ranges::all_of(segments_, [&](const SharedSegment& segment) {
          return segment.header().received.has_reached(number + 1 - SharedHeader::slots);
        }))
      lane.wait_for_all();
    await_all(running, &SharedHeader::received, number + 1 - SharedHeader::slots);
    const std::size_t slot = number % SharedHeader::slots;
    header.signatures[slot] = signature;
    lane.begin(running.exchange.from, running.plan.sent(piece), slot,
               [&header, number] { header.sent.reach(number + 1); });
  }
  lane.wait_for_all();
}

void SharedChannel::check_signatures(const Running& running, std::size_t slot) const {
  const Signature own = running.exchange.signature();
  for (int rank = 0; rank < ranks_; rank++) {
    const Signature& other = segments_[rank].header().signatures[slot];
    if (other != own) refuse(own, rank, other);
  }
}

void SharedChannel::reduce_share(const Running& running, std::uint32_t piece, std::size_t slot) {
  const Plan::Share share = running.plan.share(piece);
  if (share.count == 0) return;
  std::vector<const void*> sources;
  for (const SharedSegment& segment : segments_)
    sources.push_back(segment.data() + layout_.input(slot) + share.in_slot);
  reduce(running.exchange.input.scalar_type(), running.exchange.operation,
         segments_[rank_].data() + layout_.result(slot), sources, share.count);
}

void SharedChannel::combine(Running& running) {
  for (std::uint32_t piece = 0; piece < running.plan.pieces(); piece++) {
    const std::uint32_t number = running.first + piece;
    const std::size_t slot = number % SharedHeader::slots;
    await_own(&SharedHeader::sent, number + 1);
    await_all(running, &SharedHeader::sent, number + 1);
    check_signatures(running, slot);
    if (running.exchange.reduces() && !running.exchange.on_devices) reduce_share(running, piece, slot);
    segments_[rank_].header().reduced.reach(number + 1);
  }
}

void SharedChannel::receive_pieces(Running& running) {
  const Exchange& exchange = running.exchange;
  Lane& lane = running.lanes.to_device;
  SharedHeader& header = segments_[rank_].header();
  for (std::uint32_t piece = 0; piece < running.plan.pieces(); piece++) {
    const std::uint32_t number = running.first + piece;
    await_own(&SharedHeader::reduced, number + 1);
    if (exchange.reduces()) await_all(running, &SharedHeader::reduced, number + 1);
    lane.begin(exchange.to, running.plan.received(piece), number % SharedHeader::slots,
               [&header, number] { header.received.reach(number + 1); });
  }
  if (exchange.kind != Exchange::Kind::all_gather) return;
  // This rank's own part does not leave the device.
  const dlprim::BufferRef whole = exchange.to.where;
  const std::size_t bytes = exchange.input.nbytes(), begin = bytes * std::size_t(rank_);
  translated([&] { queue_of(lane.stream()).copy({whole.memory, whole.offset + begin}, exchange.from.where, bytes); });
}

// Both ranks combine the same two numbers in the same order, so their results have the same bits.
void SharedChannel::combine_pieces(Running& running) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const Exchange& exchange = running.exchange;
  Lane& lane = running.lanes.to_device;
  SharedHeader& header = segments_[rank_].header();
  const c10::StreamGuard guard(lane.stream());
  const at::Tensor own = exchange.input.view({-1}), result = exchange.output.view({-1});
  const at::Tensor given = at::empty({std::int64_t(running.plan.extent(0).count)}, own.options());
  const Memory there(given);
  for (std::uint32_t piece = 0; piece < running.plan.pieces(); piece++) {
    const std::uint32_t number = running.first + piece;
    await_own(&SharedHeader::reduced, number + 1);
    lane.begin(there, running.plan.other(piece), number % SharedHeader::slots,
               [&header, number] { header.received.reach(number + 1); });
    const auto [begin, count] = running.plan.extent(piece);
    const auto part = [&](const at::Tensor& x, std::size_t from) {
      return x.narrow(0, std::int64_t(from), std::int64_t(count));
    };
    at::Tensor to = part(result, begin);
    const at::Tensor ours = part(own, running.plan.own_begin() + begin), theirs = part(given, 0);
    combine_two(exchange.operation, to, rank_ == 0 ? ours : theirs, rank_ == 0 ? theirs : ours);
  }
}

void SharedChannel::receive(Running& running) {
  Lane& lane = running.lanes.to_device;
  try {
    check_open();
    running.exchange.on_devices ? combine_pieces(running) : receive_pieces(running);
  } catch (...) {
    close(std::current_exception());
  }
  running.work->end_part(running.exchange.after, error());
  // The tensors' memory may be used for something else when this returns.
  try {
    lane.wait_for_all();
    translated([&] { queue_of(lane.stream()).record().wait(); });
  } catch (...) {
    close(std::current_exception());
  }
}

}  // namespace pytorch_ocl::distributed
