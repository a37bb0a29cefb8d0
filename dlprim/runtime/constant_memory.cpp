// SPDX-License-Identifier: MIT
#include <dlprim/runtime/constant_memory.hpp>

namespace dlprim {

ConstantMemory::ConstantMemory(Device& device, const void* content, std::size_t bytes) {
  cl_int code = CL_SUCCESS;
  buffer_ = cl::Buffer(clCreateBuffer(device.context()(), CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, bytes,
                                      const_cast<void*>(content), &code));
  if (code == CL_MEM_OBJECT_ALLOCATION_FAILURE || code == CL_OUT_OF_RESOURCES)
    throw OutOfMemoryError("[constant memory] " + device.info().name + " has no room for a table of " +
                           std::to_string(bytes) + " bytes");
  check(code, "clCreateBuffer");
}

}  // namespace dlprim
