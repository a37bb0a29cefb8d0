// SPDX-License-Identifier: MIT
// send and recv: Gloo's works report their end to whoever waits for them only.
#include <c10/core/DeviceGuard.h>

#include <future>

#include "backend.hpp"
#include "runtime/device.hpp"

namespace pytorch_ocl::distributed {

namespace {

// Messages of devices have tags of their own: they are sent later than those of the host that follow them.
constexpr int device_tags = 1 << 30;

int device_tag(int tag) {
  TORCH_CHECK(tag >= 0 && tag < device_tags, "expected a tag from 0 to ", device_tags - 1, " for ocl tensors, but got ",
              tag);
  return tag + device_tags;
}

c10::Device single_device(const Tensors& tensors, const char* call) {
  TORCH_CHECK(tensors.size() == 1, call, ": expected one tensor, but got ", tensors.size());
  return common_device(tensors, call);
}

// A work that ends in the first wait() for it.
class WaitedWork : public c10d::Work {
 public:
  using Work::Work;

  bool wait(std::chrono::milliseconds timeout) final {
    std::lock_guard guard(waiting_);
    if (isCompleted() && exception()) std::rethrow_exception(exception());
    if (isCompleted()) return true;
    try {
      end(timeout);
    } catch (...) {
      finish(std::current_exception());
      throw;
    }
    finish();
    return true;
  }

 private:
  virtual void end(std::chrono::milliseconds timeout) = 0;

  std::mutex waiting_;
};

class SendWork final : public WaitedWork {
 public:
  SendWork(int rank, std::future<WorkPtr> sent) : WaitedWork(rank, c10d::OpType::SEND), sent_(std::move(sent)) {}

 private:
  void end(std::chrono::milliseconds timeout) override { sent_.get()->wait(timeout); }

  std::future<WorkPtr> sent_;
};

class RecvWork final : public WaitedWork {
 public:
  RecvWork(int rank, c10d::OpType type, WorkPtr work, Images images)
      : WaitedWork(rank, type), work_(std::move(work)), images_(std::move(images)) {}

  int sourceRank() const override { return work_->sourceRank(); }

 private:
  void end(std::chrono::milliseconds timeout) override {
    work_->wait(timeout);
    const c10::Device where = images_.front().device.device();
    const c10::DeviceGuard guard(where);
    copy_to_device(images_, current_stream(where.index()));
    images_.clear();
  }

  WorkPtr work_;
  Images images_;
};

}  // namespace

WorkPtr GlooBackend::send(Tensors& tensors, int rank, int tag) {
  const c10::Device where = single_device(tensors, "ocl_gloo:send");
  const c10::DeviceGuard guard(where);
  const Images images = images_of(tensors);
  const c10::Stream stream = streams(where).to_host;
  const dlprim::Event arrived = translated([&] {
    queue_of(stream).wait(queue_of(current_stream(where.index())).record());
    copy_to_host(images, stream);
    return queue_of(stream).record();
  });
  auto task = std::make_shared<std::packaged_task<WorkPtr()>>([this, images, arrived, rank, tag = device_tag(tag)] {
    translated([&] { arrived.wait(); });
    Tensors hosts = carriers(images);
    return group_->send(hosts, rank, tag);
  });
  auto work = c10::make_intrusive<SendWork>(rank_, task->get_future());
  sends_.post([task] { (*task)(); });
  return work;
}

WorkPtr GlooBackend::recv(Tensors& tensors, int rank, int tag) {
  const c10::DeviceGuard guard(single_device(tensors, "ocl_gloo:recv"));
  Images images = images_of(tensors);
  Tensors hosts = carriers(images);
  return c10::make_intrusive<RecvWork>(rank_, c10d::OpType::RECV, group_->recv(hosts, rank, device_tag(tag)),
                                       std::move(images));
}

WorkPtr GlooBackend::recvAnysource(Tensors& tensors, int tag) {
  const c10::DeviceGuard guard(single_device(tensors, "ocl_gloo:recvAnysource"));
  Images images = images_of(tensors);
  Tensors hosts = carriers(images);
  WorkPtr work = group_->recvAnysource(hosts, device_tag(tag));
  return c10::make_intrusive<RecvWork>(rank_, c10d::OpType::RECVANYSOURCE, std::move(work), std::move(images));
}

}  // namespace pytorch_ocl::distributed
