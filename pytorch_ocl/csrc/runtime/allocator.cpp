// SPDX-License-Identifier: MIT
#include "allocator.hpp"

#include <ATen/Context.h>
#include <dlprim/runtime/memory.hpp>

#include <mutex>
#include <unordered_map>

#include "device.hpp"
#include "errors.hpp"
#include "memory_history.hpp"
#include "tensor.hpp"

namespace pytorch_ocl {

namespace {

using c10::CachingDeviceAllocator::DeviceStats;

// Tells torch.profiler that a block was allocated (sign 1) or freed (sign -1).
void report(const dlprim::Block* block, std::int64_t sign) {
  dlprim::Device& owner = dlprim::Allocator::device(block);
  const auto stats = owner.allocator().stats();
  const auto size = std::int64_t(dlprim::Allocator::size(block));
  // Freeing is reported while the block is still there.
  const std::int64_t allocated = stats.allocated_bytes.current - (sign < 0 ? size : 0);
  c10::reportMemoryUsageToProfiler(dlprim::Allocator::address(block), sign * size, std::size_t(allocated),
                                   std::size_t(stats.reserved_bytes.current),
                                   c10::Device(device_type, c10::DeviceIndex(owner.index())));
}

void release(void* context) {
  auto* block = static_cast<dlprim::Block*>(context);
  if (!block) return;
  const MemoryContext history(true);
  if (c10::memoryProfilingEnabled()) report(block, -1);
  dlprim::Allocator::device(block).allocator().release(block);
}

// Blocks that their owners name by the address (make_simple). Leaked: storages may be released at the process' end.
struct NamedBlocks {
  std::mutex mutex;
  std::unordered_map<const void*, dlprim::Block*> at;
};
NamedBlocks& named_blocks() {
  static auto* instance = new NamedBlocks;
  return *instance;
}

void release_named(void* address) {
  NamedBlocks& named = named_blocks();
  dlprim::Block* block;
  {
    std::lock_guard guard(named.mutex);
    block = named.at.extract(address).mapped();
  }
  release(block);
}

// Of memory that this allocator gave, lazily cloned or not; null.
dlprim::Block* block_of(const c10::DataPtr& ptr) {
  if (ptr.get_deleter() == &release) return static_cast<dlprim::Block*>(ptr.get_context());
  NamedBlocks& named = named_blocks();
  std::lock_guard guard(named.mutex);
  const auto found = named.at.find(ptr.get());
  return found == named.at.end() ? nullptr : found->second;
}

void assign(c10::CachingDeviceAllocator::StatArray& to, const dlprim::MemoryStat& from) {
  auto& stat = to[static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
  stat.current = from.current, stat.peak = from.peak;
  stat.allocated = from.allocated, stat.freed = from.freed;
}

// PyTorch takes no memory for pinned before it has heard that the accelerator is used; with CUDA in it, it does not even
// hear of it from its allocator of pinned memory.
void report_use() {
  static std::once_flag once;
  std::call_once(once, [] { at::globalContext().lazyInitDevice(device_type); });
}

class OclAllocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    report_use();
    const c10::DeviceIndex index = resolve_device(current_device());
    const c10::Device where(device_type, index);
    if (bytes == 0) return {nullptr, nullptr, &release, where};
    dlprim::Device& owner = device(index);
    const MemoryContext context;
    dlprim::Block* block =
        translated([&] { return owner.allocator().allocate(bytes, queue_of(current_stream(index))); });
    if (c10::memoryProfilingEnabled()) report(block, 1);
    return {dlprim::Allocator::address(block), block, &release, where};
  }

  // Contexts are blocks, not addresses, so raw_allocate() is not offered.
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }

  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    const auto target = dlprim::Allocator::locate(to), source = dlprim::Allocator::locate(from);
    translated([&] { current_queue().copy(target, source, bytes); });
  }

  bool initialized() override { return pytorch_ocl::initialized(); }

  void emptyCache(c10::MempoolId_t = {0, 0}) override {
    for_each_used_device([](dlprim::Device& device) { device.allocator().empty_cache(); });
  }

  void recordStream(const c10::DataPtr& ptr, c10::Stream stream) override { record_stream(ptr, stream); }

  DeviceStats getDeviceStats(c10::DeviceIndex index) override {
    const auto from = device(index).allocator().stats();
    DeviceStats stats;
    assign(stats.allocation, from.allocations);
    assign(stats.segment, from.segments);
    assign(stats.allocated_bytes, from.allocated_bytes);
    assign(stats.reserved_bytes, from.reserved_bytes);
    assign(stats.active_bytes, from.active_bytes);
    assign(stats.requested_bytes, from.requested_bytes);
    stats.num_alloc_retries = from.retries;
    stats.num_ooms = from.out_of_memory;
    return stats;
  }

  void resetAccumulatedStats(c10::DeviceIndex index) override { device(index).allocator().reset_accumulated_stats(); }
  void resetPeakStats(c10::DeviceIndex index) override { device(index).allocator().reset_peak_stats(); }

  std::pair<std::size_t, std::size_t> getMemoryInfo(c10::DeviceIndex index) override {
    dlprim::Device& owner = device(index);
    return {std::size_t(owner.allocator().free_bytes()), std::size_t(owner.info().global_memory)};
  }
};

OclAllocator& instance() {
  static auto* allocator = new OclAllocator;
  return *allocator;
}

[[maybe_unused]] const bool registered = [] {
  c10::SetAllocator(device_type, &instance(), 1);
  return true;
}();

}  // namespace

c10::DeviceAllocator& device_allocator() { return instance(); }

void make_simple(c10::StorageImpl& storage) {
  const c10::DataPtr& memory = storage.data_ptr();
  if (memory.get_deleter() != &release || !memory.get_context()) return;
  {
    std::lock_guard guard(named_blocks().mutex);
    named_blocks().at.emplace(memory.get(), static_cast<dlprim::Block*>(memory.get_context()));
  }
  void* address = memory.get();
  storage.set_data_ptr(c10::DataPtr(address, address, &release_named, memory.device())).release_context();
}

void record_stream(const c10::DataPtr& ptr, c10::Stream stream) {
  dlprim::Block* block = block_of(ptr);
  if (!block) return;
  translated([&] { dlprim::Allocator::device(block).allocator().record_queue(block, queue_of(stream)); });
}

}  // namespace pytorch_ocl
