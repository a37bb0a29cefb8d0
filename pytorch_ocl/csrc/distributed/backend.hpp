// SPDX-License-Identifier: MIT
#pragma once
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <map>
#include <utility>

#include "staging.hpp"
#include "worker.hpp"

namespace pytorch_ocl::distributed {

/// c10d's backend for tensors of ocl devices: copies them to pinned host memory and runs Gloo there. A caller never
/// waits for its device: a thread starts Gloo once the copies have arrived, in the order of the calls. Errors and
/// time-outs are Gloo's, raised by wait(). What moves data takes tensors of any strides and dtype, reductions those of
/// Gloo's dtypes.
class GlooBackend final : public c10d::Backend {
 public:
  /// `group`: Gloo of the process group, which serves point-to-point calls, under tags of their own. Collectives get a
  /// Gloo of theirs, connected through `store` by the first of them, so that programs for the CPU have none.
  GlooBackend(c10::intrusive_ptr<c10d::Backend> group, c10::intrusive_ptr<c10d::Store> store);

  const std::string getBackendName() const override { return "ocl_gloo"; }
  c10::intrusive_ptr<Options> getBackendOptions() override { return group_->getBackendOptions(); }
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

  c10::Device device_of(const Call& call, bool lengths_fit) const;
  Part reduce_scatter_part(const at::Tensor& output, const Tensors& inputs,
                           const c10d::ReduceScatterOptions& options) const;
  WorkPtr launch(Call call, std::vector<Part> parts, Images last = {});
  /// A collective in one part; `start` gets images of the inputs, then of the outputs.
  WorkPtr launch_whole(Call call, StartBetween start);
  /// One in place, elementwise, so that a large tensor goes in pieces, as copies and sending overlap then. `sends` and
  /// `receives`: which copies this rank needs. `view` makes of images what Gloo gets.
  WorkPtr launch_elementwise(Call call, bool sends, bool receives, Tensors (*view)(const Images&), Start start);

  Streams streams(c10::Device device);
  c10d::Backend& gloo();

  c10::intrusive_ptr<c10d::Backend> group_, gloo_;
  c10::intrusive_ptr<c10d::Store> store_;
  std::mutex mutex_;
  std::map<c10::DeviceIndex, Streams> streams_;
  Worker collectives_, sends_;  // last: their threads use the others
};

}  // namespace pytorch_ocl::distributed
