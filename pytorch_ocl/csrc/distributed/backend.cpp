// SPDX-License-Identifier: MIT
#include "backend.hpp"

#include <c10/core/DeviceGuard.h>
#include <dlprim/runtime/copy_queue.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <numeric>

#include "board.hpp"
#include "runtime/device.hpp"

namespace pytorch_ocl::distributed {

namespace {

// Tensors larger than two pieces are cut.
constexpr std::int64_t piece_bytes = 8 << 20;

void run_part(const ProgressPtr& work, const Part& part, const dlprim::Event& arrived,
              const std::function<c10d::Backend&()>& gloo) noexcept {
  try {
    translated([&] { arrived.wait(); });
    part.start(gloo())->getFuture()->addCallback([work, images = part.to_device](c10::ivalue::Future& future) {
      work->end_part(images, future.hasError() ? future.exception_ptr() : nullptr);
    });
  } catch (...) {
    work->end_part({}, std::current_exception());
  }
}

}  // namespace

GlooBackend::GlooBackend(c10::intrusive_ptr<c10d::Backend> group, c10::intrusive_ptr<c10d::Store> store,
                         SharedOptions options)
    : Backend(group->getRank(), group->getSize()), group_(std::move(group)), store_(std::move(store)),
      options_(options), may_share_(options.enabled && size_ > 1) {
  c10d::PrefixStore hosts("ocl_mail", store_);
  const std::string host = options.enabled ? host_identity() : "";
  if (size_ > 1) Board(hosts, rank_, size_, group_->getBackendOptions()->timeout).post("/host/", host);
}

void GlooBackend::check_rank(std::int64_t rank, const char* call) const {
  TORCH_CHECK_VALUE(rank >= 0 && rank < size_, call, ": expected a rank from 0 to ", size_ - 1,
                    " of the group, but got ", rank);
}

c10d::Backend& GlooBackend::gloo() {
  if (!gloo_) {
    std::vector<int> ranks(size_);
    std::iota(ranks.begin(), ranks.end(), 0);
    const c10::intrusive_ptr<Options> options = group_->getBackendOptions();
    // Gloo's split() reads the ranks of its group, which a second default group does not know.
    if (options->global_ranks_in_group.empty()) options->global_ranks_in_group.assign(ranks.begin(), ranks.end());
    gloo_ = group_->split(c10::make_intrusive<c10d::PrefixStore>("ocl_gloo", store_), ranks, options);
  }
  return *gloo_;
}

// What goes through shared memory has streams of its own: on these, copies wait for calls made before them. They are
// nobody else's, as a stream that waits for a collective would keep it from ending.
Streams GlooBackend::streams(c10::Device where, bool shared) {
  std::lock_guard guard(mutex_);
  auto found = streams_.find({where.index(), shared});
  if (found == streams_.end()) {
    auto pooled = [&] {
      const std::int64_t queue = translated([&] {
        dlprim::Device& owner = device(where.index());
        return (shared ? dlprim::copy_queue(owner) : owner.pooled_queue()).id();
      });
      return c10::Stream(c10::Stream::UNSAFE, where, queue);
    };
    found = streams_.emplace(std::pair(where.index(), shared), Streams{pooled(), pooled()}).first;
  }
  return found->second;
}

WorkPtr GlooBackend::launch(Call call, std::vector<Part> parts, Images last) {
  std::optional<Streams> side;
  dlprim::Event ready;
  if (!call.outputs.empty() || !call.inputs.empty()) {
    const c10::Device where = (call.outputs.empty() ? call.inputs : call.outputs).front().device();
    side = streams(where);
    translated([&] {
      ready = queue_of(current_stream(where.index())).record();
      queue_of(side->to_host).wait(ready);
    });
  }
  const auto back = side ? std::optional(side->to_device) : std::nullopt;
  auto work = StagedWork::make(rank_, call.type, call.title, back, ready, parts.size(), std::move(last),
                               std::move(call.outputs), callbacks_);
  // All copies first: where one fails, for want of memory, nothing has started that other ranks would wait for.
  std::vector<dlprim::Event> arrived(parts.size());
  for (std::size_t i = 0; i < parts.size(); i++) {
    if (parts[i].to_host.empty()) continue;
    copy_to_host(parts[i].to_host, side->to_host);
    arrived[i] = translated([&] { return queue_of(side->to_host).record(); });
    parts[i].to_host.clear();
  }
  const bool at_once = collectives_.is_current();
  for (std::size_t i = 0; i < parts.size(); i++) {
    auto task = [this, work = work->progress(), part = std::move(parts[i]), event = std::move(arrived[i])] {
      run_part(work, part, event, [this]() -> c10d::Backend& { return gloo(); });
    };
    if (at_once) task();
    else collectives_.post(std::move(task));
  }
  return work;
}

WorkPtr GlooBackend::launch_whole(Call call, StartBetween start) {
  const c10::DeviceGuard guard(device_of(call, true));
  Part part{images_of(call.inputs), images_of(call.outputs), {}};
  part.start = [start = std::move(start), inputs = part.to_host, outputs = part.to_device](c10d::Backend& gloo) {
    return start(gloo, inputs, outputs);
  };
  return launch(std::move(call), {std::move(part)});
}

WorkPtr GlooBackend::launch_elementwise(Call call, bool sends, bool receives, Tensors (*view)(const Images&),
                                        Start start) {
  call.outputs = call.inputs;
  const c10::DeviceGuard guard(common_device(call.inputs, call.title));
  const Images whole = images_of(call.inputs);
  auto part_of = [&](Images images, bool copies) {
    Part part{copies && sends ? images : Images{}, copies && receives ? images : Images{}, {}};
    part.start = [start, hosts = view(images)](c10d::Backend& gloo) mutable { return start(gloo, hosts); };
    return part;
  };
  const at::Tensor& tensor = call.inputs.front();
  if (call.inputs.size() > 1 || std::int64_t(tensor.nbytes()) <= 2 * piece_bytes)
    return launch(std::move(call), {part_of(whole, true)});

  // Ranks cut alike, however their tensors lie; one with gaps is copied as a whole.
  const bool dense = tensor.is_contiguous();
  const at::Tensor host = whole.front().host.view(-1);
  const std::int64_t step = piece_bytes / tensor.itemsize(), count = tensor.numel();
  std::vector<Part> parts;
  for (std::int64_t begin = 0; begin < count; begin += step) {
    const std::int64_t length = std::min(step, count - begin);
    const at::Tensor piece = host.narrow(0, begin, length);
    parts.push_back(part_of({{dense ? tensor.view(-1).narrow(0, begin, length) : at::Tensor(), piece}}, dense));
  }
  if (!dense && sends) parts.front().to_host = whole;
  return launch(std::move(call), std::move(parts), dense || !receives ? Images{} : whole);
}

}  // namespace pytorch_ocl::distributed
