// SPDX-License-Identifier: MIT
#include "window_moves.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>

#include "device_reduce.hpp"
#include "runtime/device.hpp"
#include "runtime/tensor.hpp"

namespace pytorch_ocl::distributed {

namespace {

// What arrives before it is reduced takes at most so many bytes.
constexpr std::size_t most_arrived = std::size_t(64) << 20;
// Up to so many bytes of all ranks' inputs, each rank reduces all of them: an exchange less.
constexpr std::size_t most_for_all = std::size_t(1) << 20;

static_assert(sizeof(Signature) == sizeof(dlprim::PeerCall));

dlprim::BufferRef behind(const dlprim::BufferRef& where, std::size_t bytes) {
  return {where.memory, where.offset + bytes};
}

at::Tensor part_of(const at::Tensor& flat, std::size_t begin, std::size_t count) {
  return flat.narrow(0, std::int64_t(begin), std::int64_t(count));
}

at::Tensor rows(std::size_t count, std::size_t length, const at::Tensor& like) {
  return at::empty({std::int64_t(count), std::int64_t(length)}, like.options());
}

// result = the rows' first elements reduced.
void reduce_rows(Operation operation, at::Tensor result, const at::Tensor& rows) {
  if (result.numel() == 0) return;
  std::vector<at::Tensor> parts;
  for (std::int64_t i = 0; i < rows.size(0); i++) parts.push_back(rows.select(0, i).narrow(0, 0, result.numel()));
  result.copy_(reduced(operation, parts));
}

}  // namespace

WindowMoves::WindowMoves(dlprim::PeerExchange& peers, c10::Stream stream, int rank, int ranks, std::uint32_t& next)
    : peers_(peers), queue_(queue_of(stream)), rank_(std::size_t(rank)), ranks_(std::size_t(ranks)), next_(next) {}

void WindowMoves::move(const Parts& from, const Parts& to, bool own, std::uint32_t senders) {
  translated([&] { peers_.run(queue_, from, to, senders, own, next_, call_); });
  next_++;
}

void WindowMoves::run(const Exchange& exchange) {
  const Signature signature = exchange.signature();
  std::memcpy(call_.data(), &signature, sizeof signature);
  const std::size_t part = exchange.input.nbytes() / ranks_;
  switch (exchange.kind) {
    case Exchange::Kind::all_gather: return gather(exchange);
    case Exchange::Kind::broadcast: return broadcast(exchange);
    case Exchange::Kind::all_to_all:
      return move({exchange.from.where, part, part}, {exchange.to.where, part, part}, true);
    case Exchange::Kind::reduce_scatter: return ranks_ == 2 ? reduce_two(exchange) : reduce_scatter(exchange);
    case Exchange::Kind::all_reduce:
      if (ranks_ == 2) return reduce_two(exchange);
      return exchange.input.nbytes() * ranks_ <= most_for_all ? reduce_all(exchange) : reduce_shares(exchange);
  }
}

void WindowMoves::gather(const Exchange& exchange) {
  const std::size_t part = exchange.input.nbytes();
  const dlprim::BufferRef from = exchange.from.where, to = exchange.to.where;
  const bool in_place = from.memory == to.memory && from.offset == to.offset + rank_ * part;
  move({from, 0, part}, {to, part, part}, !in_place);
}

void WindowMoves::broadcast(const Exchange& exchange) {
  const Parts whole{exchange.to.where, 0, exchange.input.nbytes()}, none{exchange.to.where};
  const bool gives = rank_ == std::size_t(exchange.root);
  move(gives ? whole : none, gives ? none : whole, false, 1u << exchange.root);
}

// Each of two ranks combines what the other has with its own, both in the same order.
void WindowMoves::reduce_two(const Exchange& exchange) {
  const at::Tensor input = exchange.input.view({-1}), output = exchange.output.view({-1});
  const std::size_t item = input.itemsize(), count = std::size_t(output.numel());
  const bool scatters = exchange.kind == Exchange::Kind::reduce_scatter;
  const std::size_t step = std::min(count, most_arrived / item), own = scatters ? rank_ * count : 0;
  const at::Tensor arrived = at::empty({std::int64_t(step)}, input.options());
  for (std::size_t begin = 0; begin < count; begin += step) {
    const std::size_t length = std::min(step, count - begin), bytes = length * item;
    move({behind(exchange.from.where, begin * item), scatters ? count * item : 0, bytes},
         {buffer_of(arrived), 0, bytes}, false);
    const at::Tensor ours = part_of(input, own + begin, length), theirs = part_of(arrived, 0, length);
    at::Tensor result = part_of(output, begin, length);
    combine_two(exchange.operation, result, rank_ == 0 ? ours : theirs, rank_ == 0 ? theirs : ours);
  }
}

void WindowMoves::reduce_all(const Exchange& exchange) {
  const std::size_t bytes = exchange.input.nbytes();
  const at::Tensor arrived = rows(ranks_, std::size_t(exchange.input.numel()), exchange.input);
  move({exchange.from.where, 0, bytes}, {buffer_of(arrived), bytes, bytes}, true);
  reduce_rows(exchange.operation, exchange.output.view({-1}), arrived);
}

// Each rank reduces its share of a piece, which all get then.
void WindowMoves::reduce_shares(const Exchange& exchange) {
  const at::Tensor output = exchange.output.view({-1});
  const std::size_t item = output.itemsize(), count = std::size_t(output.numel());
  const std::size_t step = std::min(count, most_arrived / item),
                    each = round_up((step + ranks_ - 1) / ranks_, share_unit);
  const at::Tensor arrived = rows(ranks_, each, output);
  for (std::size_t begin = 0; begin < count; begin += step) {
    const std::size_t length = std::min(step, count - begin), first = std::min(rank_ * each, length);
    const std::size_t mine = std::min(each, length - first), share = each * item, total = length * item;
    move({behind(exchange.from.where, begin * item), share, share, total}, {buffer_of(arrived), share, mine * item},
         true);
    reduce_rows(exchange.operation, part_of(output, begin + first, mine), arrived);
    move({behind(exchange.to.where, (begin + first) * item), 0, mine * item},
         {behind(exchange.to.where, begin * item), share, share, total}, false);
  }
}

void WindowMoves::reduce_scatter(const Exchange& exchange) {
  const at::Tensor output = exchange.output.view({-1});
  const std::size_t item = output.itemsize(), count = std::size_t(output.numel());
  const std::size_t step = std::min(count, most_arrived / item / ranks_);
  const at::Tensor arrived = rows(ranks_, step, output);
  for (std::size_t begin = 0; begin < count; begin += step) {
    const std::size_t length = std::min(step, count - begin);
    move({behind(exchange.from.where, begin * item), count * item, length * item},
         {buffer_of(arrived), step * item, length * item}, true);
    reduce_rows(exchange.operation, part_of(output, begin, length), arrived);
  }
}

}  // namespace pytorch_ocl::distributed
