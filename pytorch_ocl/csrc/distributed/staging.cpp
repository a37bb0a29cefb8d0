// SPDX-License-Identifier: MIT
#include "staging.hpp"

#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/view_as_real.h>
#include <c10/core/StreamGuard.h>

#include <algorithm>

#include "runtime/allocator.hpp"
#include "runtime/device.hpp"
#include "runtime/host_allocator.hpp"
#include "runtime/recorded_as.hpp"

namespace pytorch_ocl::distributed {

namespace {

at::Tensor pinned(at::IntArrayRef sizes, at::ScalarType type) {
  const c10::DispatchKeySet cpu(c10::DispatchKey::CPU);
  return at::detail::empty_generic(sizes, &host_allocator(), cpu, type, std::nullopt);
}

at::Tensor carrier(const at::Tensor& host) {
  switch (host.scalar_type()) {
    case at::kFloat:
    case at::kDouble:
    case at::kHalf:
    case at::kBFloat16:
    case at::kBool:
    case at::kChar:
    case at::kByte:
    case at::kInt:
    case at::kLong: return host;
    default: break;
  }
  switch (host.itemsize()) {
    case 1: return host.view(at::kByte);
    case 2: return host.view(at::kHalf);
    case 4: return host.view(at::kInt);
    case 8: return host.view(at::kLong);
    default: return at::view_as_real(host);
  }
}

template <class Function>
Tensors map(const Images& images, Function&& function) {
  Tensors result;
  for (const Image& image : images) result.push_back(function(image.host));
  return result;
}

c10::intrusive_ptr<c10::ivalue::Future> future_on(const std::optional<c10::Stream>& stream) {
  std::vector<c10::Device> devices;
  if (stream) devices.push_back(stream->device());
  return c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()), std::move(devices));
}

}  // namespace

at::Tensor dense(const at::Tensor& tensor) { return tensor.resolve_conj().resolve_neg().contiguous(); }

at::Tensor nameless(const at::Tensor& tensor) {
  return at::Tensor(tensor.unsafeGetTensorImpl()->shallow_copy_and_detach(c10::VariableVersion(0), false));
}

at::Tensor pinned_bytes(std::size_t count) { return pinned(std::int64_t(count), at::kByte); }

Images images_of(const Tensors& tensors) {
  Images images;
  for (const at::Tensor& tensor : tensors) images.push_back({tensor, pinned(tensor.sizes(), tensor.scalar_type())});
  return images;
}

Packed pack(const Tensors& tensors) {
  std::int64_t count = 0;
  for (const at::Tensor& tensor : tensors) {
    TORCH_CHECK(tensor.scalar_type() == tensors.front().scalar_type(), "expected tensors of one dtype, but got ",
                tensors.front().scalar_type(), " and ", tensor.scalar_type());
    count += tensor.numel();
  }
  Packed packed{pinned(count, tensors.front().scalar_type()), {}};
  count = 0;
  for (const at::Tensor& tensor : tensors) {
    packed.images.push_back({tensor, packed.all.narrow(0, count, tensor.numel()).view(tensor.sizes())});
    count += tensor.numel();
  }
  return packed;
}

Tensors carriers(const Images& images) { return map(images, &carrier); }

Tensors reducibles(const Images& images) {
  return map(images, [](const at::Tensor& host) { return host.is_complex() ? at::view_as_real(host) : host; });
}

c10::Device common_device(const Tensors& tensors, const char* collective) {
  TORCH_CHECK(!tensors.empty(), collective, ": expected at least one tensor");
  const c10::Device device = tensors.front().device();
  for (const at::Tensor& tensor : tensors)
    TORCH_CHECK(tensor.device() == device && device.type() == device_type && tensor.layout() == at::kStrided,
                collective, ": expected dense tensors of one ocl device, but got ", device, " and ", tensor.device(),
                " (", tensor.layout(), ")");
  refuse_graphs(device);
  return device;
}

void refuse_graphs(c10::Device device) {
  translated([&] { queue_of(current_stream(device.index())).run_once("it takes part in what several processes do"); });
}

void copy_to_host(const Images& images, c10::Stream stream) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const c10::StreamGuard guard(stream);
  for (const auto& [device, host] : images) {
    host.copy_(device, true);
    record_stream(device.storage().data_ptr(), stream);
  }
}

void copy_to_device(const Images& images, c10::Stream stream) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const c10::StreamGuard guard(stream);
  for (const auto& [device, host] : images) {
    device.copy_(host, true);
    record_stream(device.storage().data_ptr(), stream);
  }
}

Progress::Progress(std::optional<c10::Stream> to_device, dlprim::Event ready, std::size_t parts, Images last,
                   std::unique_ptr<dlprim::Gate> gate)
    : to_device_(to_device), ready_(std::move(ready)), parts_(parts), last_(std::move(last)), gate_(std::move(gate)),
      work_(c10::intrusive_ptr<StagedWork>()) {}

void Progress::belongs_to(const c10::intrusive_ptr<StagedWork>& work) {
  work_ = c10::weak_intrusive_ptr<StagedWork>(work);
  if (!gate_) kept_ = work;
}

void Progress::copy(const Images& images) {
  if (images.empty()) return;
  translated([&] { queue_of(*to_device_).wait(ready_); });
  copy_to_device(images, *to_device_);
}

void Progress::end_part(const Images& images, std::exception_ptr error) noexcept {
  try {
    if (!error) copy(images);
  } catch (...) {
    error = std::current_exception();
  }
  std::unique_lock lock(mutex_);
  if (error && !error_) error_ = error;
  if (--parts_ > 0) return;
  lock.unlock();
  complete();
}

void Progress::complete() {
  try {
    if (!error_) copy(last_);
    if (!error_ && gate_ && !gate_->opens_itself()) translated([&] { queue_of(*to_device_).record().wait(); });
  } catch (...) {
    error_ = std::current_exception();
  }
  if (gate_) gate_->open(error_);
  last_.clear();
  if (const c10::intrusive_ptr<StagedWork> work = work_.lock()) work->complete(error_);
  kept_.reset();
}

c10::intrusive_ptr<StagedWork> StagedWork::make(int rank, c10d::OpType type, const char* title,
                                                std::optional<c10::Stream> to_device, dlprim::Event ready,
                                                std::size_t parts, Images last, Tensors results, Worker& callbacks,
                                                std::unique_ptr<dlprim::Gate> gate) {
  auto progress = std::make_shared<Progress>(to_device, std::move(ready), parts, std::move(last), std::move(gate));
  auto work = c10::make_intrusive<StagedWork>(rank, type, title, to_device, progress, std::move(results), callbacks);
  progress->belongs_to(work);
  return work;
}

StagedWork::StagedWork(int rank, c10d::OpType type, const char* title, std::optional<c10::Stream> to_device,
                       ProgressPtr progress, Tensors results, Worker& callbacks)
    : Work(rank, type, title, results), to_device_(to_device), progress_(std::move(progress)),
      results_(std::move(results)), callbacks_(callbacks), future_(future_on(to_device)) {
  if (!progress_->gate()) return;
  const RecordedAs behind_gate(progress_->gate()->event());
  future_->markCompleted(c10::IValue(results_));
}

bool StagedWork::wait(std::chrono::milliseconds timeout) {
  if (!progress_->gate() || timeout != kNoTimeout) return Work::wait(timeout);
  if (isCompleted() && exception()) std::rethrow_exception(exception());
  synchronize();
  return true;
}

void StagedWork::release_resources() {
  results_.clear();
  future_.reset();
  progress_.reset();
}

void StagedWork::complete_future() {
  c10::OptionalStreamGuard guard;
  if (to_device_) guard.reset_stream(*to_device_);
  future_->markCompleted(c10::IValue(results_));
}

c10::intrusive_ptr<c10::ivalue::Future> StagedWork::getFuture() {
  std::lock_guard guard(mutex_);
  has_callbacks_ = true;
  return future_;
}

void StagedWork::complete(std::exception_ptr error) {
  // Whoever asks for the future only now waits, and gets one that has ended.
  std::lock_guard guard(mutex_);
  if (!progress_->gate() && has_callbacks_) {
    callbacks_.post([self = c10::intrusive_ptr<StagedWork>::reclaim_copy(this), error] { self->end(error); });
    return;
  }
  end(error);
}

void StagedWork::end(std::exception_ptr error) noexcept {
  const bool completes = !progress_->gate();
  try {
    if (completes && !error) complete_future();
  } catch (...) {
    error = std::current_exception();
  }
  if (completes && error) future_->setErrorIfNeeded(error);
  finish(error);
}

}  // namespace pytorch_ocl::distributed
