// SPDX-License-Identifier: MIT
#pragma once
#include <c10/core/Device.h>
#include <c10/util/Exception.h>

#include <limits>

namespace pytorch_ocl {

/// A number from Python as an index of devices: what does not fit its 8 bits is an invalid ordinal, not another device.
inline c10::DeviceIndex device_index(std::int64_t number) {
  using Limits = std::numeric_limits<c10::DeviceIndex>;
  TORCH_CHECK(number >= Limits::min() && number <= Limits::max(), "ocl: invalid device ordinal ", number);
  return c10::DeviceIndex(number);
}

}  // namespace pytorch_ocl
