// SPDX-License-Identifier: MIT
#include "dot_products.hpp"

#include <dlprim/runtime/program.hpp>

#include <atomic>
#include <memory>
#include <mutex>

namespace dlprim {

namespace {

#if defined(__x86_64__) && defined(__GNUC__)
bool cpu_has_bfloat16() { return __builtin_cpu_supports("avx512bf16"); }
bool cpu_has_bytes() { return __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw"); }
#else
bool cpu_has_bfloat16() { return false; }
bool cpu_has_bytes() { return false; }
#endif

constexpr const char* bfloat16_trial = R"(
#include "lib/bfloat16_dot.clh"
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void dot_trial(__global ushort *y, __global const float *x) {
  vstore16(ROUND_TO_BFLOAT16(ADD_PRODUCTS((float16)(0), vload16(0, x), vload16(1, x))), 0, y);
}
)";

constexpr const char* byte_trial = R"(
#include "lib/byte_dot.clh"
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void dot_trial(__global int *y, __global const int *x) {
  vstore16(dot_of_bytes((int16)(0), vload16(0, x), vload16(1, x)), 0, y);
}
)";

int find_out(Device& device, bool cpu_has, const char* name, const char* trial) {
  const DeviceInfo& info = device.info();
  const int unit = info.vendor == Vendor::intel ? 1 : info.vendor == Vendor::pocl ? 2 : 0;
  if (!info.cpu || unit == 0 || !cpu_has) return 0;
  KernelSource source = KernelSource::from_text(trial, "dot_trial");
  source.define(name, unit);
  return device.programs().accepts(source) ? unit : 0;
}

// What was found out about each device.
class Units {
 public:
  template <class Find>
  int operator()(const Device& device, const Find& find) {
    auto& unit = known_[std::size_t(device.index())];
    if (const int value = unit.load(std::memory_order_relaxed)) return value - 1;
    std::lock_guard guard(mutex_);
    if (!unit) unit = 1 + find(Device::get(device.index()));
    return unit - 1;
  }

 private:
  std::mutex mutex_;
  std::unique_ptr<std::atomic<int>[]> known_ = std::make_unique<std::atomic<int>[]>(std::size_t(Device::count()));
};

}  // namespace

int bfloat16_dot(const Device& device) {
  static Units units;
  return units(device, [](Device& d) { return find_out(d, cpu_has_bfloat16(), "BFLOAT16_DOT", bfloat16_trial); });
}

int byte_dot(const Device& device) {
  static Units units;
  return units(device, [](Device& d) { return find_out(d, cpu_has_bytes(), "BYTE_DOT", byte_trial); });
}

}  // namespace dlprim
