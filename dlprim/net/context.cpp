// SPDX-License-Identifier: MIT
#include <dlprim/net/context.hpp>

namespace dlprim {

namespace {

Device& first() {
  if (Device::count() == 0) throw ValidationError("[Context] " + Device::missing_reason());
  return Device::get(0);
}

Device& find_device(const std::string& name) {
  if (name == "cpu" || name == "gpu") {
    for (int i = 0; i < Device::count(); i++) {
      const DeviceInfo& info = Device::get(i).info();
      if (name == "cpu" ? info.cpu : info.gpu) return Device::get(i);
    }
  }
  return Device::find(name);
}

}  // namespace

Context::Context() : device_(&first()) {}

Context::Context(const std::string& name) : device_(&find_device(name)) {}

std::string Context::name() const { return device_->info().name + " on " + device_->info().platform; }

}  // namespace dlprim
