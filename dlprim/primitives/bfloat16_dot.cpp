// SPDX-License-Identifier: MIT
#include "bfloat16_dot.hpp"

#include <dlprim/runtime/program.hpp>

#include <atomic>
#include <memory>
#include <mutex>

namespace dlprim {

namespace {

bool cpu_has_dot() {
#if defined(__x86_64__) && defined(__GNUC__)
  return __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

constexpr const char* trial = R"(
#include "lib/bfloat16_dot.clh"
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void dot_trial(__global ushort *y, __global const float *x) {
  vstore16(ROUND_TO_BFLOAT16(ADD_PRODUCTS((float16)(0), vload16(0, x), vload16(1, x))), 0, y);
}
)";

int find_out(Device& device) {
  const DeviceInfo& info = device.info();
  const int unit = info.vendor == Vendor::intel ? 1 : info.vendor == Vendor::pocl ? 2 : 0;
  if (!info.cpu || unit == 0 || !cpu_has_dot()) return 0;
  KernelSource source = KernelSource::from_text(trial, "dot_trial");
  source.define("BFLOAT16_DOT", unit);
  return device.programs().accepts(source) ? unit : 0;
}

}  // namespace

int bfloat16_dot(const Device& device) {
  static std::mutex mutex;
  static const auto known = std::make_unique<std::atomic<int>[]>(std::size_t(Device::count()));  // 1 + the unit
  auto& unit = known[std::size_t(device.index())];
  if (const int value = unit.load(std::memory_order_relaxed)) return value - 1;
  std::lock_guard guard(mutex);
  if (!unit) unit = 1 + find_out(Device::get(device.index()));
  return unit - 1;
}

}  // namespace dlprim
