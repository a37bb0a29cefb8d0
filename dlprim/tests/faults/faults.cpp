// SPDX-License-Identifier: MIT
// The system's OpenCL with a device that fails when memory is filled, for DLPRIM_OPENCL_LIBRARY. What is not defined here
// is found in the loader, which this library is linked with. FAULTY_OPENCL says how it fails.
#include <dlfcn.h>

#include <cstdlib>
#include <string_view>

namespace {

std::string_view fault() {
  const char* chosen = std::getenv("FAULTY_OPENCL");
  return chosen ? chosen : "";
}

template <class... Arguments>
int forward(const char* name, Arguments... arguments) {
  return reinterpret_cast<int (*)(Arguments...)>(dlsym(RTLD_NEXT, name))(arguments...);
}

}  // namespace

extern "C" {

int clEnqueueFillBuffer(void* queue, void* buffer, const void* pattern, std::size_t pattern_size, std::size_t offset,
                        std::size_t size, unsigned count, const void* events, void* event) {
  if (fault() == "lost") return -36;  // CL_INVALID_COMMAND_QUEUE
  if (fault() == "faulted" || fault() == "full") return -5;  // CL_OUT_OF_RESOURCES
  return forward("clEnqueueFillBuffer", queue, buffer, pattern, pattern_size, offset, size, count, events, event);
}

int clFinish(void* queue) {
  if (fault() == "faulted") return -9999;
  return forward("clFinish", queue);
}
}
