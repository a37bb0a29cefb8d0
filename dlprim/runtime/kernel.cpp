// SPDX-License-Identifier: MIT
// Kernels, and which of them stay in memory.
#include <dlprim/runtime/environment.hpp>
#include <dlprim/runtime/program.hpp>
#include <dlprim/runtime/submission.hpp>

#include <algorithm>
#include <array>

#include "simulate.hpp"

namespace dlprim {

namespace {

// A kernel takes up to 5 MiB of the host's memory (measured with Intel's runtime for CPUs); programs use some hundreds.
constexpr std::int64_t default_limit = 1024;

struct Loaded {
  std::mutex mutex;
  std::vector<Kernel*> kernels;
};

// Leaked: kernels may be released while static objects are destroyed.
Loaded& loaded_kernels() {
  static auto* instance = new Loaded;
  return *instance;
}

// Several work-groups with much local memory share one of NVIDIA's compute units only where that memory is not given to
// the cache (cl_nv_kernel_attribute; the attribute is a percentage). A hint: no matter whether it is taken.
void prefer_local_memory(const Device& device, cl_kernel kernel) {
  using SetAttribute = cl_int(CL_API_CALL*)(cl_kernel, cl_device_id, cl_uint, std::size_t, const void*);
  constexpr cl_uint carve_out = 0;
  cl_ulong local = 0;
  cl_platform_id platform = nullptr;
  const cl_device_id id = device.id();
  clGetKernelWorkGroupInfo(kernel, id, CL_KERNEL_LOCAL_MEM_SIZE, sizeof local, &local, nullptr);
  clGetDeviceInfo(id, CL_DEVICE_PLATFORM, sizeof platform, &platform, nullptr);
  if (local < 32768) return;
  void* function = clGetExtensionFunctionAddressForPlatform(platform, "clSetKernelAttributeNV");
  const int percent = 100;
  if (function) reinterpret_cast<SetAttribute>(function)(kernel, id, carve_out, sizeof percent, &percent);
}

}  // namespace

std::atomic<std::uint64_t> Kernel::builds{0};

thread_local int BuildNow::depth = 0;

Kernel::Kernel(Device& device, cl::Kernel kernel, KernelSource source) : Kernel(device, std::move(source)) {
  adopt(std::move(kernel));
  become(State::built);
}

Kernel::Kernel(Device& device, KernelSource source) : device_(device), source_(std::move(source)) {}

void Kernel::build() noexcept {
  try {
    adopt(device_.programs().compile(source_));
    become(State::built);
  } catch (...) {
    error_ = std::current_exception();
    become(State::failed);
  }
}

void Kernel::abandon() noexcept {
  try {
    throw Error("[program] the process ends before " + name() + " is built");
  } catch (...) {
    error_ = std::current_exception();
  }
  become(State::failed);
}

void Kernel::become(State state) noexcept {
  state_.store(state, std::memory_order_release);
  state_.notify_all();
}

void Kernel::wait_until_built() {
  state_.wait(State::building, std::memory_order_acquire);
  if (error_) std::rethrow_exception(error_);
}

std::size_t Kernel::work_group(std::size_t wish) {
  // So many work-items have registers enough on NVIDIA's and AMD's chips whatever the kernel.
  constexpr std::size_t always = 256;
  const DeviceInfo& info = device_.info();
  const bool known = info.gpu && (info.vendor == Vendor::nvidia || info.vendor == Vendor::amd) && wish <= always;
  return std::min(wish, known ? info.max_work_group : max_work_group());
}

// Takes a kernel that was built.
void Kernel::adopt(cl::Kernel kernel) {
  kernel_ = std::move(kernel);
  const DeviceInfo& info = device_.info();
  auto ask = [&](cl_kernel_work_group_info what, auto& value) {
    check(clGetKernelWorkGroupInfo(kernel_(), device_.id(), what, sizeof value, &value, nullptr),
          "clGetKernelWorkGroupInfo");
  };
  std::array<std::size_t, 3> required{};
  cl_ulong local = 0;
  ask(CL_KERNEL_WORK_GROUP_SIZE, max_work_group_);
  ask(CL_KERNEL_COMPILE_WORK_GROUP_SIZE, required);
  ask(CL_KERNEL_LOCAL_MEM_SIZE, local);
  max_work_group_ = std::min(max_work_group_, info.max_work_group);
  fixed_work_group_ = required[0] != 0;
  const std::size_t items = required[0] * required[1] * required[2];
  if (simulation() && (items > info.max_work_group || local > info.local_memory))
    throw DeviceError(name() + " needs work-groups of " + std::to_string(items) + " and " + std::to_string(local) +
                          " bytes of local memory, " + info.name + " has " + std::to_string(info.max_work_group) +
                          " and " + std::to_string(info.local_memory),
                      CL_OUT_OF_RESOURCES);
  keep();
}

Kernel::~Kernel() {
  state_.wait(State::building, std::memory_order_acquire);
  {
    std::lock_guard guard(loaded_kernels().mutex);
    std::erase(loaded_kernels().kernels, this);
  }
  if (Submission* submission = device_.submission()) submission->wait();  // launches on their way name this
}

void Kernel::load() {
  kernel_ = device_.programs().compile(source_);
  keep();
}

// Enters a kernel that was just built. Where there are too many, those go that were not used for the longest time; a
// kernel whose lock is held is being launched.
void Kernel::keep() {
  if (device_.info().nv_inline_ptx) prefer_local_memory(device_, kernel_());
  used_.store(builds.fetch_add(1) + 1);
  const auto limit = std::size_t(environment::number("DLPRIM_PROGRAM_LIMIT").value_or(default_limit));
  std::lock_guard guard(loaded_kernels().mutex);
  auto& kernels = loaded_kernels().kernels;
  if (kernels.size() >= limit) {
    std::vector<std::pair<std::uint64_t, Kernel*>> by_age;
    for (Kernel* kernel : kernels) by_age.emplace_back(kernel->used_.load(), kernel);
    std::sort(by_age.begin(), by_age.end());
    // A quarter at once, so that sorting is rare.
    by_age.resize(kernels.size() - (limit - (limit + 3) / 4));
    for (auto& [used, kernel] : by_age)
      if (std::unique_lock own(kernel->lock_, std::try_to_lock); own) {
        kernel->kernel_ = cl::Kernel();  // the driver keeps what runs
        std::erase(kernels, kernel);
      }
  }
  kernels.push_back(this);
}

std::size_t Kernel::loaded() {
  std::lock_guard guard(loaded_kernels().mutex);
  return loaded_kernels().kernels.size();
}

}  // namespace dlprim
