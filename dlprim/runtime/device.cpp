// SPDX-License-Identifier: MIT
#include <dlprim/runtime/copy_queue.hpp>
#include <dlprim/runtime/device.hpp>
#include <dlprim/runtime/environment.hpp>
#include <dlprim/runtime/host_memory.hpp>
#include <dlprim/runtime/memory.hpp>
#include <dlprim/runtime/program.hpp>
#include <dlprim/runtime/queue.hpp>
#include <dlprim/runtime/submission.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>

#include "builders.hpp"
#include "device_list.hpp"
#include "staging.hpp"

namespace dlprim {

namespace {

constexpr int pool_size = 32;  // queues besides the default one, as CUDA's stream pool
static_assert(first_copy_queue == 1 + pool_size, "ids follow each other");
constexpr std::int64_t queue_count = first_copy_queue + copy_queues;

struct Listing {
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<ListedDevice> listed;
  std::string reason;

  Listing() {
    try {
      listed = list_devices(environment::raw("OCL_VISIBLE_DEVICES"), reason);
    } catch (const std::exception& error) {
      reason = error.what();
    }
    for (std::size_t i = 0; i < listed.size(); i++)
      devices.push_back(std::make_unique<Device>(int(i), listed[i].id, listed[i].info));
  }

  std::string describe() const {
    std::string text;
    for (auto& device : devices)
      text += "\n  " + std::to_string(device->index()) + " (" + device->info().id + "): " + device->info().name + " [" +
              device->info().platform + "]";
    return text;
  }
};

// Leaked: device objects must outlive every static that may still release memory at exit.
Listing& listing() {
  static Listing* instance = new Listing;
  return *instance;
}

}  // namespace

struct Device::State {
  std::once_flag once;
  std::atomic<bool> ready{false};
  cl::Context context;
  std::unique_ptr<Allocator> allocator;
  std::unique_ptr<HostMemory> host_memory;
  std::unique_ptr<ProgramCache> programs;
  std::unique_ptr<Submission> submission;
  std::unique_ptr<Staging> staging;
  std::mutex queues_mutex;
  std::array<std::atomic<Queue*>, std::size_t(queue_count)> queues{};
  std::atomic<unsigned> next{0};
};

Device::Device(int index, cl_device_id id, DeviceInfo info)
    : index_(index), id_(id), info_(std::move(info)), state_(std::make_unique<State>()) {}

int Device::count() noexcept { return int(listing().devices.size()); }

const std::string& Device::missing_reason() { return listing().reason; }

Device& Device::get(int index) {
  auto& all = listing();
  if (all.devices.empty()) throw ValidationError("[device] no OpenCL device is available: " + all.reason);
  if (index < 0 || index >= int(all.devices.size()))
    throw ValidationError("[device] expected an index from 0 to " + std::to_string(all.devices.size() - 1) + ", got " +
                          std::to_string(index) + ". Devices:" + all.describe());
  return *all.devices[std::size_t(index)];
}

Device& Device::find(std::string_view text) {
  auto& all = listing();
  for (std::size_t i = 0; i < all.listed.size(); i++)
    if (device_matches(all.listed[i], int(i), text)) return *all.devices[i];
  throw ValidationError("[device] expected an index, \"platform:device\" or part of a name, got '" + std::string(text) +
                        "'. Devices:" + (all.devices.empty() ? " none: " + all.reason : all.describe()));
}

Device::State& Device::state() {
  State& state = *state_;
  std::call_once(state.once, [&] {
    cl_platform_id platform = nullptr;
    check(clGetDeviceInfo(id_, CL_DEVICE_PLATFORM, sizeof platform, &platform, nullptr), "clGetDeviceInfo");
    const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM, cl_context_properties(platform), 0};
    cl_int code = CL_SUCCESS;
    state.context = cl::Context(clCreateContext(properties, 1, &id_, nullptr, nullptr, &code));
    check(code, "clCreateContext");
    state.ready = true;
    state.programs = std::make_unique<ProgramCache>(*this);
    state.allocator = std::make_unique<Allocator>(*this);
    state.host_memory = std::make_unique<HostMemory>(*this);
    state.submission = Submission::make(info_);
    state.staging = std::make_unique<Staging>(*this);
    if (info_.compiles_at_launch()) Builders::instance();  // waits for the driver at the process' end
  });
  return state;
}

const cl::Context& Device::context() { return state_->ready.load() ? state_->context : state().context; }

bool Device::initialized() const noexcept { return state_->ready.load(); }

Allocator& Device::allocator() { return *state().allocator; }

HostMemory& Device::host_memory() { return *state().host_memory; }

ProgramCache& Device::programs() { return *state().programs; }

Staging& Device::staging() { return *state().staging; }

Submission* Device::submission() { return state().submission.get(); }

Queue& Device::queue(std::int64_t id) {
  State& own = state();
  if (id < 0 || id >= queue_count)
    throw ValidationError("[queue] expected an id from 0 to " + std::to_string(queue_count - 1) + ", got " +
                          std::to_string(id));
  auto& slot = own.queues[std::size_t(id)];
  if (Queue* queue = slot.load(std::memory_order_acquire)) return *queue;
  std::lock_guard guard(own.queues_mutex);
  if (!slot.load()) slot.store(new Queue(*this, id), std::memory_order_release);
  return *slot.load();
}

Queue& Device::default_queue() { return queue(0); }

Queue& Device::pooled_queue() { return queue(1 + std::int64_t(state().next.fetch_add(1) % pool_size)); }

bool Device::idle() {
  return std::ranges::all_of(state().queues, [](auto& slot) { return !slot.load() || slot.load()->idle(); });
}

void Device::synchronize() {
  for (auto& slot : state().queues)
    if (Queue* queue = slot.load()) queue->finish();
}

}  // namespace dlprim
