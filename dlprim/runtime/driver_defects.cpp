// SPDX-License-Identifier: MIT
#include "driver_defects.hpp"

namespace dlprim {

namespace {

struct Defect {
  std::string_view platform, driver, kernels;
  const char* reason;
};

#define DEFECT(platform, driver, kernels, reason) {platform, driver, kernels, reason},
constexpr Defect defects[] = {
#include "driver_defects.inc"
};
#undef DEFECT

}  // namespace

const char* driver_defect(const DeviceInfo& device, std::string_view kernel) {
  for (const Defect& defect : defects)
    if (device.platform == defect.platform && device.driver.starts_with(defect.driver) &&
        kernel.starts_with(defect.kernels))
      return defect.reason;
  return nullptr;
}

}  // namespace dlprim
