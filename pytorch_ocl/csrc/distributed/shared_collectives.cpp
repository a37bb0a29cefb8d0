// SPDX-License-Identifier: MIT
// Collectives as exchanges through shared memory, where that can take them.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <future>
#include <numeric>

#include "backend.hpp"
#include "rendezvous.hpp"
#include "runtime/device.hpp"

namespace pytorch_ocl::distributed {

namespace {

using c10d::OpType;
using Kind = Exchange::Kind;

// Segments grow with the number of ranks, and so do the ways between them.
constexpr int most_ranks = 64;
// Where threads of the hosts move them.
constexpr std::int64_t least_by_threads = 64 << 10;
// Bytes of a piece. Each takes a GPU's driver calls that hold up what else the process launches, and gradients are
// mostly exchanged beside that; on CPUs, pieces that fit caches are faster.
constexpr std::int64_t gpu_piece = 16 << 20, cpu_piece = 4 << 20;
// Every rank holds segments of six pieces.
constexpr int most_for_large_pieces = 8;

// Has an exchange write to its output by way of dense memory, where it must.
void set_output(Exchange& exchange, const at::Tensor& output) {
  if (output.is_contiguous() && !output.is_conj() && !output.is_neg()) {
    exchange.output = output;
    return;
  }
  exchange.output = at::empty(output.sizes(), output.options().memory_format(at::MemoryFormat::Contiguous));
  exchange.after = {{output, exchange.output}};
}

bool is_narrow(const Exchange& exchange) {
  const c10::ScalarType type = exchange.input.scalar_type();
  return exchange.reduces() && (type == at::kHalf || type == at::kBFloat16);
}

bool alike(const Tensors& tensors, const at::Tensor& model) {
  return std::ranges::all_of(tensors, [&](const at::Tensor& tensor) {
    return tensor.numel() == model.numel() && tensor.scalar_type() == model.scalar_type();
  });
}

// Tensors that a Call's checks let pass: of one device, dense.
bool on_one_device(const Tensors& tensors) {
  return std::ranges::all_of(tensors, [&](const at::Tensor& tensor) {
    return tensor.device() == tensors.front().device() && tensor.device().type() == device_type &&
           tensor.layout() == at::kStrided;
  });
}

}  // namespace

bool GlooBackend::wants_shared(const std::vector<Exchange>& exchanges) {
  if (!may_share_ || exchanges.empty() || size_ > most_ranks) return false;
  std::int64_t bytes = 0;
  bool narrow = false;
  for (const Exchange& exchange : exchanges) {
    if (exchange.input.numel() == 0 || exchange.output.numel() == 0) return false;
    if (exchange.reduces() && !can_reduce(exchange.input.scalar_type(), exchange.operation)) return false;
    bytes += std::int64_t(exchange.input.nbytes());
    narrow |= is_narrow(exchange);
  }
  const c10::Device where = exchanges.front().input.device();
  if (!has_shared_ && !narrow && bytes < options_.least_bytes.value_or(least_by_threads) && !takes_small(where))
    return false;
  return has_shared_ = true;
}

// Kernels that wait for each other take a tenth of Gloo's time, however little they move.
bool GlooBackend::takes_small(c10::Device where) {
  if (options_.least_bytes) return false;
  if (!takes_small_) {
    c10d::PrefixStore store("ocl_small", store_);
    takes_small_ = all_agree(store, rank_, size_, exchanges_by_kernels(where), group_->getBackendOptions()->timeout);
  }
  return *takes_small_;
}

bool GlooBackend::exchanges_by_kernels(c10::Device where) const {
  return translated([&] {
    const dlprim::DeviceInfo& info = device(where.index()).info();
    return options_.windows.value_or(info.gpu) && size_ <= dlprim::PeerExchange::most_ranks &&
           dlprim::PeerExchange::runs_on(info);
  });
}

std::unique_ptr<Channel> GlooBackend::make_channel(c10::Device where, std::chrono::milliseconds timeout) {
  c10d::PrefixStore store("ocl_shared", store_);
  const bool gpu = translated([&] { return device(where.index()).info().gpu; });
  std::unique_ptr<Windows> windows =
      Windows::share(store, rank_, size_, where.index(), options_.windows.value_or(gpu), timeout);
  Layout layout;
  if (!windows) {
    const std::int64_t suits = gpu && size_ <= most_for_large_pieces ? gpu_piece : cpu_piece;
    const std::int64_t agreed = agreed_piece(store, rank_, size_, options_.piece_bytes ? 0 : suits, timeout);
    layout = Layout::of(std::size_t(options_.piece_bytes.value_or(agreed)), size_);
  }
  std::string reason;
  std::vector<SharedSegment> segments =
      share_segments(store, rank_, size_, layout.bytes() + SharedSegment::header_bytes, timeout, reason);
  if (segments.empty()) {
    may_share_ = false;
    if (rank_ == 0) TORCH_WARN("Tensors of ocl devices go through Gloo's sockets, not through shared memory: ", reason);
    return nullptr;
  }
  if (windows) return std::make_unique<WindowChannel>(std::move(segments), std::move(windows), rank_);
  // Devices of one kind round alike.
  const std::string kind = gpu ? translated([&] { return device(where.index()).info().name; }) : "";
  const bool on_devices = size_ == 2 && are_alike(store, rank_, size_, kind, timeout);
  return std::make_unique<SharedChannel>(std::move(segments), rank_, layout, options_.access, on_devices);
}

Channel* GlooBackend::channel(c10::Device where, std::chrono::milliseconds timeout) {
  if (channel_ || !may_share_) return channel_.get();
  std::unique_ptr<Channel> made = make_channel(where, timeout);
  std::lock_guard guard(mutex_);
  windows_ = dynamic_cast<WindowChannel*>(made.get());
  channel_ = std::move(made);
  return channel_.get();
}

bool GlooBackend::holds_streams(c10::Device where) const {
  return translated([&] { return options_.holds_streams.value_or(device(where.index()).info().gpu); });
}

// What has ended every later collective is raised at once: with gates, nobody may have heard of it. There is none before
// it is known that exchanges go this way, as Gloo may need tensors that the caller gives back.
std::unique_ptr<dlprim::Gate> GlooBackend::gate(c10::Device where) {
  {
    std::lock_guard guard(mutex_);
    if (!channel_) return nullptr;
    channel_->check_open();
    if (!channel_->serves(where.index())) return nullptr;
  }
  if (!holds_streams(where)) return nullptr;
  return translated([&] { return std::make_unique<dlprim::Gate>(device(where.index())); });
}

// Gloo does it after all, from a stream that has waited for `ready`. Copies of its own run on other streams than those
// the work ends on, which the callback's stream has waited for.
void GlooBackend::run_again(const ProgressPtr& work, std::size_t parts, const dlprim::Event& ready, c10::Device where,
                            const std::function<WorkPtr()>& again) {
  const c10::Stream stream = streams(where).to_host;
  translated([&] { queue_of(stream).wait(ready); });
  const c10::StreamGuard guard(stream);
  const c10::Stream end = streams(where, true).to_device;
  again()->getFuture()->addCallback([work, parts, end](c10::ivalue::Future& future) {
    std::exception_ptr error = future.hasError() ? future.exception_ptr() : nullptr;
    try {
      translated([&] { queue_of(end).wait(queue_of(current_stream(end.device_index())).record()); });
    } catch (...) {
      if (!error) error = std::current_exception();
    }
    for (std::size_t i = 0; i < parts; i++) work->end_part({}, error);
  });
}

void GlooBackend::start_shared(std::vector<Exchange>& exchanges, const ProgressPtr& work, const dlprim::Event& ready,
                               c10::Device where, std::chrono::milliseconds timeout,
                               const std::function<WorkPtr()>& again) {
  std::size_t left = exchanges.size();
  try {
    Channel* shared = channel(where, timeout);
    if (!shared) return run_again(work, left, ready, where, again);
    for (Exchange& exchange : exchanges) {
      shared->start(std::move(exchange), work, ready, streams(where, true), timeout);
      left--;
    }
  } catch (...) {
    for (; left > 0; left--) work->end_part({}, std::current_exception());
  }
}

// As on any stream; where wait() does not keep the host, it knows of the end by the stream alone.
WorkPtr GlooBackend::enqueue(WindowChannel& windows, Call& call, std::vector<Exchange>& exchanges,
                             const dlprim::Event& ready, std::chrono::milliseconds timeout) {
  const c10::Device where = call.inputs.front().device();
  WindowChannel::Enqueued enqueued = windows.enqueue(exchanges, ready);
  auto work = StagedWork::make(rank_, call.type, call.title, windows.stream(where), ready, exchanges.size(), Images{},
                               std::move(call.outputs), callbacks_,
                               holds_streams(where) ? std::make_unique<dlprim::Gate>(enqueued.end) : nullptr);
  windows.watch(std::move(exchanges), work->progress(), ready, std::move(enqueued), timeout);
  return work;
}

WorkPtr GlooBackend::try_shared(Call call, std::vector<Exchange> exchanges, std::chrono::milliseconds timeout,
                                std::function<WorkPtr()> again) {
  if (!wants_shared(exchanges)) return {};
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const c10::Device where = call.inputs.front().device();
  refuse_graphs(where);
  const c10::DeviceGuard guard(where);
  for (Exchange& exchange : exchanges) {
    const at::Tensor output = exchange.output;
    const bool in_place = output.is_same(exchange.input);
    exchange.input = dense(exchange.input);
    if (!in_place) set_output(exchange, output);
    else if (exchange.input.is_same(output)) exchange.output = output;
    else exchange.output = exchange.input, exchange.after = {{output, exchange.output}};
    exchange.resolve();
    exchange.input = nameless(exchange.input), exchange.output = nameless(exchange.output);
  }
  const dlprim::Event ready = translated([&] { return queue_of(current_stream(where.index())).record(); });
  if (timeout == c10d::kUnsetTimeout) timeout = group_->getBackendOptions()->timeout;
  if (WindowChannel* windows = windows_; windows && unstarted_ == 0)
    return enqueue(*windows, call, exchanges, ready, timeout);
  std::unique_ptr<dlprim::Gate> held = gate(where);
  if (held) again = nullptr;  // it goes this way: a thread would drop tensors that Python knows
  // What is copied to other tensors in the end needs their memory then.
  if (std::ranges::any_of(exchanges, [](const Exchange& exchange) { return !exchange.after.empty(); })) held.reset();
  auto work = StagedWork::make(rank_, call.type, call.title, streams(where, true).to_device, ready, exchanges.size(),
                               Images{}, std::move(call.outputs), callbacks_, std::move(held));
  const bool known = [&] {
    std::lock_guard guard(mutex_);
    return channel_ != nullptr;
  }();
  unstarted_++;
  collectives_.post([this, exchanges = std::move(exchanges), progress = work->progress(), ready, where, timeout,
                     again = std::move(again)]() mutable {
    start_shared(exchanges, progress, ready, where, timeout, again);
    unstarted_--;
  });
  // Kernels of several groups that wait for other ranks must come in one order on all, those of their first calls as
  // well: these wait until it is known whether exchanges are kernels.
  if (!known && exchanges_by_kernels(where) && !collectives_.is_current()) {
    std::promise<void> started;
    collectives_.post([&started] { started.set_value(); });
    started.get_future().wait();
  }
  return work;
}

WorkPtr GlooBackend::reduce_shared(Call call, const c10d::AllreduceOptions& options, std::function<WorkPtr()> again) {
  if (!may_share_ || !on_one_device(call.inputs)) return {};
  std::vector<Exchange> exchanges;
  for (const at::Tensor& tensor : call.inputs)
    exchanges.push_back({Kind::all_reduce, tensor, tensor, options.reduceOp, 0, {}});
  return try_shared(std::move(call), std::move(exchanges), options.timeout, std::move(again));
}

// All ranks get the result, all but the root in memory of nobody's.
WorkPtr GlooBackend::reduce_to_root(Tensors& tensors, const c10d::ReduceOptions& options) {
  if (!may_share_ || tensors.size() != 1 || !on_one_device(tensors) || options.rootRank < 0 ||
      options.rootRank >= size_ ||
      !wants_shared({{Kind::all_reduce, tensors.front(), tensors.front(), options.reduceOp, 0, {}}}))
    return {};
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const c10::DeviceGuard guard(tensors.front().device());
  const at::Tensor result = options.rootRank == rank_ ? tensors.front() : tensors.front().clone();
  return try_shared({OpType::REDUCE, "ocl_gloo:reduce", {result}, tensors},
                    {{Kind::all_reduce, result, result, options.reduceOp, 0, {}}}, options.timeout,
                    [this, tensors, options]() mutable { return reduce(tensors, options); });
}

WorkPtr GlooBackend::broadcast_shared(Tensors& tensors, const c10d::BroadcastOptions& options) {
  if (!may_share_ || tensors.size() != 1 || !on_one_device(tensors) || options.rootRank < 0 ||
      options.rootRank >= size_)
    return {};
  const Exchange exchange{Kind::broadcast, tensors.front(), tensors.front(), Operation::SUM, int(options.rootRank), {}};
  return try_shared({OpType::BROADCAST, "ocl_gloo:broadcast", tensors, tensors}, {exchange}, options.timeout,
                    [this, tensors, options]() mutable { return broadcast(tensors, options); });
}

WorkPtr GlooBackend::move_shared(Call call, Kind kind, Operation operation, std::chrono::milliseconds timeout,
                                 std::function<WorkPtr()> again) {
  Tensors all = call.inputs;
  all.insert(all.end(), call.outputs.begin(), call.outputs.end());
  if (!may_share_ || !on_one_device(all)) return {};
  std::vector<Exchange> exchanges;
  for (std::size_t i = 0; i < call.inputs.size(); i++) {
    const at::Tensor &input = call.inputs[i], &output = call.outputs[i];
    const at::Tensor &whole = kind == Kind::all_gather ? output : input, &part = whole.is_same(output) ? input : output;
    if (whole.numel() != part.numel() * size_ || whole.scalar_type() != part.scalar_type()) return {};
    exchanges.push_back({kind, input, output, operation, 0, {}});
  }
  return try_shared(std::move(call), std::move(exchanges), timeout, std::move(again));
}

// Ranks that give sizes of parts may have parts of different sizes, which others do not know.
WorkPtr GlooBackend::swap_shared(at::Tensor& output, at::Tensor& input, const c10d::AllToAllOptions& options) {
  const bool even = input.dim() > 0 && output.dim() > 0 && input.size(0) % size_ == 0 && output.size(0) % size_ == 0;
  if (!may_share_ || !on_one_device({input, output}) || !even || input.numel() != output.numel() ||
      input.scalar_type() != output.scalar_type() || input.is_same(output))
    return {};
  const Exchange exchange{Kind::all_to_all, input, output, Operation::SUM, 0, {}};
  return try_shared({OpType::ALLTOALL_BASE, "ocl_gloo:all_to_all", {input}, {output}}, {exchange}, options.timeout,
                    [this, output, input, options]() mutable {
                      std::vector<std::int64_t> none;
                      return alltoall_base(output, input, none, none, options);
                    });
}

WorkPtr GlooBackend::gather_shared(std::vector<Tensors>& outputs, Tensors& inputs,
                                   const c10d::AllgatherOptions& options) {
  if (!may_share_ || inputs.size() != 1 || outputs.size() != 1 || int(outputs.front().size()) != size_) return {};
  const at::Tensor& input = inputs.front();
  const Tensors& parts = outputs.front();
  if (!on_one_device(inputs) || !on_one_device(parts) || parts.front().device() != input.device() ||
      !alike(parts, input))
    return {};
  Exchange exchange{Kind::all_gather, input, input, Operation::SUM, 0, {}};
  if (!wants_shared({exchange})) return {};
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  exchange.output = at::empty({size_, input.numel()}, input.options());
  Images after;
  for (int rank = 0; rank < size_; rank++)
    after.push_back({parts[rank], exchange.output.select(0, rank).view(parts[rank].sizes())});
  exchange.after = std::move(after);
  return try_shared({OpType::ALLGATHER, "ocl_gloo:all_gather", inputs, parts}, {std::move(exchange)}, options.timeout,
                    [this, outputs, inputs, options]() mutable { return allgather(outputs, inputs, options); });
}

WorkPtr GlooBackend::scatter_shared(Tensors& outputs, std::vector<Tensors>& inputs,
                                    const c10d::ReduceScatterOptions& options) {
  const at::Tensor& output = outputs.front();
  const Tensors& parts = inputs.front();
  if (!may_share_ || int(parts.size()) != size_ || !alike(parts, output)) return {};
  if (!wants_shared({{Kind::reduce_scatter, output, output, options.reduceOp, 0, {}}})) return {};
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const c10::DeviceGuard guard(output.device());
  Tensors flat;
  for (const at::Tensor& part : parts) flat.push_back(part.reshape(-1));
  Exchange exchange{Kind::reduce_scatter, at::cat(flat), output, options.reduceOp, 0, {}};
  return try_shared({OpType::REDUCE_SCATTER, "ocl_gloo:reduce_scatter", parts, outputs}, {std::move(exchange)},
                    options.timeout,
                    [this, outputs, inputs, options]() mutable { return reduce_scatter(outputs, inputs, options); });
}

void GlooBackend::abort() {
  std::lock_guard guard(mutex_);
  if (channel_) channel_->abort("The process group was aborted");
}

}  // namespace pytorch_ocl::distributed
