// SPDX-License-Identifier: MIT
#include "host_allocator.hpp"

#include <cstring>

#include "device.hpp"
#include "errors.hpp"

namespace pytorch_ocl {

namespace {

// The pool that owns an address, or null.
dlprim::HostMemory* owner(const void* address) {
  dlprim::HostMemory* found = nullptr;
  for_each_used_device([&](dlprim::Device& device) {
    if (!found && device.host_memory().contains(address)) found = &device.host_memory();
  });
  return found;
}

void release(void* memory) {
  if (dlprim::HostMemory* from = owner(memory)) from->release(memory);
}

void add(c10::CachingAllocator::Stat& to, const dlprim::MemoryStat& from) {
  to.current += from.current, to.peak += from.peak, to.allocated += from.allocated, to.freed += from.freed;
}

class PinnedAllocator final : public at::HostAllocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &release, c10::Device(c10::kCPU)};
    void* memory = translated([&] { return device(-1).host_memory().allocate(bytes); });
    return {memory, memory, &release, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { std::memcpy(to, from, bytes); }
  bool record_event(void* address, void*, c10::Stream stream) override {
    dlprim::HostMemory* own = owner(address);
    return own && translated([&] { return own->record(address, queue_of(stream)); });
  }
  void empty_cache() override {
    for_each_used_device([](dlprim::Device& device) { device.host_memory().empty_cache(); });
  }
  at::HostStats get_stats() override {
    at::HostStats total;
    for_each_used_device([&](dlprim::Device& device) {
      const dlprim::HostMemoryStats stats = device.host_memory().stats();
      add(total.allocations, stats.allocations);
      add(total.allocated_bytes, stats.allocated_bytes);
      add(total.active_requests, stats.active_requests);
      add(total.active_bytes, stats.active_bytes);
    });
    total.num_host_alloc = total.allocations.allocated;
    total.num_host_free = total.allocations.freed;
    return total;
  }
  void reset_accumulated_stats() override {
    for_each_used_device([](dlprim::Device& device) { device.host_memory().reset_accumulated_stats(); });
  }
  void reset_peak_stats() override {
    for_each_used_device([](dlprim::Device& device) { device.host_memory().reset_peak_stats(); });
  }
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
