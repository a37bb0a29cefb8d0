// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/launch.hpp>

#include <algorithm>

namespace dlprim {

/// The range of a kernel made of the loops of lib/each_line.clh, over `count` > 0 elements in lines of `width`.
inline NDRange line_range(const Queue& queue, std::uint64_t count, std::int64_t width, std::size_t work_group) {
  constexpr std::uint64_t items_of_unit = 8;
  const DeviceInfo& info = queue.device().info();
  if (!info.cpu) return NDRange(count, work_group);
  return NDRange(std::min<std::uint64_t>(count / std::uint64_t(width), items_of_unit * info.compute_units), 1);
}

}  // namespace dlprim
