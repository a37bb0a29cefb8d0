// SPDX-License-Identifier: MIT
#include <dlprim/runtime/registered_memory.hpp>

namespace dlprim {

RegisteredMemory::RegisteredMemory(Device& device, void* memory, std::size_t bytes) {
  cl_int code = CL_SUCCESS;
  const cl_mem buffer =
      clCreateBuffer(device.context()(), CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, bytes, memory, &code);
  if (code == CL_SUCCESS) buffer_ = cl::Buffer(buffer);
}

}  // namespace dlprim
