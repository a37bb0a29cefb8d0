// SPDX-License-Identifier: MIT
// send and recv: Gloo's works report their end to whoever waits for them only.
#include <c10/core/DeviceGuard.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <future>

#include "backend.hpp"
#include "board.hpp"
#include "runtime/device.hpp"

namespace pytorch_ocl::distributed {

namespace {

// Bytes of the smallest message that goes through shared memory.
constexpr std::int64_t least_in_pieces = 64 << 10;

int device_tag(int tag) {
  TORCH_CHECK(tag >= 0 && tag <= last_tag, "expected a tag from 0 to ", last_tag, " for ocl tensors, but got ", tag);
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

class FetchWork final : public WaitedWork {
 public:
  FetchWork(int rank, c10d::OpType type, std::shared_ptr<Mail> mail, Mail::Expected letter, at::Tensor tensor)
      : WaitedWork(rank, type), mail_(std::move(mail)), letter_(std::move(letter)), tensor_(std::move(tensor)) {}

  int sourceRank() const override { return letter_.work->sourceRank(); }

 private:
  void end(std::chrono::milliseconds timeout) override {
    const c10::Device where = tensor_.device();
    const c10::DeviceGuard guard(where);
    mail_->fetch(letter_, tensor_, current_stream(where.index()), timeout);
    tensor_.reset(), letter_.paper.reset();
  }

  std::shared_ptr<Mail> mail_;
  Mail::Expected letter_;
  at::Tensor tensor_;
};

}  // namespace

std::shared_ptr<Mail> GlooBackend::make_mail() {
  if (!options_.enabled || size_ < 2 || size_ > PoolBoard::most_ranks) return nullptr;
  c10d::PrefixStore store("ocl_mail", store_);
  const std::vector<std::string> hosts =
      Board(store, rank_, size_, group_->getBackendOptions()->timeout).read_all("/host/");
  if (hosts.front().empty() || std::ranges::any_of(hosts, [&](auto& host) { return host != hosts.front(); }))
    return nullptr;
  MailOptions options;
  options.piece_bytes = options_.piece_bytes;
  const std::int64_t least = options_.least_bytes.value_or(least_in_pieces);
  options.least_bytes = std::size_t(std::clamp<std::int64_t>(least, 0, Letter::most_inlined));
  options.staged = options_.access == HostAccess::staged;
  options.devices = options_.windows;
  return std::make_shared<Mail>(group_, options, [this](c10::Device where) { return streams(where, true); });
}

// Groups of one host have it. Each rank has told the others of its host when the group was made.
std::shared_ptr<Mail> GlooBackend::mail() {
  std::lock_guard guard(mail_mutex_);
  if (!mail_) mail_ = make_mail();
  return *mail_;
}

WorkPtr GlooBackend::send(Tensors& tensors, int rank, int tag) {
  check_rank(rank, "ocl_gloo:send");
  const c10::Device where = single_device(tensors, "ocl_gloo:send");
  const c10::DeviceGuard guard(where);
  if (std::shared_ptr<Mail> shared = mail())
    return c10::make_intrusive<SendWork>(rank_, shared->send(tensors.front(), rank, device_tag(tag)));
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
  check_rank(rank, "ocl_gloo:recv");
  const c10::DeviceGuard guard(single_device(tensors, "ocl_gloo:recv"));
  if (std::shared_ptr<Mail> shared = mail())
    return c10::make_intrusive<FetchWork>(rank_, c10d::OpType::RECV, shared, shared->expect(rank, device_tag(tag)),
                                          tensors.front());
  Images images = images_of(tensors);
  Tensors hosts = carriers(images);
  return c10::make_intrusive<RecvWork>(rank_, c10d::OpType::RECV, group_->recv(hosts, rank, device_tag(tag)),
                                       std::move(images));
}

WorkPtr GlooBackend::recvAnysource(Tensors& tensors, int tag) {
  const c10::DeviceGuard guard(single_device(tensors, "ocl_gloo:recvAnysource"));
  if (std::shared_ptr<Mail> shared = mail())
    return c10::make_intrusive<FetchWork>(rank_, c10d::OpType::RECVANYSOURCE, shared,
                                          shared->expect(-1, device_tag(tag)), tensors.front());
  Images images = images_of(tensors);
  Tensors hosts = carriers(images);
  WorkPtr work = group_->recvAnysource(hosts, device_tag(tag));
  return c10::make_intrusive<RecvWork>(rank_, c10d::OpType::RECVANYSOURCE, std::move(work), std::move(images));
}

}  // namespace pytorch_ocl::distributed
