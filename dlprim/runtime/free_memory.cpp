// SPDX-License-Identifier: MIT
#include "free_memory.hpp"

#include <array>
#include <cstdio>

#include "system.hpp"

namespace dlprim {

namespace {

// cl_amd_device_attribute_query: KiB free in all, and of the largest block.
std::optional<std::uint64_t> ask_amd(cl_device_id id) {
  constexpr cl_device_info global_free_memory = 0x4039;
  std::array<std::size_t, 2> kibibytes{};
  const cl_int code = clGetDeviceInfo(id, global_free_memory, sizeof kibibytes, kibibytes.data(), nullptr);
  return code == CL_SUCCESS ? std::optional(std::uint64_t(kibibytes[0]) << 10) : std::nullopt;
}

// The functions of NVML that are needed, with its types.
struct Nvml {
  struct Memory {
    unsigned long long total, free, used;
  };
  using Handle = void*;
  int (*handle_by_bus)(const char*, Handle*) = nullptr;
  int (*memory_info)(Handle, Memory*) = nullptr;

  Nvml() {
#ifdef _WIN32
    void* library = open_library("nvml.dll");
#else
    void* library = open_library("libnvidia-ml.so.1");
#endif
    if (!library) return;
    const auto init = reinterpret_cast<int (*)()>(library_function(library, "nvmlInit_v2"));
    if (!init || init() != 0) return;
    handle_by_bus =
        reinterpret_cast<decltype(handle_by_bus)>(library_function(library, "nvmlDeviceGetHandleByPciBusId_v2"));
    memory_info = reinterpret_cast<decltype(memory_info)>(library_function(library, "nvmlDeviceGetMemoryInfo"));
  }
};

// cl_nv_device_attribute_query says where on the bus the device is.
std::optional<std::uint64_t> ask_nvidia(cl_device_id id) {
  static const Nvml nvml;
  if (!nvml.handle_by_bus || !nvml.memory_info) return std::nullopt;
  cl_uint bus = 0, slot = 0, domain = 0;
  if (clGetDeviceInfo(id, 0x4008, sizeof bus, &bus, nullptr) != CL_SUCCESS ||
      clGetDeviceInfo(id, 0x4009, sizeof slot, &slot, nullptr) != CL_SUCCESS)
    return std::nullopt;
  clGetDeviceInfo(id, 0x400A, sizeof domain, &domain, nullptr);
  char name[32];
  std::snprintf(name, sizeof name, "%08x:%02x:%02x.0", domain, bus, slot >> 3);
  Nvml::Handle handle = nullptr;
  if (nvml.handle_by_bus(name, &handle) != 0) {
    // Some drivers give the slot without the function's bits.
    std::snprintf(name, sizeof name, "%08x:%02x:%02x.0", domain, bus, slot);
    if (nvml.handle_by_bus(name, &handle) != 0) return std::nullopt;
  }
  Nvml::Memory memory{};
  return nvml.memory_info(handle, &memory) == 0 ? std::optional<std::uint64_t>(memory.free) : std::nullopt;
}

}  // namespace

std::optional<std::uint64_t> free_memory(const Device& device) {
  const DeviceInfo& info = device.info();
  if (info.gpu && info.vendor == Vendor::amd) return ask_amd(device.id());
  if (info.gpu && info.vendor == Vendor::nvidia) return ask_nvidia(device.id());
  if (info.cpu || info.unified_memory)
    if (const std::uint64_t bytes = available_host_memory()) return bytes;
  return std::nullopt;
}

}  // namespace dlprim
