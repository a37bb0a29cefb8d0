// SPDX-License-Identifier: MIT
#include <dlprim/error.hpp>
#include <dlprim/primitives/check.hpp>
#include <dlprim/runtime/launch.hpp>
#include <dlprim/runtime/status.hpp>

#include <algorithm>

namespace dlprim {

void check_range(Queue& queue, const TensorView& x, float low, float high, const char* message) {
  if (!is_floating(x.dtype) || !x.is_contiguous())
    throw ValidationError(std::string("[check_range] expected a contiguous floating tensor, got ") + name(x.dtype));
  const std::size_t count = std::size_t(x.numel());
  if (count == 0) return;
  Device& device = queue.device();
  static KernelCache<DataType> cache;
  Kernel& kernel = cache.get(device, x.dtype, [&] {
    KernelSource source("check.cl", "check_range");
    return source.define("T", tag(x.dtype));
  });
  constexpr std::size_t group = 64;
  const std::size_t items = std::min(count, std::size_t(device.info().compute_units) * group * 32);
  launch(queue, kernel, NDRange((items + group - 1) / group * group, group), Traffic{count * size_of(x.dtype)}, x.data,
         queue.status().buffer(), cl_int(queue.status().arm(message)), cl_ulong(count), low, high);
}

}  // namespace dlprim
