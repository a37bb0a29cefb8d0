// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/device.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace dlprim {

/// A line of driver_defects.tsv.
struct DriverDefect {
  std::string platform, driver, kernels, reason;
};

/// The lines of a text in the format of driver_defects.tsv. Throws ValidationError for one that does not have four fields.
std::vector<DriverDefect> driver_defects_in(std::string_view text);

/// What this driver is known to compute wrong in `kernel`, "file:kernel" of dlprim/kernels, or, for "*", on its devices
/// as a whole; null where nothing is known. Drivers are listed in driver_defects.tsv and, for this process, in the file
/// that DLPRIM_DRIVER_DEFECTS names.
const DriverDefect* driver_defect(const DeviceInfo& device, std::string_view kernel);

}  // namespace dlprim
