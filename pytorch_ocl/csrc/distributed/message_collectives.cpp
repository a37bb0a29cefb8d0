// SPDX-License-Identifier: MIT
// Collectives that messages between two ranks make up: those whose parts only the ranks concerned know the sizes of.
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/DeviceGuard.h>
#include <torch/csrc/distributed/c10d/Utils.hpp>

#include <algorithm>

#include "backend.hpp"
#include "runtime/device.hpp"

namespace pytorch_ocl::distributed {

namespace {

using c10d::OpType;

// One of each rank's, like a tensor.
bool are_like(const std::vector<Tensors>& lists, int size, const at::Tensor& tensor) {
  return lists.size() == 1 && int(lists.front().size()) == size &&
         std::ranges::all_of(lists.front(), [&](const at::Tensor& other) {
           return other.sizes() == tensor.sizes() && other.scalar_type() == tensor.scalar_type() &&
                  other.device() == tensor.device();
         });
}

// A tensor's parts, by the sizes given of each, or equal ones.
Tensors parts_of(const at::Tensor& tensor, const std::vector<std::int64_t>& sizes, int ranks) {
  c10d::checkSplitSizes(sizes, tensor, ranks);
  Tensors parts;
  std::int64_t begin = 0;
  for (int rank = 0; rank < ranks; rank++) {
    const std::int64_t size = sizes.empty() ? tensor.size(0) / ranks : sizes[std::size_t(rank)];
    parts.push_back(tensor.narrow(0, begin, size));
    begin += size;
  }
  return parts;
}

}  // namespace

struct GlooBackend::Exchanged {
  std::shared_ptr<Mail> mail;
  ProgressPtr work;
  std::vector<Mail::Expected> letters;
  Tensors tensors;  // one a letter
  std::vector<std::future<WorkPtr>> sent;
  dlprim::Event ready;
  c10::Stream stream;
  std::chrono::milliseconds timeout;
};

// All letters are expected before one is waited for, and messages that fail keep none from being fetched that did not.
void GlooBackend::finish_messages(Exchanged& all) noexcept {
  std::exception_ptr error;
  const auto attempt = [&](const auto& action) {
    try {
      action();
    } catch (...) {
      if (!error) error = std::current_exception();
    }
  };
  const c10::DeviceGuard guard(all.stream.device());
  attempt([&] { translated([&] { all.ready.wait(); }); });
  for (std::size_t i = 0; i < all.letters.size(); i++)
    attempt([&] { all.mail->fetch(all.letters[i], all.tensors[i], all.stream, all.timeout); });
  for (std::future<WorkPtr>& sent : all.sent) attempt([&] { sent.get()->wait(all.timeout); });
  all.work->end_part({}, error);
}

WorkPtr GlooBackend::exchange_messages(const std::shared_ptr<Mail>& mail, Call call, const Tensors& to,
                                       const Tensors& from, std::chrono::milliseconds timeout) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const c10::Device where = device_of(call, true);
  const c10::DeviceGuard guard(where);
  const int tag = collective_tag(messages_++);
  if (timeout == c10d::kUnsetTimeout) timeout = group_->getBackendOptions()->timeout;
  auto all = std::make_shared<Exchanged>(Exchanged{mail, {}, {}, {}, {}, {}, streams(where, true).to_device, timeout});
  for (int rank = 0; rank < int(from.size()); rank++) {
    if (rank == rank_ || !from[std::size_t(rank)].defined()) continue;
    all->letters.push_back(mail->expect(rank, tag));
    all->tensors.push_back(nameless(from[std::size_t(rank)]));
  }
  for (int i = 1; i < size_; i++) {  // not all ranks to the same one first
    const auto rank = std::size_t((rank_ + i) % size_);
    if (rank < to.size() && to[rank].defined()) all->sent.push_back(mail->send(to[rank], int(rank), tag, true));
  }
  const auto own = std::size_t(rank_);
  if (own < from.size() && from[own].defined() && own < to.size() && to[own].defined()) {
    TORCH_CHECK(from[own].numel() == to[own].numel() && from[own].scalar_type() == to[own].scalar_type(), call.title,
                ": expected ", to[own].numel(), " elements of ", to[own].scalar_type(),
                " for this rank's own part, but got ", from[own].numel(), " of ", from[own].scalar_type());
    from[own].copy_(to[own].reshape(from[own].sizes()));
  }
  all->ready = translated([&] { return queue_of(current_stream(where.index())).record(); });
  auto work = StagedWork::make(rank_, call.type, call.title, all->stream, all->ready, 1, {}, std::move(call.outputs),
                               callbacks_);
  all->work = work->progress();
  collectives_.post([this, all] { finish_messages(*all); });
  return work;
}

WorkPtr GlooBackend::gather_messages(std::vector<Tensors>& outputs, Tensors& inputs,
                                     const c10d::GatherOptions& options) {
  const bool root = options.rootRank == rank_;
  const std::shared_ptr<Mail> shared = mail();
  if (!shared || inputs.size() != 1 || options.rootRank < 0 || options.rootRank >= size_ ||
      (root ? !are_like(outputs, size_, inputs.front()) : !outputs.empty()))
    return {};
  Tensors to(static_cast<std::size_t>(size_)), from = root ? outputs.front() : Tensors();
  to[std::size_t(options.rootRank)] = inputs.front();
  return exchange_messages(shared, {OpType::GATHER, "ocl_gloo:gather", inputs, from}, to, from, options.timeout);
}

WorkPtr GlooBackend::scatter_messages(Tensors& outputs, std::vector<Tensors>& inputs,
                                      const c10d::ScatterOptions& options) {
  const bool root = options.rootRank == rank_;
  const std::shared_ptr<Mail> shared = mail();
  if (!shared || outputs.size() != 1 || options.rootRank < 0 || options.rootRank >= size_ ||
      (root ? !are_like(inputs, size_, outputs.front()) : !inputs.empty()))
    return {};
  Tensors from(static_cast<std::size_t>(size_)), to = root ? inputs.front() : Tensors();
  from[std::size_t(options.rootRank)] = outputs.front();
  return exchange_messages(shared, {OpType::SCATTER, "ocl_gloo:scatter", to, outputs}, to, from, options.timeout);
}

WorkPtr GlooBackend::alltoall_messages(at::Tensor& output, at::Tensor& input,
                                       const std::vector<std::int64_t>& output_sizes,
                                       const std::vector<std::int64_t>& input_sizes,
                                       const c10d::AllToAllOptions& options) {
  const std::shared_ptr<Mail> shared = mail();
  if (!shared || input.dim() == 0 || output.dim() == 0) return {};
  const Tensors to = parts_of(input, input_sizes, size_), from = parts_of(output, output_sizes, size_);
  return exchange_messages(shared, {OpType::ALLTOALL_BASE, "ocl_gloo:all_to_all", {input}, {output}}, to, from,
                           options.timeout);
}

}  // namespace pytorch_ocl::distributed
