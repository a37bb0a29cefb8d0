// SPDX-License-Identifier: MIT
#pragma once
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <map>
#include <optional>
#include <utility>

#include "mail.hpp"
#include "shared_channel.hpp"
#include "staging.hpp"
#include "window_channel.hpp"
#include "worker.hpp"

namespace pytorch_ocl::distributed {

/// How ranks of one host use shared memory; the same on every rank.
struct SharedOptions {
  /// Whether wait() holds back the current stream instead of the host; not given: where the device is a GPU.
  std::optional<bool> holds_streams{};
  bool enabled = true;
  HostAccess access = HostAccess::measured;
  /// Whether devices reach each other's memory where they can; not given: where the device is a GPU.
  std::optional<bool> windows{};
  /// Not given: what suits the device of each rank best, the least of all ranks.
  std::optional<std::int64_t> piece_bytes{};
  /// Smaller collectives go through Gloo until the group has had one that does not; but reductions of 16 bits, which
  /// Gloo does not do in float32. Not given: 64 KiB, or 0 where all ranks' devices reach each other by kernels.
  std::optional<std::int64_t> least_bytes{};
};

/// c10d's backend for tensors of ocl devices: copies them to pinned host memory and runs Gloo there. A caller never
/// waits for its device: a thread starts Gloo once the copies have arrived, in the order of the calls. Errors and
/// time-outs are Gloo's, raised by wait(). What moves data takes tensors of any strides and dtype, reductions those of
/// Gloo's dtypes. Where all ranks run on one host, large tensors go through a SharedChannel instead; on GPUs, wait() then
/// does not keep the host, and errors are raised where the host waits for the stream, and by the next collective. Messages
/// between two of them go by Mail.
class GlooBackend final : public c10d::Backend {
 public:
  /// `group`: Gloo of the process group, which serves point-to-point calls, under tags of their own. Collectives get a
  /// Gloo of theirs, connected through `store` by the first of them, so that programs for the CPU have none.
  GlooBackend(c10::intrusive_ptr<c10d::Backend> group, c10::intrusive_ptr<c10d::Store> store, SharedOptions options);

  const std::string getBackendName() const override { return "ocl_gloo"; }
  c10::intrusive_ptr<Options> getBackendOptions() override { return group_->getBackendOptions(); }
  /// Ends what is under way, and all that follows, with an error.
  void abort() override;
  void setSequenceNumberForGroup() override { group_->setSequenceNumberForGroup(); }
  std::uint64_t getSequenceNumberForGroup() override { return group_->getSequenceNumberForGroup(); }

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) override;
  WorkPtr gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& options) override;
  WorkPtr scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& options) override;
  WorkPtr reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& options) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options) override;
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& output_sizes,
                        std::vector<std::int64_t>& input_sizes, const c10d::AllToAllOptions& options) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override;

  WorkPtr send(Tensors& tensors, int rank, int tag) override;
  WorkPtr recv(Tensors& tensors, int rank, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;

 private:
  /// What every collective needs: its kind, its name in profiles, and its tensors.
  struct Call {
    c10d::OpType type;
    const char* title;
    Tensors inputs, outputs;
  };
  using Start = std::function<WorkPtr(c10d::Backend& gloo, Tensors& hosts)>;
  using StartBetween = std::function<WorkPtr(c10d::Backend& gloo, const Images& inputs, const Images& outputs)>;

  /// Raises ValueError where the group has no such rank, of which Gloo makes time-outs or a crash.
  void check_rank(std::int64_t rank, const char* call) const;
  c10::Device device_of(const Call& call, bool lengths_fit) const;
  Part reduce_scatter_part(const at::Tensor& output, const Tensors& inputs,
                           const c10d::ReduceScatterOptions& options) const;
  WorkPtr launch(Call call, std::vector<Part> parts, Images last = {});
  /// A collective in one part; `start` gets images of the inputs, then of the outputs.
  WorkPtr launch_whole(Call call, StartBetween start);
  /// One in place, elementwise, so that a large tensor goes in pieces, as copies and sending overlap then. `sends` and
  /// `receives`: which copies this rank needs. `view` makes of images what Gloo gets.
  WorkPtr launch_elementwise(Call call, bool sends, bool receives, Tensors (*view)(const Images&), Start start);

  /// The same through shared memory, or null where it must go through Gloo. What it does not take is left to Gloo, for
  /// its errors. `again` makes the call anew, should the ranks turn out not to share a host. (shared_collectives.cpp)
  WorkPtr try_shared(Call call, std::vector<Exchange> exchanges, std::chrono::milliseconds timeout,
                     std::function<WorkPtr()> again);
  bool wants_shared(const std::vector<Exchange>& exchanges);
  bool takes_small(c10::Device where);
  bool exchanges_by_kernels(c10::Device where) const;
  Channel* channel(c10::Device where, std::chrono::milliseconds timeout);
  std::unique_ptr<Channel> make_channel(c10::Device where, std::chrono::milliseconds timeout);
  bool holds_streams(c10::Device where) const;
  std::unique_ptr<dlprim::Gate> gate(c10::Device where);
  WorkPtr enqueue(WindowChannel& windows, Call& call, std::vector<Exchange>& exchanges, const dlprim::Event& ready,
                  std::chrono::milliseconds timeout);
  void start_shared(std::vector<Exchange>& exchanges, const ProgressPtr& work, const dlprim::Event& ready,
                    c10::Device where, std::chrono::milliseconds timeout, const std::function<WorkPtr()>& again);
  void run_again(const ProgressPtr& work, std::size_t parts, const dlprim::Event& ready, c10::Device where,
                 const std::function<WorkPtr()>& again);
  WorkPtr reduce_shared(Call call, const c10d::AllreduceOptions& options, std::function<WorkPtr()> again);
  WorkPtr broadcast_shared(Tensors& tensors, const c10d::BroadcastOptions& options);
  /// Forms into and out of one tensor.
  WorkPtr move_shared(Call call, Exchange::Kind kind, Operation operation, std::chrono::milliseconds timeout,
                      std::function<WorkPtr()> again);
  WorkPtr reduce_to_root(Tensors& tensors, const c10d::ReduceOptions& options);
  /// all_to_all with equal parts.
  WorkPtr swap_shared(at::Tensor& output, at::Tensor& input, const c10d::AllToAllOptions& options);
  /// Forms with a tensor for each rank.
  WorkPtr gather_shared(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options);
  WorkPtr scatter_shared(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ReduceScatterOptions& options);

  /// The same by messages, or null. `to` and `from` have a tensor for each rank, or an undefined one.
  /// (message_collectives.cpp)
  struct Exchanged;
  WorkPtr exchange_messages(const std::shared_ptr<Mail>& mail, Call call, const Tensors& to, const Tensors& from,
                            std::chrono::milliseconds timeout);
  void finish_messages(Exchanged& all) noexcept;
  WorkPtr gather_messages(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& options);
  WorkPtr scatter_messages(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& options);
  WorkPtr alltoall_messages(at::Tensor& output, at::Tensor& input, const std::vector<std::int64_t>& output_sizes,
                            const std::vector<std::int64_t>& input_sizes, const c10d::AllToAllOptions& options);

  /// What carries messages between the ranks, where all are on one host and share memory; else null.
  std::shared_ptr<Mail> mail();
  std::shared_ptr<Mail> make_mail();
  Streams streams(c10::Device device, bool shared = false);
  c10d::Backend& gloo();

  Worker callbacks_{"pt_ocl_callback", Worker::unlimited};  // first: what ends last posts to it
  c10::intrusive_ptr<c10d::Backend> group_, gloo_;
  c10::intrusive_ptr<c10d::Store> store_;
  SharedOptions options_;
  std::mutex mutex_;
  std::map<std::pair<c10::DeviceIndex, bool>, Streams> streams_;
  std::atomic<bool> may_share_, has_shared_{false};  // ranks make the same calls, so has_shared_ is alike on all
  std::optional<bool> takes_small_;  // once the ranks have agreed
  std::unique_ptr<Channel> channel_;  // made by the first task of collectives_ that wants it
  std::atomic<WindowChannel*> windows_{nullptr};  // the same, where it is one
  std::atomic<int> unstarted_{0};  // calls for the channel that collectives_ has not started yet
  std::mutex mail_mutex_;
  std::optional<std::shared_ptr<Mail>> mail_;
  std::uint32_t messages_ = 0;  // collectives that messages have made up
  Worker collectives_, sends_;  // last: their threads use the others
};

}  // namespace pytorch_ocl::distributed
