// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/device.hpp>

namespace dlprim {

/// What this driver is known to compute wrong in `kernel`, "file:kernel" of dlprim/kernels, or, for an empty text, on
/// its devices as a whole (driver_defects.inc); null where nothing is known.
const char* driver_defect(const DeviceInfo& device, std::string_view kernel);

}  // namespace dlprim
