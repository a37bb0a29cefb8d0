// SPDX-License-Identifier: MIT
// Collectives on tensors of a device, through images of them in pinned host memory.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>
#include <dlprim/runtime/gate.hpp>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <functional>
#include <memory>
#include <vector>

#include "worker.hpp"

namespace pytorch_ocl::distributed {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using Tensors = std::vector<at::Tensor>;

/// A tensor of a device and one of pinned host memory, of the same shape and dtype.
struct Image {
  at::Tensor device, host;
};
using Images = std::vector<Image>;

/// The tensor itself, or its elements in order elsewhere.
at::Tensor dense(const at::Tensor& tensor);
/// The same memory without what Python knows of a tensor: threads may drop it without the interpreter's lock.
at::Tensor nameless(const at::Tensor& tensor);
/// So many bytes of the host that the current device has pinned.
at::Tensor pinned_bytes(std::size_t count);

/// Images of tensors; what they hold is undefined. The current device pins their memory.
Images images_of(const Tensors& tensors);
/// Images of tensors of one dtype, one behind the other in `all`, which is flat.
struct Packed {
  at::Tensor all;
  Images images;
};
Packed pack(const Tensors& tensors);
/// The host's tensors as ones of the same shape and bytes whose dtype Gloo knows, for collectives that only move data.
Tensors carriers(const Images& images);
/// The host's tensors as what Gloo reduces: complex numbers by their parts.
Tensors reducibles(const Images& images);

/// The device of all tensors. Raises RuntimeError where they lie on several, there is none, or its stream is captured.
c10::Device common_device(const Tensors& tensors, const char* collective);

/// Called before the group hears of a call: raises RuntimeError where the device's current stream is captured.
void refuse_graphs(c10::Device device);

/// Enqueues copies on a stream, which the tensors' memory is then kept for.
void copy_to_host(const Images& images, c10::Stream stream);
void copy_to_device(const Images& images, c10::Stream stream);

/// The streams of a device on which copies run beside the work of other streams.
struct Streams {
  c10::Stream to_host, to_device;
};

/// A piece of a collective: what it takes to the host before it starts and to the device when it has ended.
struct Part {
  Images to_host, to_device;
  std::function<WorkPtr(c10d::Backend& gloo)> start;
};

class Progress;
using ProgressPtr = std::shared_ptr<Progress>;

/// A collective under way. It has ended when all its parts have; then its future holds `results`, and streams that
/// wait() for it go on after the copies to the device.
///
/// With a gate, as with NCCL, wait() does not keep the host: the future holds `results` at once, and streams that wait
/// for it are held back until the copies have ended. An error then shows when the host next waits for such a stream.
///
/// Callbacks of the future may wait for other collectives, so threads that those need do not run them.
class StagedWork final : public c10d::Work {
 public:
  /// `last` is copied to the device when all parts have ended. Copies to the device start after `ready`. `callbacks`,
  /// whose threads have no limit, must outlive the collective.
  static c10::intrusive_ptr<StagedWork> make(int rank, c10d::OpType type, const char* title,
                                             std::optional<c10::Stream> to_device, dlprim::Event ready,
                                             std::size_t parts, Images last, Tensors results, Worker& callbacks,
                                             std::unique_ptr<dlprim::Gate> gate = nullptr);
  StagedWork(int rank, c10d::OpType type, const char* title, std::optional<c10::Stream> to_device, ProgressPtr progress,
             Tensors results, Worker& callbacks);

  const ProgressPtr& progress() const noexcept { return progress_; }
  /// With a time limit, it waits for the end in any case.
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  void synchronize() override { future_->wait(); }
  Tensors result() override { return results_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  /// All parts have ended.
  void complete(std::exception_ptr error);
  /// Called when the last owner is gone. The object stays for as long as its Progress, which knows it weakly.
  void release_resources() override;

 private:
  void complete_future();
  void end(std::exception_ptr error) noexcept;

  std::optional<c10::Stream> to_device_;
  ProgressPtr progress_;
  Tensors results_;
  Worker& callbacks_;
  std::mutex mutex_;
  bool has_callbacks_ = false;  // or may have
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

/// How far a collective is, for the threads that run it. With a gate they do not keep its StagedWork: the caller has
/// mostly dropped it by their end, and the last to drop what Python knows of must have the interpreter's lock.
class Progress {
 public:
  /// As of StagedWork.
  Progress(std::optional<c10::Stream> to_device, dlprim::Event ready, std::size_t parts, Images last,
           std::unique_ptr<dlprim::Gate> gate);
  const dlprim::Gate* gate() const noexcept { return gate_.get(); }
  /// To be called once, before a part can end.
  void belongs_to(const c10::intrusive_ptr<StagedWork>& work);
  /// Reports that a part has ended, with an error or, where that is null, with these images to be copied.
  void end_part(const Images& images, std::exception_ptr error) noexcept;

 private:
  void copy(const Images& images);
  void complete();

  std::optional<c10::Stream> to_device_;
  dlprim::Event ready_;
  std::mutex mutex_;
  std::size_t parts_;
  std::exception_ptr error_;
  Images last_;
  std::unique_ptr<dlprim::Gate> gate_;
  c10::weak_intrusive_ptr<StagedWork> work_;
  c10::intrusive_ptr<StagedWork> kept_;  // where there is no gate
};

}  // namespace pytorch_ocl::distributed
