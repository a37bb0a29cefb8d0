// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "exchange.hpp"
#include "mail_pool.hpp"
#include "staging.hpp"
#include "worker.hpp"

namespace pytorch_ocl::distributed {

struct MailOptions {
  std::optional<std::int64_t> piece_bytes{};  ///< not given: what suits the memory
  std::size_t least_bytes = 0;  ///< of the smallest message that memory is shared for
  bool staged = false;  ///< CPUs' copies go through pinned memory as well
  std::optional<bool> devices{};  ///< whether devices read each other's memory; not given: where the device is a GPU
};

/// Messages between ranks of one host. Gloo carries a letter for each, under the message's tag, so that letters match
/// and fail as Gloo's messages do. It has a small body in it; a large one lies in pieces of the sender's pool, where the
/// receiver reaches that, which it says when it gets the first letter, or follows through Gloo. The pieces are of the sender's
/// device where the receiver's reaches that, else of the host.
///
/// A message has been sent when its letter has: nobody waits for the body to be taken. Receiving takes no thread: the
/// letter arrives where it is expected, and the body is fetched by who waits for it.
class Mail {
 public:
  /// `streams`: those of a device on which nothing waits for what has not been done.
  Mail(c10::intrusive_ptr<c10d::Backend> gloo, const MailOptions& options, std::function<Streams(c10::Device)> streams);
  /// Ends what has not been fetched, at the latest after some seconds.
  ~Mail();
  Mail(const Mail&) = delete;

  /// Sends what the tensor holds once the current stream has come here; it must not change until there is a result, the
  /// letter's work. `fetched_soon`: that may wait for the receiver to fetch the body, of which less memory is kept.
  std::future<WorkPtr> send(const at::Tensor& tensor, int rank, int tag, bool fetched_soon = false);

  /// Where a letter is to arrive.
  struct Expected {
    at::Tensor paper;
    WorkPtr work;
    int rank;  ///< -1: any
  };
  /// Under one of these tags, letters match in the order of these calls.
  Expected expect(int rank, int tag);
  /// Waits for the letter and fetches the body to a tensor, by copies that run on `stream`. Raises Gloo's errors, and
  /// RuntimeError where the message has other bytes than the tensor.
  void fetch(const Expected& expected, const at::Tensor& tensor, c10::Stream stream, std::chrono::milliseconds timeout);

  /// How many messages of this process had bodies of each kind, in the order of Letter::Body.
  static std::array<std::int64_t, 4> counts() noexcept;

 private:
  using Clock = std::chrono::steady_clock;
  struct Outgoing;
  struct Incoming;
  // How often a thread that waits looks whether the other rank still lives.
  static constexpr auto glance = std::chrono::milliseconds(50);

  bool is_direct(c10::Device device) const;
  MailPool* pool(c10::Device where, bool large);
  Parts take_pieces(int rank, std::size_t bytes, c10::Device where, std::size_t most);
  void dispatch(const std::shared_ptr<Outgoing>& message) noexcept;
  WorkPtr post(const Outgoing& message, Letter::Body body, std::size_t number, const at::Tensor& paper);
  WorkPtr send_pieces(const std::shared_ptr<Outgoing>& message);
  WorkPtr send_inlined(const Outgoing& message);
  WorkPtr send_body(const Outgoing& message);
  dlprim::Event copy_to_piece(const Outgoing& message, std::size_t part);
  void fill(const Outgoing& message, std::size_t part);
  void send_rest(Outgoing& message, const WorkPtr& letter) noexcept;
  bool await_taken(const Outgoing& message, std::size_t part);
  bool gives_up() const noexcept;

  PeerPool* pool_of(int rank, const Letter& letter, c10::Device where);
  void fetch_body(Incoming& message);
  at::Tensor fetch_following(const Incoming& message);
  void fetch_pieces(Incoming& message);
  void copy_from_device(const Incoming& message, std::size_t part);
  void copy_from_host(const Incoming& message, std::size_t part);
  void await_part(const Incoming& message, std::size_t part);
  void discard(const Incoming& message);
  void acknowledge(dlprim::Event copied, SharedCount& taken, std::uint32_t filling);

  c10::intrusive_ptr<c10d::Backend> gloo_;
  MailOptions options_;
  std::function<Streams(c10::Device)> streams_;
  std::mutex mutex_;
  std::optional<std::unique_ptr<MailPool>> pool_;
  bool has_tried_device_ = false;
  std::vector<std::uint32_t> bodies_;  // that have followed letters, by receiver
  std::map<int, std::unique_ptr<PeerPool>> peers_;
  std::vector<c10::weak_intrusive_ptr<c10d::Work>> following_;  // bodies on their way
  std::atomic<Clock::rep> end_{0};  // when the last that was not fetched is given up; 0: it is not known yet
  Worker sends_{"pt_ocl_send"}, bodies_sent_{"pt_ocl_bodies"};
  Worker rests_{"pt_ocl_rest", Worker::unlimited}, taken_{"pt_ocl_taken", 4};  // last: their threads use the others
};

}  // namespace pytorch_ocl::distributed
