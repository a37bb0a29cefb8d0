// SPDX-License-Identifier: MIT
#include "device.hpp"

#include <c10/util/Exception.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>

#include "backward.hpp"
#include "errors.hpp"
#include "fork.hpp"
#ifndef _WIN32
#include <pthread.h>
#endif

namespace pytorch_ocl {

namespace {

constexpr int max_devices = 64;
constexpr int seconds_to_list = 60;  // more than the slowest driver takes to start
thread_local c10::DeviceIndex current = 0;
thread_local std::array<c10::StreamId, max_devices> streams{};
std::atomic<bool> used{false}, forked{false};

#ifndef _WIN32
// A child lacks the threads that would finish work in flight, and drivers wait for it when the child exits.
void before_fork() noexcept {
  try {
    for_each_used_device([](dlprim::Device& device) { device.synchronize(); });
  } catch (...) {  // reported to those who use the device
  }
}

// Nor do the threads of backward passes live in it, for which PyTorch would wait 10 s each.
void in_child() noexcept {
  forked = used.load();
  if (backward::has_threads) setenv("TORCH_AUTOGRAD_SHUTDOWN_WAIT_LIMIT", "0", 0);
}
#endif

void watch_forks() {
#ifndef _WIN32
  pthread_atfork(before_fork, nullptr, in_child);
#endif
}

// Of a device: what the default stream had to do when the program got its first other one.
struct BeforeStreams {
  std::once_flag once;
  std::atomic<bool> passed{false};
  dlprim::Event end;
};

// Leaked: drivers may be gone before static objects are destroyed.
BeforeStreams& before_streams(c10::DeviceIndex index) {
  static auto* instance = new std::array<BeforeStreams, max_devices>;
  return (*instance)[std::size_t(index)];
}

void check_index(c10::DeviceIndex index) {
  TORCH_CHECK(device_count() > 0, "No OpenCL device is available: ", dlprim::Device::missing_reason());
  TORCH_CHECK(index >= 0 && index < device_count(), "ocl: invalid device ordinal ", int(index), ", expected 0 to ",
              int(device_count()) - 1);
}

}  // namespace

c10::DeviceIndex device_count() noexcept {
  static std::atomic<int> known{-1};
  int count = known.load(std::memory_order_relaxed);
  if (count < 0) {
    // Drivers of GPUs start threads when they list their devices, and children forked later crash in them. Who only
    // asks how many devices there are must be able to fork.
    constexpr auto listed = [] { return std::min(dlprim::Device::count(), max_devices); };
    known = count = initialized() ? listed() : call_in_child(listed, seconds_to_list);
  }
  return c10::DeviceIndex(count);
}

c10::DeviceIndex current_device() { return current; }

void set_device(c10::DeviceIndex index) {
  check_index(index);
  current = index;
}

void set_device_unchecked(c10::DeviceIndex index) noexcept { current = index; }

c10::DeviceIndex resolve_device(c10::DeviceIndex index) {
  if (index < 0) index = current;
  check_index(index);
  return index;
}

bool initialized() noexcept { return used.load(std::memory_order_relaxed); }

bool in_bad_fork() noexcept { return forked.load(std::memory_order_relaxed); }

dlprim::Device& device(c10::DeviceIndex index) {
  TORCH_CHECK(!in_bad_fork(),
              "Cannot re-initialize OpenCL in forked subprocess. To use OpenCL with multiprocessing, you "
              "must use the 'spawn' start method");
  if (!used.load(std::memory_order_relaxed)) {
    static std::once_flag once;
    std::call_once(once, watch_forks);
    used = true;
  }
  return translated([&]() -> dlprim::Device& { return dlprim::Device::get(resolve_device(index)); });
}

c10::Stream current_stream(c10::DeviceIndex index) {
  if (index < 0) index = current;
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(device_type, index), streams[std::size_t(index)]);
}

c10::Stream exchange_stream(c10::Stream stream) {
  check_index(stream.device_index());
  const c10::Stream former = current_stream(stream.device_index());
  streams[std::size_t(stream.device_index())] = stream.id();
  return former;
}

dlprim::Queue& queue_of(c10::Stream stream) {
  return translated([&]() -> dlprim::Queue& { return device(stream.device_index()).queue(stream.id()); });
}

c10::Stream new_stream(c10::DeviceIndex index) {
  return translated([&] {
    dlprim::Device& owner = device(index);
    BeforeStreams& before = before_streams(index);
    std::call_once(before.once, [&] {
      before.passed = true;
      before.end = owner.default_queue().mark_enqueued();
    });
    dlprim::Queue& queue = owner.pooled_queue();
    if (!before.end.reached()) queue.wait(before.end);
    return c10::Stream(c10::Stream::UNSAFE, c10::Device(device_type, index), queue.id());
  });
}

bool has_new_streams(c10::DeviceIndex index) noexcept {
  return before_streams(index).passed.load(std::memory_order_relaxed);
}

}  // namespace pytorch_ocl
