// SPDX-License-Identifier: MIT
#include "cuda_driver.hpp"

#include "system.hpp"

namespace dlprim {

namespace {

// Names and values of the driver's ABI (cuda.h).
using Result = int;
using Handle = unsigned long long;
constexpr Result success = 0;
constexpr int pinned = 1, on_device = 1, file_descriptor = 1, least_granularity = 0;

struct Uuid {
  std::array<unsigned char, 16> bytes;
};

struct Location {
  int type, id;
};

struct AllocationProperties {
  int type;
  int handle_types;
  Location location;
  void* windows_meta_data;
  struct {
    unsigned char compression, rdma;
    unsigned short usage;
    std::array<unsigned char, 4> reserved;
  } flags;
};
static_assert(sizeof(void*) != 8 || sizeof(AllocationProperties) == 32);

struct Driver {
  Result (*init)(unsigned flags);
  Result (*device_count)(int* count);
  Result (*device_get)(int* device, int ordinal);
  Result (*device_uuid)(Uuid* uuid, int device);
  Result (*granularity)(std::size_t* bytes, const AllocationProperties* properties, int which);
  Result (*create)(Handle* handle, std::size_t bytes, const AllocationProperties* properties, unsigned long long flags);
  Result (*export_handle)(void* to, Handle handle, int type, unsigned long long flags);
  Result (*release)(Handle handle);
};

template <class Function>
bool find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(library_function(library, name));
  return function != nullptr;
}

// Null where there is no driver, or none with a GPU.
const Driver* driver() noexcept {
  static const std::optional<Driver> loaded = []() -> std::optional<Driver> {
    Driver found{};
    void* library = open_library("libcuda.so.1");
    if (!library || !find(library, "cuInit", found.init) || !find(library, "cuDeviceGetCount", found.device_count) ||
        !find(library, "cuDeviceGet", found.device_get) || !find(library, "cuDeviceGetUuid_v2", found.device_uuid) ||
        !find(library, "cuMemGetAllocationGranularity", found.granularity) ||
        !find(library, "cuMemCreate", found.create) ||
        !find(library, "cuMemExportToShareableHandle", found.export_handle) ||
        !find(library, "cuMemRelease", found.release) || found.init(0) != success)
      return std::nullopt;
    return found;
  }();
  return loaded ? &*loaded : nullptr;
}

std::optional<int> ordinal(const Driver& cuda, const std::array<unsigned char, 16>& uuid) {
  int count = 0;
  if (cuda.device_count(&count) != success) return std::nullopt;
  for (int i = 0; i < count; i++) {
    int device = 0;
    Uuid found{};
    if (cuda.device_get(&device, i) == success && cuda.device_uuid(&found, device) == success && found.bytes == uuid)
      return device;
  }
  return std::nullopt;
}

}  // namespace

std::optional<int> take_exportable(const std::array<unsigned char, 16>& uuid, std::size_t& bytes) noexcept {
  const Driver* cuda = driver();
  const std::optional<int> device = cuda ? ordinal(*cuda, uuid) : std::nullopt;
  if (!device) return std::nullopt;
  AllocationProperties properties{};
  properties.type = pinned;
  properties.handle_types = file_descriptor;
  properties.location = {on_device, *device};
  std::size_t unit = 0;
  if (cuda->granularity(&unit, &properties, least_granularity) != success || unit == 0) return std::nullopt;
  bytes = (bytes + unit - 1) / unit * unit;
  Handle handle = 0;
  if (cuda->create(&handle, bytes, &properties, 0) != success) return std::nullopt;
  int file = -1;
  const bool exported = cuda->export_handle(&file, handle, file_descriptor, 0) == success;
  cuda->release(handle);
  return exported ? std::optional(file) : std::nullopt;
}

}  // namespace dlprim
