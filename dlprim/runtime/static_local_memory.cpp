// SPDX-License-Identifier: MIT
#include <dlprim/runtime/program.hpp>
#include <dlprim/runtime/queue.hpp>
#include <dlprim/runtime/static_local_memory.hpp>

#include <map>

#include "simulate.hpp"

namespace dlprim {

namespace {

// What a work-group may have by the CUDA C++ Programming Guide's table of compute capabilities, less what the driver
// adds to a kernel's own; 0 where it is no more than reported.
std::size_t limit_of_chip(int capability) {
  constexpr std::size_t kib = 1024, added = 16;
  switch (capability) {
    case 70:
    case 72: return 96 * kib - added;
    case 75: return 64 * kib - added;
    case 80:
    case 87: return 163 * kib - added;
    case 86:
    case 89:
    case 120:
    case 121: return 99 * kib - added;
    case 90:
    case 100:
    case 101:
    case 103: return 227 * kib - added;
    default: return 0;
  }
}

// Writes all of an array and reads it back from its end.
constexpr const char* text = R"(
__kernel __attribute__((reqd_work_group_size(32, 1, 1))) void fill_local(__global uint *out) {
  __local uint array[WORDS];
  for (uint i = get_local_id(0); i < WORDS; i += 32) array[i] = i + 1;
  barrier(CLK_LOCAL_MEM_FENCE);
  uint sum = 0;
  for (uint i = get_local_id(0); i < WORDS; i += 32) sum += array[WORDS - 1 - i];
  out[get_local_id(0)] = sum;
}
)";

bool works(Device& device, std::size_t bytes) {
  const std::size_t words = bytes / sizeof(cl_uint);
  KernelSource source = KernelSource::from_text(text, "fill_local");
  source.define("WORDS", std::int64_t(words));
  try {
    const cl::Kernel kernel = device.programs().compile(source);
    cl_int code = CL_SUCCESS;
    std::array<cl_uint, 32> sums{};
    const cl::CommandQueue queue(clCreateCommandQueue(device.context()(), device.id(), 0, &code));
    check(code, "clCreateCommandQueue");
    const cl::Buffer out(clCreateBuffer(device.context()(), CL_MEM_READ_WRITE, sizeof sums, nullptr, &code));
    check(code, "clCreateBuffer");
    const cl_mem memory = out();
    check(clSetKernelArg(kernel(), 0, sizeof memory, &memory), "clSetKernelArg");
    const std::size_t items = sums.size();
    check(clEnqueueNDRangeKernel(queue(), kernel(), 1, nullptr, &items, &items, 0, nullptr, nullptr), "launch");
    check(clEnqueueReadBuffer(queue(), memory, CL_TRUE, 0, sizeof sums, sums.data(), 0, nullptr, nullptr), "read");
    cl_uint found = 0, expected = 0;
    for (cl_uint sum : sums) found += sum;
    for (cl_uint i = 0; i < words; i++) expected += i + 1;
    return found == expected;
  } catch (const Error&) {
    return false;  // an older driver
  }
}

std::size_t find_out(Device& device) {
  const DeviceInfo& info = device.info();
  const std::size_t limit = info.nv_inline_ptx ? limit_of_chip(info.nv_compute_capability) : 0;
  const bool usable = limit > info.local_memory && (computes_nothing(info) || works(device, limit));
  return usable ? limit : info.local_memory;
}

}  // namespace

std::size_t static_local_memory(const Device& device) {
  static std::mutex mutex;
  static const auto known = std::make_unique<std::atomic<std::size_t>[]>(std::size_t(Device::count()));
  auto& bytes = known[std::size_t(device.index())];
  if (const std::size_t value = bytes.load(std::memory_order_relaxed)) return value;
  std::lock_guard guard(mutex);
  if (!bytes) bytes = find_out(Device::get(device.index()));
  return bytes;
}

}  // namespace dlprim
