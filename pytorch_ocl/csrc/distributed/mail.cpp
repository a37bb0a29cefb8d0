// SPDX-License-Identifier: MIT
// Sending messages; mail_fetch.cpp receives them.
#include "mail.hpp"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/DeviceGuard.h>
#include <dlprim/runtime/parallel.hpp>

#include <algorithm>
#include <cstring>
#include <thread>

#include "runtime/device.hpp"

namespace pytorch_ocl::distributed {

namespace {

// How long the end of a group waits for bodies to be fetched.
constexpr auto patience_at_end = std::chrono::seconds(20);
// Of bodies that follow: receivers fetch them when they wait, which may be as late as they like.
constexpr auto no_limit_of_bodies = std::chrono::hours(24 * 365);

// Bytes of a piece: of the host's memory those that fit caches, of a device's those whose copies hide what they cost the
// host.
constexpr std::int64_t host_piece = 4 << 20, device_piece = 8 << 20;

// Pieces that large messages of collectives go through in turn, where the host's caches hold few of them.
constexpr std::size_t most_in_turn = 4;

std::array<std::atomic<std::int64_t>, 4> sent_counts{};

}  // namespace

struct Mail::Outgoing {
  at::Tensor tensor;
  Memory memory;
  dlprim::Event ready;
  c10::Stream stream;
  int rank, tag;
  Parts parts;  // without pieces where the body goes through Gloo
  MailPool* pool;  // may be null then
  bool direct;
  bool waits;  // for the rest to be sent
  std::promise<WorkPtr> sent{};
  at::Tensor image{};  // of the pieces, where they are not filled directly

  std::size_t bytes() const { return tensor.nbytes(); }
  dlprim::BufferRef at(std::size_t begin) const { return {memory.where.memory, memory.where.offset + begin}; }
  std::byte* image_of(std::size_t part) const {
    return static_cast<std::byte*>(image.data_ptr()) + part % parts.pieces.size() * parts.piece_bytes;
  }
};

Mail::Mail(c10::intrusive_ptr<c10d::Backend> gloo, const MailOptions& options,
           std::function<Streams(c10::Device)> streams)
    : gloo_(std::move(gloo)), options_(options), streams_(std::move(streams)), bodies_(std::size_t(gloo_->getSize())) {}

Mail::~Mail() {
  end_ = (Clock::now() + patience_at_end).time_since_epoch().count();
  const auto wait_for = [&](Worker& worker) {
    auto done = std::make_shared<std::promise<void>>();
    worker.post([done] { done->set_value(); });
    const std::future<void> future = done->get_future();
    while (future.wait_for(glance) != std::future_status::ready && !gives_up()) {}
  };
  wait_for(sends_);
  wait_for(bodies_sent_);
  std::lock_guard guard(mutex_);
  for (const auto& each : following_)
    if (const WorkPtr work = each.lock()) work->abort();
}

bool Mail::gives_up() const noexcept {
  const Clock::rep end = end_;
  return Worker::halted() || (end != 0 && Clock::now().time_since_epoch().count() > end);
}

std::array<std::int64_t, 4> Mail::counts() noexcept {
  return {sent_counts[0], sent_counts[1], sent_counts[2], sent_counts[3]};
}

bool Mail::is_direct(c10::Device where) const {
  const dlprim::DeviceInfo& info = translated([&] { return device(where.index()).info(); });
  return (info.cpu || info.unified_memory) && !options_.staged;
}

// Null where this system has none: all bodies go through Gloo then. The first large message's device adds pieces of its
// own.
MailPool* Mail::pool(c10::Device where, bool large) {
  std::lock_guard guard(mutex_);
  if (!pool_) {
    pool_.emplace();
    try {
      *pool_ = std::make_unique<MailPool>(std::size_t(options_.piece_bytes.value_or(host_piece)));
    } catch (const c10::Error&) {}
  }
  if (!*pool_ || !large || has_tried_device_) return pool_->get();
  has_tried_device_ = true;
  const dlprim::DeviceInfo& info = translated([&] { return device(where.index()).info(); });
  if (!options_.devices.value_or(info.gpu)) return pool_->get();
  const std::int64_t suits = info.cpu ? host_piece : device_piece;
  try {
    (*pool_)->add(std::make_unique<DevicePieces>(where, std::size_t(options_.piece_bytes.value_or(suits))));
  } catch (const c10::Error&) {
    // It has no memory that others reach.
  }
  return pool_->get();
}

Parts Mail::take_pieces(int rank, std::size_t bytes, c10::Device where, std::size_t most) {
  const bool large = bytes >= std::max<std::size_t>(options_.least_bytes, 1);
  MailPool* own = pool(where, large);
  if (!own || !large) return {};
  for (const bool on_device : {true, false}) {
    if (on_device && (!own->device_pieces() || own->device_pieces()->device() != where)) continue;
    if (!own->is_reached_by(rank, on_device)) continue;
    Parts parts{bytes, own->piece_bytes(on_device), {}};
    parts.pieces = own->take(parts.count(), most, on_device);
    if (!parts.pieces.empty()) return parts;
  }
  return {};
}

std::future<WorkPtr> Mail::send(const at::Tensor& tensor, int rank, int tag, bool fetched_soon) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const c10::Device where = tensor.device();
  const c10::DeviceGuard guard(where);
  at::Tensor body = dense(tensor);
  std::size_t most = PoolBoard::pieces;
  if (fetched_soon) most = std::min(most / bodies_.size(), is_direct(where) ? most_in_turn : most);
  Parts parts = take_pieces(rank, body.nbytes(), where, most);
  try {
    // The tensor may change before all of it has found a place.
    const bool in_turn = !parts.pieces.empty() && parts.pieces.size() < parts.count();
    if (in_turn && !fetched_soon && body.is_same(tensor)) body = body.clone();
    const dlprim::Event ready = translated([&] { return queue_of(current_stream(where.index())).record(); });
    auto message = std::make_shared<Outgoing>(Outgoing{nameless(body), body.numel() ? Memory(body) : Memory(), ready,
                                                       streams_(where).to_host, rank, tag, parts, pool(where, false),
                                                       is_direct(where), in_turn && fetched_soon});
    std::future<WorkPtr> sent = message->sent.get_future();
    sends_.post([this, message] { dispatch(message); });
    return sent;
  } catch (...) {
    if (!parts.pieces.empty()) pool(where, false)->give_back(parts);
    throw;
  }
}

void Mail::dispatch(const std::shared_ptr<Outgoing>& message) noexcept {
  try {
    const c10::DeviceGuard guard(message->tensor.device());
    translated([&] { message->ready.wait(); });
    WorkPtr letter;
    if (!message->parts.pieces.empty()) letter = send_pieces(message);
    else if (message->bytes() <= Letter::most_inlined) letter = send_inlined(*message);
    else letter = send_body(*message);
    if (!message->waits) message->sent.set_value(std::move(letter));
  } catch (...) {
    message->sent.set_exception(std::current_exception());
  }
}

WorkPtr Mail::post(const Outgoing& message, Letter::Body body, std::size_t number, const at::Tensor& paper) {
  Letter letter{message.bytes(), body, std::uint32_t(number), {}, {}};
  if (message.pool) letter.pool = message.pool->place();
  if (message.pool && message.pool->device_pieces()) letter.device = message.pool->device_pieces()->place();
  std::memcpy(paper.data_ptr(), &letter, sizeof letter);
  sent_counts[std::size_t(body)]++;
  Tensors one{paper};
  return gloo_->send(one, message.rank, message.tag);
}

WorkPtr Mail::send_pieces(const std::shared_ptr<Outgoing>& message) {
  const Parts& parts = message->parts;
  const std::size_t pieces = parts.pieces.size();
  const bool on_device = parts.on_device();
  WorkPtr sent;
  try {
    if (!on_device && !message->direct) message->image = pinned_bytes(pieces * parts.piece_bytes);
    const at::Tensor paper = pinned_bytes(sizeof(Letter) + pieces * sizeof(PieceUse));
    std::memcpy(static_cast<std::byte*>(paper.data_ptr()) + sizeof(Letter), parts.pieces.data(),
                pieces * sizeof(PieceUse));
    std::vector<dlprim::Event> copied;
    for (std::size_t part = 0; part < pieces; part++) copied.push_back(copy_to_piece(*message, part));
    for (std::size_t part = 0; part < pieces; part++) {
      translated([&] { copied[part].wait(); });
      fill(*message, part);
      if (part == 0)
        sent = post(*message, on_device ? Letter::Body::on_device : Letter::Body::in_pieces, pieces, paper);
    }
  } catch (...) {
    message->pool->fail();
    throw;
  }
  if (pieces < parts.count()) rests_.post([this, message, sent] { send_rest(*message, sent); });
  // Who has not asked for a piece of the device yet can only do so while this process lives.
  if (on_device)
    bodies_sent_.post([this, message] {
      for (std::size_t part = 0; part < message->parts.count() && await_taken(*message, part); part++) {}
    });
  return sent;
}

WorkPtr Mail::send_inlined(const Outgoing& message) {
  const at::Tensor paper = pinned_bytes(sizeof(Letter) + message.bytes());
  if (message.bytes() > 0) {
    translated([&] {
      dlprim::Queue& queue = queue_of(message.stream);
      queue.read(static_cast<std::byte*>(paper.data_ptr()) + sizeof(Letter), message.at(0), message.bytes(), false);
      queue.record().wait();
    });
  }
  return post(message, Letter::Body::inlined, 0, paper);
}

WorkPtr Mail::send_body(const Outgoing& message) {
  Tensors body{pinned_bytes(message.bytes())};
  translated([&] {
    dlprim::Queue& queue = queue_of(message.stream);
    queue.read(body.front().data_ptr(), message.at(0), message.bytes(), false);
    queue.record().wait();
  });
  const std::uint32_t number = bodies_[std::size_t(message.rank)]++;
  WorkPtr sent = post(message, Letter::Body::follows, number, pinned_bytes(sizeof(Letter)));
  WorkPtr follows = gloo_->send(body, message.rank, body_tag(number));
  {
    std::lock_guard guard(mutex_);
    std::erase_if(following_, [](const auto& work) { return work.expired(); });
    following_.push_back(c10::weak_intrusive_ptr<c10d::Work>(follows));
  }
  bodies_sent_.post([follows = std::move(follows)] {
    try {
      follows->wait(no_limit_of_bodies);
    } catch (...) {
      // The receiver, if it lives, gets an error, too.
    }
  });
  return sent;
}

dlprim::Event Mail::copy_to_piece(const Outgoing& message, std::size_t part) {
  const Parts& parts = message.parts;
  const std::uint32_t piece = parts.piece(part);
  return translated([&] {
    dlprim::Queue& queue = queue_of(message.stream);
    const dlprim::BufferRef from = message.at(parts.begin(part));
    if (parts.on_device()) {
      const cl::Buffer& to = message.pool->device_pieces()->buffer(piece - PoolBoard::pieces);
      queue.copy({to(), 0}, from, parts.size(part));
    } else {
      std::byte* to = message.direct ? message.pool->memory(piece) : message.image_of(part);
      queue.read(to, from, parts.size(part), false);
    }
    return queue.record();
  });
}

// Once the copy has ended.
void Mail::fill(const Outgoing& message, std::size_t part) {
  const Parts& parts = message.parts;
  const std::uint32_t piece = parts.piece(part);
  if (message.image.defined())
    dlprim::parallel_copy(message.pool->memory(piece), message.image_of(part), parts.size(part));
  message.pool->counts(piece).filled.reach(parts.filling(part));
}

// Whether the receiver has taken a part; it may have ended.
bool Mail::await_taken(const Outgoing& message, std::size_t part) {
  const SharedCount& taken = message.pool->counts(message.parts.piece(part)).taken;
  const std::uint32_t filling = message.parts.filling(part);
  while (!taken.has_reached(filling)) {
    taken.await(filling, glance);
    if (taken.has_reached(filling)) break;
    if (gives_up() || message.pool->is_left_by(message.rank)) return false;
  }
  return true;
}

// What finds a place only when the receiver has taken what came before.
void Mail::send_rest(Outgoing& message, const WorkPtr& letter) noexcept {
  try {
    const c10::DeviceGuard guard(message.tensor.device());
    const std::size_t pieces = message.parts.pieces.size();
    for (std::size_t part = pieces; part < message.parts.count(); part++) {
      if (!await_taken(message, part - pieces)) {
        if (message.waits) message.sent.set_value(letter);  // who has ended needs no more of it
        return;
      }
      const dlprim::Event copied = copy_to_piece(message, part);
      translated([&] { copied.wait(); });
      fill(message, part);
    }
    if (message.waits) message.sent.set_value(letter);
  } catch (...) {
    message.pool->fail();
    if (message.waits) message.sent.set_exception(std::current_exception());
  }
}

}  // namespace pytorch_ocl::distributed
