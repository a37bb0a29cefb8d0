// SPDX-License-Identifier: MIT
#include <dlprim/runtime/capture.hpp>
#include <dlprim/runtime/recording.hpp>
#include <dlprim/runtime/status.hpp>

#include <algorithm>

namespace dlprim {

namespace {
constexpr std::size_t status_bytes = 4 * sizeof(cl_int);
}

QueueStatus::QueueStatus(Queue& queue) : queue_(queue) {
  cl_int zero[4] = {};
  cl_int code = CL_SUCCESS;
  buffer_ = cl::Buffer(
      clCreateBuffer(queue.device().context()(), CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, status_bytes, zero, &code));
  dlprim::check(code, "clCreateBuffer");
}

int QueueStatus::arm(const char* message) {
  armed_.store(true, std::memory_order_relaxed);
  if (Recording* recording = Recording::current()) recording->add_message(message);
  if (const CapturePin capture(queue_); capture) capture->add_message(*this, message);
  std::lock_guard guard(mutex_);
  auto [entry, added] = codes_.try_emplace(message, int(messages_.size()) + 1);
  if (added) messages_.push_back(message);
  return entry->second;
}

void QueueStatus::watch(QueueStatus& other) {
  if (&other != this) other.shared_ = true;
  std::lock_guard guard(mutex_);
  if (&other != this && std::ranges::find(watched_, &other) == watched_.end()) watched_.push_back(&other);
}

void QueueStatus::check() {
  std::vector<QueueStatus*> watched;
  {
    std::lock_guard guard(mutex_);
    watched = watched_;
  }
  for (QueueStatus* other : watched) other->check_own();
  check_own();
}

void QueueStatus::check_own() {
  if (!armed_.load(std::memory_order_relaxed)) return;
  if (!shared_) armed_.store(false);  // else other queues may still be at work
  cl_int status[4] = {};
  // Not through Queue::read, which would check again.
  dlprim::check(clEnqueueReadBuffer(queue_.get(), buffer_(), CL_TRUE, 0, status_bytes, status, 0, nullptr, nullptr),
                "clEnqueueReadBuffer");
  if (status[0] == 0) return;
  // Nor through Queue::fill, which a capture would note. Kernels of other queues may report from here on.
  const cl_int zero[4] = {};
  dlprim::check(clEnqueueWriteBuffer(queue_.get(), buffer_(), CL_TRUE, 0, status_bytes, zero, 0, nullptr, nullptr),
                "clEnqueueWriteBuffer");
  const long long value = (long long)((std::uint64_t(std::uint32_t(status[3])) << 32) | std::uint32_t(status[2]));
  std::lock_guard guard(mutex_);
  std::string text = messages_.at(std::size_t(status[0] - 1));
  const auto at = text.find("%lld");
  if (at == std::string::npos) throw Error(text);
  throw IndexError(text.replace(at, 4, std::to_string(value)));
}

}  // namespace dlprim
