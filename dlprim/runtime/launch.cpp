// SPDX-License-Identifier: MIT
#include <dlprim/runtime/launch.hpp>
#include <dlprim/runtime/profile.hpp>

namespace dlprim::detail {

namespace {
[[noreturn]] void argument_failed(Kernel& kernel, cl_uint index, cl_int code) {
  throw DeviceError("clSetKernelArg(" + kernel.name() + ", " + std::to_string(index) + ")", code);
}
}  // namespace

cl_uint set_argument(Kernel& kernel, cl_uint index, const void* value, std::size_t bytes) {
  if (const cl_int code = clSetKernelArg(kernel.get(), index, bytes, value)) argument_failed(kernel, index, code);
  return index + 1;
}

cl_uint set_argument(Kernel& kernel, cl_uint index, const BufferRef& buffer) {
  const cl_ulong offset = buffer.offset;
  index = set_argument(kernel, index, &buffer.memory, sizeof(cl_mem));
  return set_argument(kernel, index, &offset, sizeof offset);
}

cl_uint set_argument(Kernel& kernel, cl_uint index, const LocalMemory& local) {
  return set_argument(kernel, index, nullptr, local.bytes);
}

void enqueue(Queue& queue, Kernel& kernel, const NDRange& range, Traffic traffic) {
  std::size_t global[3];
  for (int d = 0; d < range.dims; d++) {
    const std::size_t local = range.local[0] == 0 ? 1 : range.local[d];
    global[d] = (range.global[d] + local - 1) / local * local;
  }
  cl_event event = nullptr;
  const bool profiled = Profiler::enabled();
  const cl_int code =
      clEnqueueNDRangeKernel(queue.get(), kernel.get(), cl_uint(range.dims), nullptr, global,
                             range.local[0] == 0 ? nullptr : range.local, 0, nullptr, profiled ? &event : nullptr);
  if (code != CL_SUCCESS) throw DeviceError("clEnqueueNDRangeKernel(" + kernel.name() + ")", code);
  if (profiled)
    Profiler::record(event, kernel.name().c_str(), queue.device().index(), queue.id(), traffic.bytes);
  queue.enqueued();
}

}  // namespace dlprim::detail
