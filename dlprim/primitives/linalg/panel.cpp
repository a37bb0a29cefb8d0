// SPDX-License-Identifier: MIT
#include "panel.hpp"

#include <bit>

namespace dlprim::linalg {

PanelShape panel_shape(const DeviceInfo& device, DataType type, std::int64_t rows, std::int64_t columns,
                       std::size_t most_group) {
  constexpr std::uint64_t most_rows = 16;
  const auto size = size_of(type);
  const std::size_t wish =
      std::clamp<std::size_t>(std::bit_ceil(std::uint64_t(rows)), 16, device.cpu ? 64 : most_group);
  const std::size_t group = fitting_group(device, wish);
  const std::uint64_t each = std::bit_ceil(std::uint64_t((rows + group - 1) / group));
  // Half the bytes of registers: GPUs have up to 1 KiB for a work-item and 256 KiB for a work-group.
  const std::uint64_t registers = std::min<std::uint64_t>(512, (128 << 10) / std::uint64_t(group));
  if (each > most_rows) return {std::uint16_t(group), 0, 16};
  std::uint64_t width = std::clamp<std::uint64_t>(std::bit_floor(registers / (each * size)), 4, size > 8 ? 16 : 32);
  width = std::min(width, std::max<std::uint64_t>(4, std::bit_ceil(std::uint64_t(columns))));
  return {std::uint16_t(group), std::uint16_t(each), std::uint16_t(width)};
}

KernelSource& define(KernelSource& source, const PanelShape& shape) {
  return source.define("GROUP", std::int64_t(shape.group))
      .define("ROWS", std::int64_t(shape.rows))
      .define("WIDTH", std::int64_t(shape.width));
}

}  // namespace dlprim::linalg
