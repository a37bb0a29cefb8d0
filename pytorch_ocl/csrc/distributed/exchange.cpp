// SPDX-License-Identifier: MIT
#include "exchange.hpp"

#include <algorithm>

#include "runtime/tensor.hpp"

namespace pytorch_ocl::distributed {

namespace {

constexpr std::size_t largest_item = 16;

}  // namespace

Memory::Memory(const at::Tensor& tensor) : where(buffer_of(tensor)), kept_(where.memory, true) {}

void Exchange::resolve() {
  make_own(output);
  from = Memory(input), to = Memory(output);
}

Signature Exchange::signature() const {
  return {std::int32_t(kind), std::int32_t(input.scalar_type()), reduces() ? std::int32_t(operation) : 0,
          kind == Kind::broadcast ? root : std::int32_t(on_devices), std::int64_t(input.nbytes())};
}

Layout Layout::of(std::size_t piece_bytes, int ranks) {
  const std::size_t least = share_unit * largest_item * std::size_t(ranks);
  const std::size_t inputs = round_up(std::max(piece_bytes, least), std::max<std::size_t>(least, 4096));
  return {inputs, round_up(inputs / std::size_t(ranks) + share_unit * largest_item, 4096)};
}

Plan::Plan(const Exchange& exchange, const Layout& layout, int rank, int ranks)
    : kind_(exchange.kind), root_(exchange.root), rank_(rank), ranks_(ranks), on_devices_(exchange.on_devices),
      item_(exchange.input.itemsize()) {
  const std::size_t parts = scatters() ? std::size_t(ranks) : 1;
  count_ = std::size_t(exchange.input.numel()) / parts;
  step_ = layout.inputs / item_ / parts / share_unit * share_unit;
}

Plan::Extent Plan::extent(std::uint32_t piece) const noexcept {
  const std::size_t begin = piece * step_;
  return {begin, std::min(step_, count_ - begin)};
}

Plan::Extent Plan::share_of(int rank, std::size_t count) const noexcept {
  const std::size_t each = round_up((count + std::size_t(ranks_) - 1) / std::size_t(ranks_), share_unit);
  const std::size_t begin = std::min(std::size_t(rank) * each, count);
  return {begin, std::min(each, count - begin)};
}

std::vector<Move> Plan::sent(std::uint32_t piece) const {
  const auto [begin, count] = extent(piece);
  std::vector<Move> moves;
  if (kind_ == Exchange::Kind::broadcast && rank_ != root_) return moves;
  if (!scatters()) {
    moves.push_back({rank_, false, 0, begin * item_, count * item_});
    return moves;
  }
  for (std::size_t to = 0; to < std::size_t(ranks_); to++)
    if (!on_devices_ || to != rank())
      moves.push_back({rank_, false, to * step_ * item_, (to * count_ + begin) * item_, count * item_});
  return moves;
}

Plan::Share Plan::share(std::uint32_t piece) const {
  const std::size_t count = extent(piece).count;
  if (kind_ == Exchange::Kind::reduce_scatter) return {rank() * step_ * item_, count};
  if (kind_ != Exchange::Kind::all_reduce) return {0, 0};
  const Extent own = share_of(rank_, count);
  return {own.begin * item_, own.count};
}

std::vector<Move> Plan::other(std::uint32_t piece) const {
  const std::size_t in_slot = kind_ == Exchange::Kind::reduce_scatter ? rank() * step_ * item_ : 0;
  return {{1 - rank_, false, in_slot, 0, extent(piece).count * item_}};
}

std::vector<Move> Plan::received(std::uint32_t piece) const {
  const auto [begin, count] = extent(piece);
  std::vector<Move> moves;
  switch (kind_) {
    case Exchange::Kind::reduce_scatter: moves.push_back({rank_, true, 0, begin * item_, count * item_}); break;
    case Exchange::Kind::broadcast:
      if (rank_ != root_) moves.push_back({root_, false, 0, begin * item_, count * item_});
      break;
    case Exchange::Kind::all_gather:
      for (int from = 0; from < ranks_; from++)
        if (from != rank_)
          moves.push_back({from, false, 0, (std::size_t(from) * count_ + begin) * item_, count * item_});
      break;
    case Exchange::Kind::all_to_all:
      for (std::size_t from = 0; from < std::size_t(ranks_); from++)
        moves.push_back({int(from), false, rank() * step_ * item_, (from * count_ + begin) * item_, count * item_});
      break;
    case Exchange::Kind::all_reduce:
      for (int from = 0; from < ranks_; from++)
        if (const Extent part = share_of(from, count); part.count > 0)
          moves.push_back({from, true, 0, (begin + part.begin) * item_, part.count * item_});
  }
  return moves;
}

}  // namespace pytorch_ocl::distributed
