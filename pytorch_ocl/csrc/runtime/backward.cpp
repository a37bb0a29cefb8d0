// SPDX-License-Identifier: MIT
// PyTorch's engine asks every device guard for its number of devices at the first backward pass of a process, starts as
// many threads and from then on refuses backward passes in forked children. A program for the CPU must not come to that
// (nor wait for drivers to list their devices) because a package is installed: the engine is started here with no
// device, and gets its threads here, too, when a stream is first asked for, as autograd does for a tensor on a device and
// Dynamo for any function. Children have an engine of their own, which PyTorch makes, and may not use a device that was
// used before (device.cpp). Read in PyTorch 2.11 to 2.14.
#include "backward.hpp"

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#ifndef _WIN32
#include <pthread.h>
#endif

#include "device.hpp"

namespace pytorch_ocl {

namespace backward {

std::atomic<bool> hides_devices{false}, has_threads{false};

namespace {

using torch::autograd::Engine;

// Reaches what the engine keeps for classes that derive from it.
struct Access : Engine {
  static bool has_queues(Engine& engine) { return !(engine.*&Access::device_ready_queues_).empty(); }
  // Like Engine::start_device_threads, but forked children may go on with backward passes on the CPU.
  static void start(Engine& engine) {
    std::vector<std::shared_ptr<torch::autograd::ReadyQueue>> queues;
    queues.resize(std::size_t(device_count()));
    for (auto& queue : queues) queue = std::make_shared<torch::autograd::ReadyQueue>();
    (engine.*&Access::device_ready_queues_) = queues;
    for (int i = 0; i < int(queues.size()); i++) {
      (engine.*&Access::increment_non_reentrant_thread_count)();  // so that the engine's end waits for the thread
      std::thread([&engine, i, queue = queues[std::size_t(i)]] {
        engine.thread_init(i, queue, false);
        (engine.*&Access::decrement_non_reentrant_thread_count)();
      }).detach();
    }
  }
};

// A build for CUDA where NVIDIA's driver lists no device, by the names of files as pytorch_ocl_autoload.py tells it: its
// guard counts none.
bool has_no_device(c10::DeviceType type) {
#ifdef __linux__
  return type == c10::DeviceType::CUDA && !std::filesystem::exists("/dev/nvidia0") &&
         !std::filesystem::exists("/dev/dxg");
#else
  return false;
#endif
}

// Another accelerator's guard would list its devices, too: then the engine starts as PyTorch does it.
bool other_accelerator() {
  using c10::DeviceType;
  constexpr DeviceType on_the_host[] = {DeviceType::CPU, DeviceType::Meta, DeviceType::Lazy, device_type};
  for (int type = 0; type < int(DeviceType::COMPILE_TIME_MAX_DEVICE_TYPES); type++)
    if (c10::impl::hasDeviceGuardImpl(DeviceType(type)) && !has_no_device(DeviceType(type)) &&
        std::ranges::find(on_the_host, DeviceType(type)) == std::end(on_the_host))
      return true;
  return false;
}

[[maybe_unused]] const bool started_without_devices = [] {
  if (other_accelerator()) return false;
  hides_devices = true;
  try {
    Engine::get_default_engine().initialize_device_threads_pool();
  } catch (const std::exception&) {  // in a child forked after a backward pass: the engine says so when it is used
  }
  hides_devices = false;
  return true;
}();

}  // namespace

void start_threads() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (has_threads) return;
  Engine& engine = Engine::get_default_engine();
  engine.initialize_device_threads_pool();
  if (!Access::has_queues(engine)) Access::start(engine);
#ifndef _WIN32
  [[maybe_unused]] static const int watched = pthread_atfork(nullptr, nullptr, [] { has_threads = false; });
#endif
  has_threads = true;
}

namespace {

// A node that does nothing, on the thread of the device that its gradient names.
struct Barrier : torch::autograd::Node {
  explicit Barrier(const at::Tensor& gradient) { add_input_metadata(gradient); }
  torch::autograd::variable_list apply(torch::autograd::variable_list&&) override { return {}; }
};

// Edges hold nodes by std::shared_ptr before PyTorch 2.13, by c10::intrusive_ptr since.
template <class Pointer, class Node>
Pointer make_node(const at::Tensor& gradient) {
  if constexpr (std::is_same_v<Pointer, std::shared_ptr<torch::autograd::Node>>)
    return std::make_shared<Node>(gradient);
  else return c10::make_intrusive<Node>(gradient);
}

}  // namespace

void finish_threads() {
  if (!has_threads) return;
  for (c10::DeviceIndex i = 0; i < device_count(); i++) {
    // No elements and no memory: the device need not have been used.
    const at::Tensor gradient =
        at::detail::make_tensor<c10::TensorImpl>(c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                                 caffe2::TypeMeta::Make<float>(), c10::Device(device_type, i));
    const torch::autograd::Edge barrier(make_node<decltype(torch::autograd::Edge::function), Barrier>(gradient), 0);
    Engine::get_default_engine().execute({barrier}, {gradient}, false, false, true);
  }
}

}  // namespace backward

}  // namespace pytorch_ocl
