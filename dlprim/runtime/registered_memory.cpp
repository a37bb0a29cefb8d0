// SPDX-License-Identifier: MIT
#include <dlprim/runtime/host_memory.hpp>
#include <dlprim/runtime/registered_memory.hpp>

#include <algorithm>
#include <chrono>
#include <functional>
#include <new>

namespace dlprim {

namespace {

// Of the speed of pinned memory: less means that the driver copies by way of memory of its own.
constexpr double enough = 0.6;

constexpr std::align_val_t page{65536};

// The least of a few copies. The host waits for the queue.
double copy_seconds(Queue& queue, BufferRef there, void* here, std::size_t bytes, bool to_host) {
  double best = 1e9;
  queue.record().wait();
  for (int i = 0; i < 4; i++) {
    const auto start = std::chrono::steady_clock::now();
    if (to_host) queue.read(here, there, bytes, false);
    else queue.write(there, here, bytes, false);
    queue.record().wait();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

}  // namespace

void DeletePages::operator()(std::byte* memory) const noexcept { ::operator delete(memory, page); }

HostPages host_pages(std::size_t bytes) {
  return HostPages(static_cast<std::byte*>(::operator new(bytes, page, std::nothrow)));
}

RegisteredMemory::RegisteredMemory(Device& device, void* memory, std::size_t bytes) : memory_(memory) {
  if (!memory) return;
  cl_int code = CL_SUCCESS;
  const cl_mem buffer =
      clCreateBuffer(device.context()(), CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, bytes, memory, &code);
  if (code == CL_SUCCESS) buffer_ = cl::Buffer(buffer);
}

bool RegisteredMemory::is_fast(Queue& queue, BufferRef there, std::size_t bytes, bool to_host) const {
  HostMemory& memory = queue.device().host_memory();
  const std::unique_ptr<void, std::function<void(void*)>> pinned(memory.allocate(bytes),
                                                                 [&](void* used) { memory.release(used); });
  return copy_seconds(queue, there, pinned.get(), bytes, to_host) >
         enough * copy_seconds(queue, there, memory_, bytes, to_host);
}

}  // namespace dlprim
