// SPDX-License-Identifier: MIT
#include "simulate.hpp"

#include <dlprim/runtime/environment.hpp>

#include <algorithm>
#include <charconv>

namespace dlprim {

namespace {

template <class T>
void lower(T& limit, std::uint64_t value) {
  limit = T(std::min<std::uint64_t>(limit, value));
}

// NVIDIA's Hopper, an H200.
void become_hopper(DeviceInfo& info) {
  info.vendor = Vendor::nvidia, info.cpu = false, info.gpu = true, info.warp = 32, info.unified_memory = false;
  info.nv_inline_ptx = true, info.nv_compute_capability = 90;
  info.compute_units = 132, info.max_work_group = 1024, info.local_memory = 48 << 10, info.max_parameters = 4352;
  info.fp16 = info.fp64 = info.int64_atomics = true, info.subgroups = false;
}

// False for a key that does not exist.
bool set(DeviceInfo& info, std::string_view key, std::uint64_t value) {
  if (key == "work_group") lower(info.max_work_group, value);
  else if (key == "local_memory") lower(info.local_memory, value);
  else if (key == "parameters") lower(info.max_parameters, value);
  else if (key == "allocation") lower(info.max_allocation, value);
  else if (key == "memory") lower(info.global_memory, value << 20);
  else if (key == "warp") info.warp = unsigned(value);
  else if (key == "fp64") info.fp64 = info.fp64 && value;
  else if (key == "fp16") info.fp16 = info.fp16 && value;
  else if (key == "int64_atomics") info.int64_atomics = info.int64_atomics && value;
  else if (key == "subgroups") info.subgroups = info.subgroups && value;
  else if (key == "hopper" && value) become_hopper(info);
  else if (key == "amd" && value) info.vendor = Vendor::amd;
  else if (key == "gpu") info.gpu = value, info.cpu = !value;
  else return false;
  return true;
}

}  // namespace

const char* simulation() { return environment::text("DLPRIM_SIMULATE"); }

bool computes_nothing(const DeviceInfo& info) {
  static const bool hopper = simulation() && std::string_view(simulation()).find("hopper=1") != std::string_view::npos;
  return hopper && info.nv_inline_ptx;
}

void simulate(DeviceInfo& info, std::string_view settings) {
  while (!settings.empty()) {
    const std::string_view entry = settings.substr(0, settings.find(','));
    settings.remove_prefix(std::min(settings.size(), entry.size() + 1));
    const auto equals = std::min(entry.find('='), entry.size());
    const std::string_view digits = entry.substr(std::min(equals + 1, entry.size()));
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size() || !set(info, entry.substr(0, equals), value))
      throw ValidationError("[device] expected DLPRIM_SIMULATE to hold settings such as work_group=64,fp64=0, got '" +
                            std::string(entry) + "'");
  }
}

}  // namespace dlprim
