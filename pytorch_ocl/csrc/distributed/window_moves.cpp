// SPDX-License-Identifier: MIT
#include "window_moves.hpp"

#include <algorithm>
#include <cstring>

#include "runtime/device.hpp"
#include "runtime/tensor.hpp"

namespace pytorch_ocl::distributed {

namespace {

// Up to so many bytes of all ranks' inputs, each rank reduces all of them: an exchange less.
constexpr std::size_t most_for_all = std::size_t(1) << 20;
// From so many bytes on, what a rank gives to several others goes there in shares, which these pass on.
constexpr std::size_t least_in_shares = std::size_t(1) << 20;

static_assert(sizeof(Signature) == sizeof(dlprim::PeerCall));

dlprim::BufferRef behind(const dlprim::BufferRef& where, std::size_t bytes) {
  return {where.memory, where.offset + bytes};
}

dlprim::PeerOperation operation_of(Operation operation) {
  switch (operation) {
    case Operation::AVG: return dlprim::PeerOperation::average;
    case Operation::PRODUCT: return dlprim::PeerOperation::product;
    case Operation::MIN: return dlprim::PeerOperation::minimum;
    case Operation::MAX: return dlprim::PeerOperation::maximum;
    default: return dlprim::PeerOperation::sum;
  }
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
    case Exchange::Kind::reduce_scatter:
      return reduce(exchange, {exchange.from.where, part, part}, {exchange.to.where, 0, part});
    case Exchange::Kind::all_reduce: return all_reduce(exchange);
  }
}

void WindowMoves::reduce(const Exchange& exchange, const Parts& from, const Parts& to) {
  const dlprim::DataType type = data_type_of(exchange.input, "all_reduce");
  translated([&] { peers_.reduce(queue_, from, to, type, operation_of(exchange.operation), next_, call_); });
  next_++;
}

void WindowMoves::gather(const Exchange& exchange) {
  const std::size_t part = exchange.input.nbytes();
  const dlprim::BufferRef from = exchange.from.where, to = exchange.to.where;
  const bool in_place = from.memory == to.memory && from.offset == to.offset + rank_ * part;
  move({from, 0, part}, {to, part, part}, !in_place);
}

// A rank's links would carry the whole to each of several others: it sends each a share, which all pass on.
void WindowMoves::broadcast(const Exchange& exchange) {
  const std::size_t bytes = exchange.input.nbytes();
  const dlprim::BufferRef to = exchange.to.where;
  const std::uint32_t root = 1u << exchange.root;
  const bool gives = rank_ == std::size_t(exchange.root);
  const Parts none{to};
  if (ranks_ == 2 || bytes < least_in_shares) {
    const Parts whole{to, 0, bytes};
    return move(gives ? whole : none, gives ? none : whole, false, root);
  }
  const Shares shares = shares_of(to, bytes, 1);
  move(gives ? shares.all : none, gives ? none : shares.own, false, root);
  move(shares.own, shares.all, false, gives ? 0 : ~0u);
}

// Each of two ranks reduces all; of more, each reduces its share, which all get then.
void WindowMoves::all_reduce(const Exchange& exchange) {
  const std::size_t bytes = exchange.input.nbytes(), item = exchange.input.itemsize();
  const dlprim::BufferRef from = exchange.from.where, to = exchange.to.where;
  if (ranks_ == 2 || bytes * ranks_ <= most_for_all) return reduce(exchange, {from, 0, bytes}, {to, 0, bytes});
  const Shares shares = shares_of(to, bytes, item);
  reduce(exchange, {from, shares.all.stride, shares.all.part, bytes}, shares.own);
  move(shares.own, shares.all, false);
}

WindowMoves::Shares WindowMoves::shares_of(const dlprim::BufferRef& to, std::size_t bytes, std::size_t item) const {
  const std::size_t size = round_up((bytes / item + ranks_ - 1) / ranks_, share_unit) * item;
  const std::size_t begin = std::min(rank_ * size, bytes);
  return {{to, size, size, bytes}, {behind(to, begin), 0, size, std::min(size, bytes - begin)}};
}

}  // namespace pytorch_ocl::distributed
