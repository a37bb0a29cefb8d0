// SPDX-License-Identifier: MIT
#include <dlprim/runtime/peer_memory.hpp>

#include <algorithm>
#include <array>
#include <utility>

#include "cuda_driver.hpp"
#include "loader.hpp"
#include "system.hpp"

namespace dlprim {

namespace {

// Of cl_khr_device_uuid, cl_khr_external_memory and OpenCL 3.0, which the headers for OpenCL 1.2 leave out.
using Property = cl_ulong;
constexpr cl_device_info device_uuid = 0x106A;
constexpr Property file_handle = 0x2060;
using CreateWithProperties = cl_mem(CL_API_CALL*)(cl_context, const Property*, cl_mem_flags, std::size_t, void*,
                                                  cl_int*);
using Acquire = cl_int(CL_API_CALL*)(cl_command_queue, cl_uint, const cl_mem*, cl_uint, const cl_event*, cl_event*);

constexpr const char* extension = "cl_khr_external_memory_opaque_fd";

cl::Buffer adopt_buffer(cl_mem buffer, cl_int code, const char* call) {
  check(code, call);
  return cl::Buffer(buffer);
}

// OpenCL takes over the descriptor that it is given.
cl::Buffer import(Device& device, int file, std::size_t bytes) {
  const auto create = reinterpret_cast<CreateWithProperties>(loader_function("clCreateBufferWithProperties"));
  cl_platform_id platform = nullptr;
  clGetDeviceInfo(device.id(), CL_DEVICE_PLATFORM, sizeof platform, &platform, nullptr);
  const auto acquire = reinterpret_cast<Acquire>(
      clGetExtensionFunctionAddressForPlatform(platform, "clEnqueueAcquireExternalMemObjectsKHR"));
  if (!create || !acquire || device.info().extensions.find(extension) == std::string::npos)
    throw NotImplementedError("[peer memory] " + device.info().name + " has no " + extension);
  const int copy = copy_file(file);
  if (copy < 0) throw DeviceError("a copy of a file descriptor", CL_OUT_OF_HOST_MEMORY);
  const std::array<Property, 3> properties = {file_handle, Property(copy), 0};
  cl_int code = CL_SUCCESS;
  const cl_mem made = create(device.context()(), properties.data(), CL_MEM_READ_WRITE, bytes, nullptr, &code);
  if (code != CL_SUCCESS) close_file(copy);
  cl::Buffer buffer = adopt_buffer(made, code, "clCreateBufferWithProperties");
  const cl::CommandQueue queue(clCreateCommandQueue(device.context()(), device.id(), 0, &code));
  check(code, "clCreateCommandQueue");
  const cl_mem memory = buffer();
  check(acquire(queue(), 1, &memory, 0, nullptr, nullptr), "clEnqueueAcquireExternalMemObjectsKHR");
  check(clFinish(queue()), "clFinish");
  return buffer;
}

}  // namespace

void PeerMemory::swap(PeerMemory& other) noexcept {
  std::swap(file_, other.file_), std::swap(bytes_, other.bytes_);
  std::swap(of_device_, other.of_device_), std::swap(mapped_, other.mapped_);
  owner_.swap(other.owner_);
}

PeerMemory::~PeerMemory() {
  if (mapped_) unmap_file(mapped_, bytes_);
  if (file_ >= 0) close_file(file_);
}

PeerMemory PeerMemory::adopt(int file, std::size_t bytes, bool of_device) {
  PeerMemory memory;
  memory.file_ = file;
  memory.bytes_ = bytes;
  memory.of_device_ = of_device;
  return memory;
}

PeerMemory PeerMemory::take(Device& device, std::size_t bytes) {
  const DeviceInfo& info = device.info();
  if (info.cpu) {
    constexpr std::size_t page = 4096;
    bytes = (bytes + page - 1) / page * page;
    const int file = memory_file(bytes);
    if (file < 0) throw DeviceError("memory that processes share", CL_OUT_OF_HOST_MEMORY);
    PeerMemory memory = adopt(file, bytes, false);
    memory.owner_ = "host";
    return memory;
  }
  std::array<unsigned char, 16> uuid{};
  if (info.vendor != Vendor::nvidia || info.extensions.find(extension) == std::string::npos ||
      clGetDeviceInfo(device.id(), device_uuid, uuid.size(), uuid.data(), nullptr) != CL_SUCCESS)
    throw NotImplementedError("[peer memory] " + info.name + " has no memory that other processes reach");
  const std::optional<int> file = take_exportable(uuid, bytes);
  if (!file) throw DeviceError("cuMemCreate", CL_MEM_OBJECT_ALLOCATION_FAILURE);
  const int kept = copy_file(*file);  // programs that this process starts would keep the memory, too
  close_file(*file);
  PeerMemory memory = adopt(kept, bytes, true);
  for (const unsigned byte : uuid) memory.owner_ += {"0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]};
  return memory;
}

cl::Buffer PeerMemory::buffer(Device& device) {
  if (of_device_) return import(device, file_, bytes_);
  if (!mapped_) mapped_ = map_file(file_, bytes_);
  if (!mapped_) throw DeviceError("memory that processes share", CL_OUT_OF_HOST_MEMORY);
  cl_int code = CL_SUCCESS;
  const cl_mem made =
      clCreateBuffer(device.context()(), CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, bytes_, mapped_, &code);
  return adopt_buffer(made, code, "clCreateBuffer");
}

}  // namespace dlprim
