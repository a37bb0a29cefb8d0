// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/device.hpp>

namespace dlprim {

struct ListedDevice {
  cl_device_id id;
  DeviceInfo info;
};

/// Every device of every platform, GPUs before accelerators before CPUs, restricted and ordered by `visible` (the text
/// of OCL_VISIBLE_DEVICES; null: all). When the result is empty, `reason` says why.
std::vector<ListedDevice> list_devices(const char* visible, std::string& reason);

/// Why a device of this byte order and address width cannot be used; null when it can.
const char* refusal(bool little_endian, unsigned address_bits);

/// Whether "3", "0:1" or a name pattern means this device, of index `index` among those listed.
bool device_matches(const ListedDevice& device, int index, std::string_view text);

}  // namespace dlprim
