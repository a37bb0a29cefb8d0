// SPDX-License-Identifier: MIT
#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/DeviceGuard.h>

#include <dlprim/runtime/warning.hpp>

#include "allocator.hpp"
#include "device.hpp"
#include "errors.hpp"
#include "generator.hpp"
#include "host_allocator.hpp"
#include "tensor.hpp"

namespace pytorch_ocl {

namespace {

struct OclHooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return device_count() > 0; }
  void init() const override { device(-1); }
  bool hasPrimaryContext(c10::DeviceIndex index) const override {
    return initialized() && dlprim::Device::get(resolve_device(index)).initialized();
  }
  c10::DeviceIndex deviceCount() const override { return device_count(); }
  void setCurrentDevice(c10::DeviceIndex index) const override { set_device(index); }
  c10::DeviceIndex getCurrentDevice() const override { return current_device(); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
    const c10::DeviceIndex former = current_device();
    if (index >= 0) set_device(index);
    return former;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override { return exchangeDevice(index); }

  // Where PyTorch has CUDA, memory of the CPU is pinned by it (c10/core: GetCPUAllocatorMaybePinned).
  bool isPinnedPtr(const void* data) const override {
    return is_pinned(data) || (at::hasCUDA() && at::detail::getCUDAHooks().isPinnedPtr(data));
  }
  at::Allocator* getPinnedMemoryAllocator() const override { return &host_allocator(); }

  c10::Device getDeviceFromPtr(void* data) const override {
    dlprim::Device* owner = dlprim::Allocator::device_of(data);
    TORCH_CHECK(owner, "The specified pointer is not memory of an ocl device.");
    return {device_type, c10::DeviceIndex(owner->index())};
  }

  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override { return default_generator(index); }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override {
    return at::make_generator<OclGenerator>(resolve_device(index));
  }

  void resizePrivateUse1Bytes(const c10::Storage& storage, std::size_t bytes) const override {
    const c10::DeviceGuard guard(storage.device());
    at::DataPtr memory = device_allocator().allocate(bytes);
    const std::size_t kept = std::min(bytes, storage.nbytes());
    if (kept) device_allocator().copy_data(memory.get(), storage.data(), kept);
    storage.set_data_ptr_noswap(std::move(memory));
    storage.set_nbytes(bytes);
  }
};

[[maybe_unused]] const bool registered = [] {
  at::RegisterPrivateUse1HooksInterface(new OclHooks);
  dlprim::set_warning_handler([](const std::string& message) { TORCH_WARN(message); });
  return true;
}();

}  // namespace

}  // namespace pytorch_ocl
