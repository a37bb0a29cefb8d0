// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/tensor_view.hpp>

#include <cstdint>

namespace dlprim {

class Device;

/// Addresses given to device memory. They lie in a range that no process maps (reading one on the host faults) and are
/// cut into granules; a table of granules leads to the segment in constant time, without a lock.
namespace address {

inline constexpr std::uint64_t granule = std::uint64_t(1) << 21;

struct Segment {
  Device* device = nullptr;
  ::_cl_mem* memory = nullptr;
  std::uint64_t base = 0, size = 0;
};

/// Reserves addresses for `segment.size` bytes, fills in `base`. The segment must stay alive until retract().
/// False when the device's range (16 TiB) has no gap of that size, and for devices after the 64th.
[[nodiscard]] bool publish(Segment& segment);
void retract(const Segment& segment) noexcept;
/// The segment of an address; null for addresses that are not ours.
const Segment* find(std::uint64_t address) noexcept;
/// Whether a buffer is a published segment's.
bool is_segment(const ::_cl_mem* memory);

}  // namespace address
}  // namespace dlprim
