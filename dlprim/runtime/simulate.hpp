// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/device.hpp>

namespace dlprim {

/// Makes a device look smaller, so that what small devices need can be tested on any: `settings` is the text of
/// DLPRIM_SIMULATE, "work_group=64,local_memory=16384,fp64=0". Keys: work_group (work-items), local_memory, parameters
/// and allocation (bytes), memory (MiB), warp (work-items), fp64, fp16, int64_atomics, subgroups and gpu (0 or 1).
/// Limits only get lower. Kernels that exceed them are refused as such a device would.
/// hopper=1 is the exception: the device counts as NVIDIA's H200, for which programs are chosen and written
/// (DLPRIM_KERNEL_DUMP), but neither built nor run.
/// Throws ValidationError for an unknown key or a value that is not a number.
void simulate(DeviceInfo& info, std::string_view settings);

/// The text of DLPRIM_SIMULATE; null when devices are what they are.
const char* simulation();

/// Whether the device counts as Hopper by `hopper=1`: no driver takes its programs, and launches do nothing.
bool computes_nothing(const DeviceInfo& info);

}  // namespace dlprim
