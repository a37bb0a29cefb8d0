// SPDX-License-Identifier: MIT
#include "host_allocator.hpp"

#include <dlprim/runtime/host_memory.hpp>

#include <array>
#include <atomic>
#include <cstring>
#include <mutex>

#include "device.hpp"
#include "errors.hpp"

namespace pytorch_ocl {

namespace {

constexpr std::size_t max_devices = 64;
std::array<std::atomic<dlprim::HostMemory*>, max_devices> pools{};

dlprim::HostMemory& pool(c10::DeviceIndex index) {
  static std::mutex mutex;
  auto& slot = pools[std::size_t(index)];
  if (dlprim::HostMemory* existing = slot.load(std::memory_order_acquire)) return *existing;
  std::lock_guard guard(mutex);
  if (!slot.load()) slot.store(new dlprim::HostMemory(device(index)), std::memory_order_release);
  return *slot.load();
}

// The pool that owns an address, or null.
dlprim::HostMemory* owner(const void* address) {
  for (auto& slot : pools)
    if (dlprim::HostMemory* candidate = slot.load(std::memory_order_acquire); candidate && candidate->contains(address))
      return candidate;
  return nullptr;
}

void release(void* memory) {
  if (dlprim::HostMemory* from = owner(memory)) from->release(memory);
}

class PinnedAllocator final : public at::HostAllocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &release, c10::Device(c10::kCPU)};
    void* memory = translated([&] { return pool(resolve_device(current_device())).allocate(bytes); });
    return {memory, memory, &release, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { std::memcpy(to, from, bytes); }
  bool record_event(void* address, void*, c10::Stream stream) override {
    dlprim::HostMemory* own = owner(address);
    return own && translated([&] { return own->record(address, queue_of(stream)); });
  }
  void empty_cache() override {
    for (auto& slot : pools)
      if (dlprim::HostMemory* existing = slot.load()) translated([&] { existing->empty_cache(); });
  }
  at::HostStats get_stats() override { return {}; }
  void reset_accumulated_stats() override {}
  void reset_peak_stats() override {}
};

PinnedAllocator& instance() {
  static auto* allocator = new PinnedAllocator;
  return *allocator;
}

}  // namespace

REGISTER_HOST_ALLOCATOR(c10::DeviceType::PrivateUse1, &instance())

at::HostAllocator& host_allocator() { return instance(); }

bool is_pinned(const void* address) { return owner(address) != nullptr; }

void record_pinned(const at::Tensor& tensor, c10::Stream stream) {
  instance().record_event(const_cast<void*>(tensor.storage().data()), nullptr, stream);
}

}  // namespace pytorch_ocl
