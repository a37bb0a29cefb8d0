// SPDX-License-Identifier: MIT
#include <dlprim/runtime/status.hpp>

#include <cstdio>
#include <mutex>
#include <unordered_map>

namespace dlprim {

struct DeviceStatus::State {
  cl::Buffer buffer;  // int[4]: code, unused, value low, value high
  std::mutex mutex;
  std::vector<const char*> messages;
  std::unordered_map<const char*, int> codes;
  std::atomic<std::uint64_t> armed{0};  // one bit a queue
};

namespace {
constexpr std::size_t status_bytes = 4 * sizeof(cl_int);
std::uint64_t bit(const Queue& queue) { return std::uint64_t(1) << (queue.id() & 63); }
}  // namespace

DeviceStatus::DeviceStatus(Device& device) : state_(std::make_unique<State>()) {
  cl_int zero[4] = {};
  state_->buffer = cl::Buffer(device.context(), CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, status_bytes, zero);
}

DeviceStatus::~DeviceStatus() = default;

BufferRef DeviceStatus::buffer() const noexcept { return {state_->buffer(), 0}; }

int DeviceStatus::arm(Queue& queue, const char* message) {
  state_->armed.fetch_or(bit(queue), std::memory_order_relaxed);
  std::lock_guard guard(state_->mutex);
  auto [entry, added] = state_->codes.try_emplace(message, int(state_->messages.size()) + 1);
  if (added) state_->messages.push_back(message);
  return entry->second;
}

void DeviceStatus::check(Queue& queue) {
  if (!(state_->armed.load(std::memory_order_relaxed) & bit(queue))) return;
  state_->armed.fetch_and(~bit(queue));
  cl_int status[4] = {};
  // Not through Queue::read, which would check again.
  dlprim::check(clEnqueueReadBuffer(queue.get(), state_->buffer(), CL_TRUE, 0, status_bytes, status, 0, nullptr,
                                    nullptr),
                "clEnqueueReadBuffer");
  if (status[0] == 0) return;
  const cl_int zero = 0;
  queue.fill(buffer(), &zero, sizeof zero, status_bytes);
  const long long value = (long long)((std::uint64_t(std::uint32_t(status[3])) << 32) | std::uint32_t(status[2]));
  std::lock_guard guard(state_->mutex);
  std::string text = state_->messages.at(std::size_t(status[0] - 1));
  const auto at = text.find("%lld");
  if (at == std::string::npos) throw Error(text);
  throw IndexError(text.replace(at, 4, std::to_string(value)));
}

}  // namespace dlprim
