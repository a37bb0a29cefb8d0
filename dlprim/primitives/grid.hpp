// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/launch.hpp>

#include <algorithm>
#include <bit>

namespace dlprim {

/// a / b, rounded up; neither is negative.
inline std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Work-items for x * y * z elements, x the fastest axis in memory: work-groups of 256 shaped like the array, z in a
/// stride loop because drivers limit the groups along it.
struct Grid {
  std::int64_t x, y, z;
  Grid(std::int64_t x, std::int64_t y, std::int64_t z) : x(x), y(y), z(z) {}

  NDRange range() const {
    constexpr std::uint64_t group = 256, most_z = 32768, most_local_z = 64;  // NVIDIA's limits
    auto fit = [](std::int64_t size, std::uint64_t most) {
      return std::size_t(std::min(std::bit_ceil(std::uint64_t(std::max<std::int64_t>(size, 1))), most));
    };
    const std::size_t lx = fit(x, 64), ly = fit(y, group / lx), lz = fit(z, std::min(group / (lx * ly), most_local_z));
    return NDRange(std::size_t(x), std::size_t(y), std::min<std::size_t>(std::size_t(z), most_z * lz), lx, ly, lz);
  }
};

}  // namespace dlprim
