// SPDX-License-Identifier: MIT
// Receiving messages.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <c10/core/StreamGuard.h>
#include <dlprim/runtime/copy_queue.hpp>
#include <dlprim/runtime/parallel.hpp>

#include <cstring>

#include "mail.hpp"
#include "runtime/allocator.hpp"
#include "runtime/device.hpp"
#include "runtime/host_allocator.hpp"
#include "runtime/tensor.hpp"

namespace pytorch_ocl::distributed {

namespace {

bool is_dense(const at::Tensor& tensor) { return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg(); }

}  // namespace

struct Mail::Incoming {
  Letter letter;
  const at::Tensor& paper;
  int rank;
  c10::Stream stream;
  std::chrono::milliseconds timeout;
  PeerPool* pool;
  Parts parts{};
  Memory to{};

  dlprim::BufferRef at(std::size_t begin) const { return {to.where.memory, to.where.offset + begin}; }
  bool is_in_pieces() const { return letter.body == Letter::Body::in_pieces || letter.body == Letter::Body::on_device; }
  std::byte* behind() const { return static_cast<std::byte*>(paper.data_ptr()) + sizeof(Letter); }
};

Mail::Expected Mail::expect(int rank, int tag) {
  at::Tensor paper = pinned_bytes(sizeof(Letter) + Letter::most_bytes_behind);
  Tensors one{paper};
  WorkPtr work = rank < 0 ? gloo_->recvAnysource(one, tag) : gloo_->recv(one, rank, tag);
  return {std::move(paper), std::move(work), rank};
}

// The sender hears nothing of what is not reached, and sends otherwise.
PeerPool* Mail::pool_of(int rank, const Letter& letter, c10::Device where) {
  std::lock_guard guard(mutex_);
  auto found = peers_.find(rank);
  if (found == peers_.end()) {
    if (letter.pool.piece_bytes == 0) return nullptr;
    found = peers_.emplace(rank, nullptr).first;
    try {
      found->second = std::make_unique<PeerPool>(letter.pool, gloo_->getRank());
    } catch (const c10::Error&) {}
  }
  if (found->second && options_.devices.value_or(true))
    found->second->try_device(letter.device, gloo_->getRank(), where);
  return found->second.get();
}

void Mail::fetch(const Expected& expected, const at::Tensor& tensor, c10::Stream stream,
                 std::chrono::milliseconds timeout) {
  expected.work->wait(timeout);
  if (timeout == kNoTimeout || timeout == c10d::kUnsetTimeout) timeout = gloo_->getBackendOptions()->timeout;
  Incoming message{{}, expected.paper, expected.rank, stream, timeout, nullptr};
  std::memcpy(&message.letter, expected.paper.data_ptr(), sizeof message.letter);
  const Letter& letter = message.letter;
  if (message.rank < 0) message.rank = expected.work->sourceRank();
  message.pool = pool_of(message.rank, letter, stream.device());
  if (message.is_in_pieces()) {
    const bool on_device = letter.body == Letter::Body::on_device;
    message.parts = {letter.bytes, message.pool->piece_bytes(on_device), std::vector<PieceUse>(letter.number)};
    std::memcpy(message.parts.pieces.data(), message.behind(), letter.number * sizeof(PieceUse));
  }
  if (letter.bytes != tensor.nbytes()) {
    discard(message);
    TORCH_CHECK(false, "Rank ", message.rank, " of the group sent ", letter.bytes,
                " bytes, but the tensor to receive them in has ", tensor.nbytes());
  }
  if (letter.bytes == 0) return;
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const c10::StreamGuard guard(stream);
  const auto contiguous = tensor.options().memory_format(at::MemoryFormat::Contiguous);
  const at::Tensor to = is_dense(tensor) ? tensor : at::empty(tensor.sizes(), contiguous);
  make_own(to);
  message.to = Memory(to);
  fetch_body(message);
  if (!to.is_same(tensor)) tensor.copy_(to);
  record_stream(to.storage().data_ptr(), stream);
  record_stream(tensor.storage().data_ptr(), stream);
}

at::Tensor Mail::fetch_following(const Incoming& message) {
  Tensors body{pinned_bytes(message.letter.bytes)};
  gloo_->recv(body, message.rank, body_tag(message.letter.number))->wait(message.timeout);
  return body.front();
}

// What is not wanted must not keep the sender's memory.
void Mail::discard(const Incoming& message) {
  if (message.letter.body == Letter::Body::follows) fetch_following(message);
  if (!message.is_in_pieces()) return;
  for (std::size_t part = 0; part < message.parts.count(); part++) {
    await_part(message, part);
    message.pool->counts(message.parts.piece(part)).taken.reach(message.parts.filling(part));
  }
}

void Mail::fetch_body(Incoming& message) {
  if (message.is_in_pieces()) return fetch_pieces(message);
  at::Tensor body = message.paper;
  const std::byte* from = message.behind();
  if (message.letter.body == Letter::Body::follows) {
    body = fetch_following(message);
    from = static_cast<const std::byte*>(body.data_ptr());
  }
  translated([&] { queue_of(message.stream).write(message.to.where, from, message.letter.bytes, false); });
  record_pinned(body, message.stream);
}

void Mail::fetch_pieces(Incoming& message) {
  for (std::size_t part = 0; part < message.parts.count(); part++) {
    await_part(message, part);
    if (message.letter.body == Letter::Body::on_device) copy_from_device(message, part);
    else copy_from_host(message, part);
  }
}

void Mail::copy_from_host(const Incoming& message, std::size_t part) {
  const Parts& parts = message.parts;
  SharedCount& taken = message.pool->counts(parts.piece(part)).taken;
  const std::byte* from = message.pool->memory(parts.piece(part));
  const dlprim::BufferRef to = message.at(parts.begin(part));
  const std::size_t bytes = parts.size(part);
  dlprim::Queue& queue = queue_of(message.stream);
  if (is_direct(message.stream.device())) {
    dlprim::Event copied = translated([&] {
      queue.write(to, from, bytes, false);
      return queue.record();
    });
    return acknowledge(std::move(copied), taken, parts.filling(part));
  }
  const at::Tensor image = pinned_bytes(bytes);
  dlprim::parallel_copy(image.data_ptr(), from, bytes);
  taken.reach(parts.filling(part));
  translated([&] { queue.write(to, image.data_ptr(), bytes, false); });
  record_pinned(image, message.stream);
}

// By the device that has tried it; another one may not reach the memory.
void Mail::copy_from_device(const Incoming& message, std::size_t part) {
  const Parts& parts = message.parts;
  SharedCount& taken = message.pool->counts(parts.piece(part)).taken;
  PeerPieces& pieces = *message.pool->device_pieces();
  const cl::Buffer& from = pieces.buffer(parts.piece(part) - PoolBoard::pieces);
  const dlprim::BufferRef to = message.at(parts.begin(part));
  const std::size_t bytes = parts.size(part);
  dlprim::Queue& queue = queue_of(message.stream);
  if (pieces.device() == message.stream.device()) {
    dlprim::Event copied = translated([&] {
      queue.copy(to, {from(), 0}, bytes);
      return queue.record();
    });
    return acknowledge(std::move(copied), taken, parts.filling(part));
  }
  const at::Tensor image = pinned_bytes(bytes);
  translated([&] {
    dlprim::copy_queue(device(pieces.device().index())).read(image.data_ptr(), {from(), 0}, bytes, true);
    queue.write(to, image.data_ptr(), bytes, false);
  });
  taken.reach(parts.filling(part));
  record_pinned(image, message.stream);
}

// Waits until a part lies in its piece.
void Mail::await_part(const Incoming& message, std::size_t part) {
  const SharedCount& filled = message.pool->counts(message.parts.piece(part)).filled;
  const std::uint32_t filling = message.parts.filling(part);
  const auto end = Clock::now() + message.timeout;
  while (!filled.has_reached(filling)) {
    filled.await(filling, glance);
    if (filled.has_reached(filling)) return;
    const bool lives = message.pool->has_owner(), failed = message.pool->has_failed();
    if (filled.has_reached(filling)) return;
    TORCH_CHECK_WITH(DistBackendError, lives, "Connection closed by peer: rank ", message.rank,
                     " of the group has ended");
    TORCH_CHECK_WITH(DistBackendError, !failed, "Rank ", message.rank, " of the group has stopped with an error");
    TORCH_CHECK_WITH(DistBackendError, Clock::now() < end, "Timed out waiting ", message.timeout.count(),
                     "ms for rank ", message.rank, " of the group to send the rest of a message");
  }
}

void Mail::acknowledge(dlprim::Event copied, SharedCount& taken, std::uint32_t filling) {
  taken_.post([copied = std::move(copied), &taken, filling] {
    try {
      translated([&] { copied.wait(); });
    } catch (...) {
      // Whoever waits for the stream hears of it.
    }
    taken.reach(filling);
  });
}

}  // namespace pytorch_ocl::distributed
